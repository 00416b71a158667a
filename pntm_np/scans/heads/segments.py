"""Read and write heads on a memory, from shifts and values to reads, in time segments between which state is carried.

The largest arrays are the addresses, T x m numbers per head. Only those of one segment exist at a time, so that beyond
inputs and reads the need for RAM does not grow with T. With gradients, all are kept for the backward pass.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from autodiff import Array, DType, Namespace, Tensor, Value, array_module, concatenate, expect, plain
from autodiff.backend import FLOAT32
from pntm_np.scans.forms import check_form
from pntm_np.scans.scan import check_arrays, conv_shift_scan, memory_scan

SEGMENT = 256  # time steps; longer segments are not faster


class HeadState(NamedTuple):
    read_address: Value  # (B, R, m)
    write_address: Value  # (B, W, m)
    memory: Value  # (B, W, m, n)


def start_state(
    xp: Namespace, batch: int, readers: int, writers: int, cells: int, width: int, dtype: DType = FLOAT32
) -> HeadState:
    """All heads on the first cell of an empty memory."""

    def first_cell(heads: int) -> Array:
        a = xp.zeros((batch, heads, cells), dtype)
        a[..., 0] = 1
        return a

    return HeadState(first_cell(readers), first_cell(writers), xp.zeros((batch, writers, cells, width), dtype))


def head_scan(
    read_shifts: Value,
    write_shifts: Value,
    values: Value,
    state: HeadState,
    *,
    form: str = "chunked",
    segment: int | None = None,
) -> tuple[Value, HeadState]:
    """Write, read and move the heads: read_shifts (B, T, R, 3), write_shifts (B, T, W, 3), values (B, T, W, n).

    Returns the reads (B, T, R, W, n) and the final state. ``segment`` is the number of time steps whose addresses exist
    at a time: 256 by default, but all of them in the paper form, whose errors a restart would hide. The fused form is
    one compiled pass without segments.
    """
    length = _check(read_shifts, write_shifts, values, state)
    check_form("head_scan", form, read_shifts, write_shifts, values, *state)
    if form == "fused":
        if segment is not None:
            raise ValueError(f"head_scan: segment is {segment}, but form is 'fused', which has no segments")
        from pntm_np.scans.heads.fused import heads_fused, heads_run

        args = (read_shifts, write_shifts, values, *state)
        found, *after = heads_run(*args)[0] if plain(args) else heads_fused(*args)
        return found, HeadState(*after)
    if segment is None:
        segment = length if form == "paper" else SEGMENT
    segment = expect.integer("head_scan: segment", segment)
    if segment < 1:
        raise ValueError(f"head_scan: segment is {segment}; expected at least 1")
    parts, readers = [], read_shifts.shape[2]
    reads: Any = None
    shifts = concatenate(read_shifts, write_shifts, axis=2)  # read and write heads move in the same way
    address, memory = concatenate(state.read_address, state.write_address, axis=1), state.memory
    for t in range(0, length, segment):
        now = (slice(None), slice(t, t + segment))
        addresses, address = conv_shift_scan(shifts[now], address, form=form)
        q, w = addresses[:, :, :readers], addresses[:, :, readers:]
        part, memory = memory_scan(q, w, values[now], memory, form=form)
        del addresses, q, w  # free them for the next segment's
        if type(part) is Tensor:
            parts.append(part)
            continue
        if reads is None:
            reads = array_module(part).empty((part.shape[0], length, *part.shape[2:]), part.dtype)
        reads[now] = part
    state = HeadState(address[:, :readers], address[:, readers:], memory)
    return concatenate(*parts, axis=1) if parts else reads, state


def _check(read_shifts: Value, write_shifts: Value, values: Value, state: HeadState) -> int:
    """Check that all shapes agree; return the number of time steps."""
    check_arrays(read_shifts=read_shifts, write_shifts=write_shifts, values=values)
    if len(values.shape) != 4 or min(values.shape[1:]) < 1:
        raise ValueError(f"values has shape {values.shape}; expected (B, T, W, n) with T, W, n >= 1")
    if not isinstance(state, HeadState):
        raise TypeError(f"state is {type(state).__name__}; expected a HeadState, as start_state makes it")
    check_arrays(**{f"state.{name}": x for name, x in state._asdict().items()})
    if len(state.memory.shape) != 4 or state.memory.shape[2] < 1:
        raise ValueError(f"state.memory has shape {state.memory.shape}; expected (B, W, m, n) with m >= 1")
    batch, length, writers, width = values.shape
    readers, cells = (read_shifts.shape[2] if len(read_shifts.shape) == 4 else 0), state.memory.shape[-2]
    expected = {
        "read_shifts": (read_shifts, (batch, length, max(readers, 1), 3)),
        "write_shifts": (write_shifts, (batch, length, writers, 3)),
        "state.read_address": (state.read_address, (batch, readers, cells)),
        "state.write_address": (state.write_address, (batch, writers, cells)),
        "state.memory": (state.memory, (batch, writers, cells, width)),
    }
    for name, (x, shape) in expected.items():
        if tuple(x.shape) != shape:
            raise ValueError(f"{name} has shape {x.shape}; expected {shape}, for values of shape {values.shape}")
    return length
