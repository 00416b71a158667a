"""Draw random cases of the recurrences and compare every form with the loop: python -m tests.pntm_np.scans.draw 200000

The suite draws a thousand; this is for once after a change of a form. It goes on after a case that is out of bounds,
prints each, and ends with an error if there was one.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from tests.pntm_np.scans.cases import KINDS, SCANS, Case
from tests.pntm_np.scans.test_forms import SHORT, check_exact, check_paper

CELLS = (1, 2, 3, 4, 5, 8, 16, 17, 20)


def draw(rng: np.random.Generator) -> Case:
    return Case(
        scan=str(rng.choice(list(SCANS))),
        length=int(rng.choice(SHORT)),
        kind=str(rng.choice(KINDS)),
        seed=int(rng.integers(2**31)),
        batch=int(rng.integers(4)),
        heads=int(rng.integers(1, 4)),
        readers=int(rng.integers(1, 4)),
        cells=int(rng.choice(CELLS)),
        width=int(rng.integers(1, 5)),
    )


def main(count: int, seed: int) -> int:
    rng, wrong, start = np.random.default_rng(seed), 0, time.monotonic()
    for done in range(1, count + 1):
        case, chunk = draw(rng), int(rng.integers(41))
        try:
            check_exact(case, chunk=chunk or None)
            check_paper(case)
        except AssertionError as error:
            wrong += 1
            print(f"out of bounds, in chunks of {chunk or 'any size'}: {error}", flush=True)
        if done % 10_000 == 0 or done == count:
            print(f"{done:,} cases, {wrong} out of bounds, {time.monotonic() - start:,.0f} s", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0))
