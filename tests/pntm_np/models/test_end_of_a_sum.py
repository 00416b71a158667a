"""No P-NTM with one-hot shifts and gates that are open or closed can end a stripped sum: docs/binary-addition.md, seen.

Two inputs whose sums have the same first D bits, of which one ends there, leave every head on the same cells and differ
in what stands on a few of them. For any machine there are such inputs between which it cannot tell at step D.
"""

from __future__ import annotations

import numpy as np
import pytest

from pntm_np.models import Options, build
from tasks import TASKS

TASK = TASKS["binary-addition"].with_end_token()
ONE_HOT = Options(tau=1.0, gate_tau=0.5)  # the largest strength becomes 1; gates become 0 or 1


def bits(length: int, *ones: int) -> str:
    return "".join("1" if place in ones else "0" for place in range(length))


def ending(j: int, D: int, length: int) -> str:
    """x has ones at 0, j and D - 1, y at 0 and j: the sum has D digits."""
    return f"{bits(length, 0, j, D - 1)}+{bits(length, 0, j)}"


def going_on(j: int, e: int, D: int, length: int) -> str:
    """One 1 of x has moved from j to j + 1, one of y from j to e >= D: the same D digits, and a 1 at e."""
    return f"{bits(length, 0, j + 1, D - 1)}+{bits(length, 0, e)}"


def at_step(machine, params, texts: list[str], D: int, cells: int) -> np.ndarray:
    """Logits after the first D digits of the sum: what the machine would write next."""
    rows = [TASK.encode(f"{text}|{TASK.solve(text)[:D]}") for text in texts]
    return machine.forward(params, np.stack(rows), cells, ONE_HOT)[:, -1]


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_there_are_sums_that_no_such_machine_tells_apart(heads: int, seed: int):
    machine = build("pntm", TASK.vocabulary, width=12, heads=heads, cell=2 * heads)
    params = machine.init(np.random.default_rng(seed), np.float64)
    params = {name: 5 * w if "norm" not in name else w for name, w in params.items()}  # no two logits are nearly equal
    near_j, near_e = 14 * heads**2, 7 * heads**2  # at most so many are seen, by the proof
    places = range(3, 3 + near_j + 1)
    D = places[-1] + 4
    ends = range(D, D + near_e + 1)
    length = ends[-1] + 2
    cells = 2 * (3 * length + 2)
    texts = [ending(j, D, length) for j in places]
    assert {len(TASK.solve(text)) for text in texts} == {D}
    here = at_step(machine, params, texts, D, cells)
    for j, expected in zip(places, here, strict=True):
        longer = [going_on(j, e, D, length) for e in ends]
        assert all(TASK.solve(text)[:D] == TASK.solve(ending(j, D, length)) for text in longer)
        assert [len(TASK.solve(text)) for text in longer] == [e + 1 for e in ends]
        same = (at_step(machine, params, longer, D, cells) == expected).all(axis=1)
        if same.any():
            return
    raise AssertionError("the machine tells all of them apart")


def test_a_blurred_machine_tells_them_apart():
    """The same inputs, and the same parameters with soft shifts and gates: that is what the proof is about."""
    machine = build("pntm", TASK.vocabulary, width=12, heads=1, cell=2)
    params = machine.init(np.random.default_rng(0), np.float64)
    tokens = [TASK.encode(f"{text}|{TASK.solve(text)[:9]}") for text in (ending(3, 9, 20), going_on(3, 12, 9, 20))]
    first, second = machine.forward(params, np.stack(tokens), 200, Options())[:, -1]
    assert np.abs(first - second).max() > 1e-9
