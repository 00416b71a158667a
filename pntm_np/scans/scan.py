"""One function per recurrence, which checks its arguments and runs the given form."""

from __future__ import annotations

from collections.abc import Callable

from autodiff import Value, expect
from pntm_np.scans.conv_shift.chunked import conv_shift_chunked
from pntm_np.scans.conv_shift.paper import conv_shift_paper
from pntm_np.scans.conv_shift.sequential import conv_shift_sequential
from pntm_np.scans.forms import FORMS, check_form
from pntm_np.scans.gated.chunked import gated_chunked
from pntm_np.scans.gated.paper import gated_paper
from pntm_np.scans.gated.sequential import gated_sequential
from pntm_np.scans.memory.chunked import memory_chunked
from pntm_np.scans.memory.paper import memory_paper
from pntm_np.scans.memory.sequential import memory_sequential

Forms = dict[str, Callable[..., tuple[Value, Value]]]


# Loading Numba takes half a second, so it is imported when a fused form runs.
def gated_fused(*arrays: Value) -> tuple[Value, Value]:
    from pntm_np.scans.gated.fused import gated_fused

    return gated_fused(*arrays)


def conv_shift_fused(*arrays: Value) -> tuple[Value, Value]:
    from pntm_np.scans.conv_shift.fused import conv_shift_fused

    return conv_shift_fused(*arrays)


def memory_fused(*arrays: Value) -> tuple[Value, Value]:
    from pntm_np.scans.memory.fused import memory_fused

    return memory_fused(*arrays)


GATED: Forms = dict(zip(FORMS, (gated_sequential, gated_paper, gated_chunked, gated_fused), strict=True))
CONV_SHIFT: Forms = dict(
    zip(FORMS, (conv_shift_sequential, conv_shift_paper, conv_shift_chunked, conv_shift_fused), strict=True)
)
MEMORY: Forms = dict(zip(FORMS, (memory_sequential, memory_paper, memory_chunked, memory_fused), strict=True))


def gated_scan(
    z: Value, c: Value, h0: Value, *, form: str = "chunked", chunk: int | None = None
) -> tuple[Value, Value]:
    """h_t = (1 - z_t) h_{t-1} + z_t c_t: gates z and candidates c (B, T, ...), initial state h0 (B, ...).

    Returns the states h_1 .. h_T (B, T, ...) and h_T (B, ...). ``chunk`` is the number of time steps in a chunk of the
    chunked form; by default it depends on the size of the state.
    """
    check_arrays(z=z, c=c, h0=h0)
    _expect("z", z, len(z.shape) >= 2, "(B, T, ...)")
    _expect("z", z, z.shape[1] >= 1, "(B, T, ...) with T >= 1")
    _expect("c", c, c.shape == z.shape, f"{z.shape}, that of z")
    _expect("h0", h0, h0.shape == z.shape[:1] + z.shape[2:], f"{z.shape[:1] + z.shape[2:]}, that of z without time")
    return _run("gated_scan", GATED, form, chunk, z, c, h0)


def conv_shift_scan(s: Value, a0: Value, *, form: str = "chunked", chunk: int | None = None) -> tuple[Value, Value]:
    """Move the initial addresses a0 (B, ..., m) by shifts s (B, T, ..., 3): weights of left, stay and right.

    Returns a_0 .. a_{T-1} (B, T, ..., m), the addresses *before* the shift of each time step, at which P-NTM reads and
    writes, and a_T (B, ..., m). ``chunk`` is the number of time steps in a chunk of the chunked form.
    """
    check_arrays(s=s, a0=a0)
    _expect("s", s, len(s.shape) >= 3 and s.shape[-1] == 3, "(B, T, ..., 3): left, stay, right")
    _expect("s", s, s.shape[1] >= 1, "(B, T, ..., 3) with T >= 1")
    heads = s.shape[:1] + s.shape[2:-1]
    expected = f"({', '.join(map(str, heads))}, m) with m >= 1, for s of shape {s.shape}"
    _expect("a0", a0, len(a0.shape) >= 1 and a0.shape[:-1] == heads and a0.shape[-1] >= 1, expected)
    return _run("conv_shift_scan", CONV_SHIFT, form, chunk, s, a0)


def memory_scan(
    q: Value, w: Value, v: Value, M0: Value, *, form: str = "chunked", chunk: int | None = None
) -> tuple[Value, Value]:
    """M_t = (1 - w_t) M_{t-1} + w_t v_t in every cell, then r_t = q_t M_t, for every pair of heads.

    q (B, T, R, m) read addresses, w (B, T, W, m) write addresses, v (B, T, W, n) values, M0 (B, W, m, n).
    Returns the reads (B, T, R, W, n) and M_T (B, W, m, n). ``chunk`` is the number of time steps in a chunk of the
    chunked form, rounded up to a power of two.
    """
    check_arrays(q=q, w=w, v=v, M0=M0)
    _expect("q", q, len(q.shape) == 4 and min(q.shape[1:]) >= 1, "(B, T, R, m) with T, R, m >= 1")
    batch, length, _, cells = q.shape
    expected = f"({batch}, {length}, W, {cells}) with W >= 1, for q of shape {q.shape}"
    _expect("w", w, len(w.shape) == 4 and (*w.shape[:2], w.shape[3]) == (batch, length, cells), expected)
    _expect("w", w, w.shape[2] >= 1, expected)
    writers = w.shape[2]
    expected = f"({batch}, {length}, {writers}, n) with n >= 1, for w of shape {w.shape}"
    _expect("v", v, len(v.shape) == 4 and v.shape[:3] == (batch, length, writers) and v.shape[3] >= 1, expected)
    shape = (batch, writers, cells, v.shape[3])
    _expect("M0", M0, M0.shape == shape, f"{shape}")
    return _run("memory_scan", MEMORY, form, chunk, q, w, v, M0)


def check_arrays(**arrays: Value) -> None:
    """Refuse anything but float32 and float64 arrays, for which the gradients are written."""
    for name, x in arrays.items():
        dtype = getattr(x, "dtype", None)
        if dtype is None or dtype.kind != "f" or dtype.itemsize < 4:
            given = type(x).__name__ if dtype is None else f"an array of {dtype}"
            raise TypeError(f"{name} is {given}; expected a float32 or float64 array")


def _expect(name: str, x: Value, holds: bool, expected: str) -> None:
    if not holds:
        raise ValueError(f"{name} has shape {tuple(x.shape)}; expected {expected}")


def _run(name: str, forms: Forms, form: str, chunk: int | None, *arrays: Value) -> tuple[Value, Value]:
    check_form(name, form, *arrays)
    if chunk is None:
        return forms[form](*arrays)
    if form != "chunked":
        raise ValueError(f"{name}: chunk is {chunk}, but form is {form!r}; only 'chunked' has chunks")
    chunk = expect.integer(f"{name}: chunk", chunk)
    if chunk < 1:
        raise ValueError(f"{name}: chunk is {chunk}; expected at least 1")
    return forms[form](*arrays, chunk=chunk)
