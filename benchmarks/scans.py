"""Measure every form of every recurrence against the length: time, speed-up over the loop, and accuracy.

``make bench-scans`` runs this. Sizes are those of the paper's efficiency experiment: batch size 8, one pair of heads,
512 cells of 16 numbers, float32. The forms of one length take turns. Runs that would not fit into RAM or would take
minutes are not tried, and the line says what they would need.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import autodiff as ad
from pntm_np.scans import FORMS, conv_shift_scan, gated_scan, memory_scan

BATCH, CELLS, WIDTH, GATED_WIDTH = 8, 512, 16, 384
LENGTHS = (64, 256, 1024, 4096, 8192, 16_384, 65_536)
MEMORY_LIMIT, TIME_LIMIT = 8e9, 20.0


def shifts(rng: np.random.Generator, length: int) -> np.ndarray:
    return rng.dirichlet(np.ones(3), (BATCH, length, 1)).astype(np.float32)


def first_cell() -> np.ndarray:
    a = np.zeros((BATCH, 1, CELLS), np.float32)
    a[..., 0] = 1
    return a


def gated_inputs(rng: np.random.Generator, length: int) -> list[np.ndarray]:
    z, c = rng.random((2, BATCH, length, GATED_WIDTH), dtype=np.float32)
    return [z, c + 0.5, np.zeros((BATCH, GATED_WIDTH), np.float32)]


def conv_shift_inputs(rng: np.random.Generator, length: int) -> list[np.ndarray]:
    return [shifts(rng, length), first_cell()]


def memory_inputs(rng: np.random.Generator, length: int) -> list[np.ndarray]:
    q, w = (conv_shift_scan(shifts(rng, length), first_cell())[0] for _ in range(2))
    v = rng.random((BATCH, length, 1, WIDTH), dtype=np.float32) + 0.5
    return [q, w, v, np.zeros((BATCH, 1, CELLS, WIDTH), np.float32)]


SCANS: dict[str, tuple[Callable, Callable]] = {
    "gated": (gated_scan, gated_inputs),
    "conv_shift": (conv_shift_scan, conv_shift_inputs),
    "memory": (memory_scan, memory_inputs),
}


def need(scan: str, form: str, length: int, backward: bool) -> float:
    """About how many bytes a form needs: the arrays that grow with the length, times how many of them are alive."""
    steps = BATCH * length
    if scan == "gated":
        return steps * GATED_WIDTH * 4 * (12 if backward else 6)
    addresses = steps * CELLS * 4
    if scan == "conv_shift":
        spectra = steps * (CELLS // 2 + 1) * 16
        return (7 if backward else 5) * spectra if form == "paper" else addresses * (4 if backward else 2)
    if form == "paper":
        return addresses * WIDTH * (9 if backward else 5)
    return addresses * (6 if backward else 2)


def timed(run: Callable[[], object], repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def forward_and_backward(scan: Callable, inputs: list[np.ndarray], form: str) -> None:
    value, pullback = ad.vjp(lambda *a: scan(*a, form=form), *inputs)
    pullback(tuple(np.ones_like(y) for y in value))


def bench(scan_name: str, lengths: tuple[int, ...], repeats: int) -> None:
    scan, make = SCANS[scan_name]
    print(
        f"\n{scan_name:12s}{'form':12s}{'T':>8s}{'forward':>12s}{'x loop':>9s}{'+ backward':>13s}{'x loop':>9s}",
        flush=True,
    )
    last: dict[tuple[str, bool], tuple[int, float]] = {}
    for length in lengths:
        inputs = make(np.random.default_rng(0), length)
        loop: dict[bool, float] = {}
        for form in FORMS:
            cells = []
            for backward in (False, True):
                key = form, backward
                known_length, known = last.get(key, (length, 0.0))
                expected, bytes_needed = known * length / known_length, need(scan_name, form, length, backward)
                if bytes_needed > MEMORY_LIMIT:
                    cells += [f"({bytes_needed / 1e9:.0f} GB)", ""]
                    continue
                if expected > TIME_LIMIT:
                    cells += [f"(~{expected:.0f} s)", ""]
                    continue
                run = (
                    (lambda: forward_and_backward(scan, inputs, form))
                    if backward
                    else (lambda: scan(*inputs, form=form))
                )
                seconds = timed(run, repeats if expected < 2 else 1)
                last[key] = length, seconds
                if form == "sequential":
                    loop[backward] = seconds
                cells += [f"{seconds:.4f} s", f"{loop[backward] / seconds:.2g}" if backward in loop else ""]
            print(
                f"{'':12s}{form:12s}{length:8d}{cells[0]:>12s}{cells[1]:>9s}{cells[2]:>13s}{cells[3]:>9s}", flush=True
            )


def programs(lengths: tuple[int, ...], cells: int = CELLS) -> None:
    """Errors of each form for a head that moves one way, sweeps or wanders, by exact one-hot shifts."""
    print(f"\none-hot programs, m = {cells}, float32: largest error of an address, and of its sum (which should be 1)")
    print(f"{'program':12s}{'T':>8s}" + "".join(f"{form:>24s}" for form in FORMS))
    rng = np.random.default_rng(0)
    for name in ("right", "sweep", "random"):
        for length in lengths:
            steps = {
                "right": np.ones(length, int),
                "sweep": np.where((np.arange(length) // (cells - 1)) % 2 == 0, 1, -1),
                "random": rng.integers(-1, 2, length),
            }[name]
            places = np.concatenate([[0], np.cumsum(steps)[:-1]]) % cells
            s = np.eye(3, dtype=np.float32)[steps + 1][None, :, None]
            row = ""
            for form in FORMS:
                addresses = conv_shift_scan(s, first_cell()[:1], form=form)[0][0, :, 0]
                sums = np.abs(addresses.sum(-1, dtype=np.float64) - 1).max()
                addresses[np.arange(length), places] -= 1
                row += f"{np.abs(addresses).max():14.1e}{sums:10.1e}"
            print(f"{name:12s}{length:8d}{row}", flush=True)


def forgetting(lengths: tuple[int, ...]) -> None:
    """What is left of the value of a cell that was written once."""
    print("\nwhat is left of the value of a cell that was written once")
    print(f"{'T':>8s}" + "".join(f"{form:>14s}" for form in FORMS))
    for length in lengths:
        w = np.zeros((1, length, 1, 2), np.float32)
        w[:, 0, :, 0], w[:, 1:, :, 1] = 1, 1
        q = np.zeros((1, length, 1, 2), np.float32)
        q[..., 0] = 1
        v = np.full((1, length, 1, 1), 1e-3, np.float32)  # what is written to the other cell, and leaks in
        v[:, 0] = 1
        start = np.zeros((1, 1, 2, 1), np.float32)
        left = [float(memory_scan(q, w, v, start, form=form)[0][0, -1, 0, 0, 0]) for form in FORMS]
        print(f"{length:8d}" + "".join(f"{x:14.6f}" for x in left), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)), help="comma-separated sequence lengths")
    parser.add_argument("--repeats", type=int, default=3, help="runs, of which the best counts")
    parser.add_argument("--only", default=",".join(SCANS), help="comma-separated recurrences")
    options = parser.parse_args()
    chosen = tuple(int(t) for t in options.lengths.split(","))
    print(f"NumPy {np.__version__}, batch {BATCH}, m = {CELLS}, n = {WIDTH}, float32; best of {options.repeats}")
    for name in options.only.split(","):
        bench(name, chosen, options.repeats)
    programs(chosen)
    forgetting(chosen)
