"""Exact one-hot programs with an integer oracle: where must the head be?"""

from __future__ import annotations

import numpy as np
import pytest

from pntm_np.scans import conv_shift_scan

CELLS = (1, 2, 16, 17, 96, 100, 512)
PROGRAMS = ("right", "left", "sweep", "random")


def moves(program: str, length: int, cells: int) -> np.ndarray:
    """One of -1, 0, +1 for each step."""
    if program == "sweep":  # to the last cell and back, again and again
        period = max(cells - 1, 1)
        return np.where((np.arange(length) // period) % 2 == 0, 1, -1)
    if program == "random":
        return np.random.default_rng(length + cells).integers(-1, 2, length)
    return np.full(length, 1 if program == "right" else -1)


def head_error(form: str, program: str, length: int, cells: int) -> tuple[float, int]:
    """The largest error of an address in float32, and how often its largest cell is not where the head must be."""
    steps = moves(program, length, cells)
    places = np.concatenate([[0], np.cumsum(steps)]) % cells  # the oracle
    shifts = np.eye(3, dtype=np.float32)[steps + 1][None, :, None]
    a = np.zeros((1, 1, cells), np.float32)
    a[..., 0] = 1
    worst, misplaced = 0.0, 0
    for t in range(0, length, 4096):  # in segments: all addresses at once would be large
        found, a = conv_shift_scan(shifts[:, t : t + 4096], a, form=form)
        rows = found[0, :, 0]
        expected = np.eye(cells, dtype=np.float32)[places[t : t + len(rows)]]
        worst = max(worst, float(np.abs(rows - expected).max()))
        misplaced += int((rows.argmax(-1) != places[t : t + len(rows)]).sum())
    assert a.argmax() == places[-1] or form == "paper"
    return worst, misplaced


@pytest.mark.parametrize("form", ["sequential", "chunked"])
@pytest.mark.parametrize("cells", CELLS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_head_is_where_it_must_be(form: str, cells: int, program: str):
    for length in (1, 2, 300, 4096):
        worst, misplaced = head_error(form, program, length, cells)
        assert worst <= 1e-6 and misplaced == 0, (length, worst, misplaced)


@pytest.mark.long
@pytest.mark.parametrize("form", ["sequential", "chunked"])
@pytest.mark.parametrize("cells", CELLS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_head_is_where_it_must_be_after_65_536_steps(form: str, cells: int, program: str):
    worst, misplaced = head_error(form, program, 65_536, cells)
    assert worst <= 1e-6 and misplaced == 0


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_paper_form_keeps_the_head_with_phases_in_double_precision(program: str):
    """In one go: the sum of phases is what is at stake. The clamp hides the growth of the largest cell."""
    steps = moves(program, 8192, 96)
    shifts = np.eye(3, dtype=np.float32)[steps + 1][None, :, None]
    a = np.zeros((1, 1, 96), np.float32)
    a[..., 0] = 1
    found, _ = conv_shift_scan(shifts, a, form="paper")
    places = np.concatenate([[0], np.cumsum(steps)])[:-1] % 96
    assert (found[0, :, 0].argmax(-1) == places).all()
    assert np.abs(found[0, :, 0] - np.eye(96)[places]).max() <= 1e-6
