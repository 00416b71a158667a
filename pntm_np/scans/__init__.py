"""The three recurrences of P-NTM, each in several forms that give the same values and gradients.

    from pntm_np.scans import conv_shift_scan, gated_scan, memory_scan

Axes are always in this order: B batch, T time, then heads (H; R read and W write heads), then m cells or n numbers.
Every function takes an initial state and returns the final one, so that a sequence can be continued from any time step.
All are differentiable in every input, for any T, m, n and number of heads >= 1, and for an empty batch.

``sequential`` is the loop over time steps, and the definition. ``paper`` is the paper's log-space scan, which is
approximate and needs values > 0. ``chunked``, the default, is exact, and parallel inside chunks. ``fused`` is the loop
compiled by Numba, for the CPU. ``head_scan`` runs all heads of a layer in time segments, so that without gradients its
need for RAM does not grow with T.
"""

from pntm_np.scans.forms import FORMS, FormUnavailable, default_form, usable_forms
from pntm_np.scans.heads.segments import HeadState, head_scan, start_state
from pntm_np.scans.scan import CONV_SHIFT, GATED, MEMORY, conv_shift_scan, gated_scan, memory_scan
from pntm_np.scans.stabilise import stabilise
