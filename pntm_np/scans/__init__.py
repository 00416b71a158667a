"""The three recurrences of P-NTM, each in several forms that give the same answer, values and gradients.

    from pntm_np.scans import conv_shift_scan, gated_scan, memory_scan

Axes, everywhere in this order: B batch, T time, then heads (H; R read and W write heads), then m cells or n numbers.
Every function takes a start state and returns the final one, so a sequence can be cut anywhere and carried on. All are
differentiable in every input (``autodiff``), for any T, m, n and number of heads >= 1, and for an empty batch.

Forms: ``sequential`` is the loop, and the definition. ``paper`` is the paper's log-space scan: approximate, with
values > 0. ``chunked`` is exact and parallel inside chunks, and the default. ``fused`` is the loop compiled by Numba,
for the CPU, if that is installed. ``head_scan`` runs all of a layer's heads
in time segments, so that without gradients its need for memory does not grow with T.
"""

from pntm_np.scans.forms import FORMS, FormUnavailable, default_form, usable_forms
from pntm_np.scans.heads.segments import HeadState, head_scan, start_state
from pntm_np.scans.scan import CONV_SHIFT, GATED, MEMORY, conv_shift_scan, gated_scan, memory_scan
from pntm_np.scans.stabilise import stabilise
