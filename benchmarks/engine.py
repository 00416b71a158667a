"""Measure what the tape costs: per op against HIPS autograd, and in a training step against code without a tape.

``make bench-engine`` runs this in its own environment, which has ``autograd`` from PyPI. Contestants take turns, and
each line has the best of all rounds, so that other processes disturb none of them more than the others.
"""

from __future__ import annotations

import importlib.metadata
import math
import time
from collections.abc import Callable

import autograd
import autograd.numpy as anp
import numpy as np
import scipy.special

import autodiff as ad

OPS_PER_CHAIN = 600
ROUNDS = 15


def best_times(contestants: dict[str, Callable[[], object]], rounds: int = ROUNDS) -> dict[str, float]:
    """Seconds of the fastest run of each contestant; they take turns after one warm-up run."""
    best = dict.fromkeys(contestants, math.inf)
    for run in contestants.values():
        run()
    for _ in range(rounds):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def chain(tanh: Callable, reduce: Callable) -> Callable:
    """A chain of rounds of six recorded ops, mixed as in a small network, and one sum at the end."""

    def function(x):
        y = x
        for _ in range(OPS_PER_CHAIN // 6):
            y = tanh(y * 0.5 + x) - y / 3.0
            y = y * x
        return reduce(y)

    return function


def bench_ops() -> None:
    rng = np.random.default_rng(0)
    print(f"{'forward + backward, per recorded op':44s}{'pntm':>10s}{'autograd':>11s}{'ratio':>8s}")
    sizes = {"scalar": (), "2 x 3 float32": (2, 3), "128 x 104 float32": (128, 104)}
    for label, shape in sizes.items():
        x = np.asarray(rng.uniform(0.1, 0.9, shape), np.float32 if shape else np.float64)
        ours = ad.value_and_grad(chain(ad.tanh, ad.sum))
        theirs = autograd.value_and_grad(chain(anp.tanh, anp.sum))
        assert np.allclose(ours(x)[1], theirs(x)[1], rtol=1e-4), "the two do not compute the same"
        best = best_times({"pntm": lambda: ours(x), "autograd": lambda: theirs(x)})
        per_op = {name: seconds / OPS_PER_CHAIN * 1e6 for name, seconds in best.items()}
        ratio = per_op["autograd"] / per_op["pntm"]
        print(f"{label:44s}{per_op['pntm']:8.2f}us{per_op['autograd']:9.2f}us{ratio:7.1f}x")


ROWS, WIDTH, HIDDEN, RATE = 128 * 41, 104, 416, np.float32(1e-3)


def mlp_parameters() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {
        "W_in": rng.uniform(-1, 1, (WIDTH, HIDDEN)).astype(np.float32) / np.float32(math.sqrt(WIDTH)),
        "b_in": np.zeros(HIDDEN, np.float32),
        "W_out": rng.uniform(-1, 1, (HIDDEN, WIDTH)).astype(np.float32) / np.float32(math.sqrt(HIDDEN)),
        "b_out": np.zeros(WIDTH, np.float32),
    }


def engine_step(activation: Callable) -> Callable:
    def loss(p, x, target):
        y = activation(x @ p["W_in"] + p["b_in"]) @ p["W_out"] + p["b_out"]
        return ad.mean((y - target) ** 2)

    gradient = ad.value_and_grad(loss)

    def step(p, x, target):
        value, g = gradient(p, x, target)
        for name in p:
            p[name] -= RATE * g[name]
        return value

    return step


def hand_written_step(activation: Callable) -> Callable:
    """The same computation without a tape; ``activation`` returns its value and a function for its slope."""

    def step(p, x, target):
        value, slope = activation(x @ p["W_in"] + p["b_in"])
        difference = value @ p["W_out"] + p["b_out"] - target
        loss = np.mean(difference**2)
        d_y = difference * np.float32(2 / difference.size)
        g = {"W_out": value.T @ d_y, "b_out": d_y.sum(0)}
        d_pre = (d_y @ p["W_out"].T) * slope()
        g["W_in"], g["b_in"] = x.T @ d_pre, d_pre.sum(0)
        for name in p:
            p[name] -= RATE * g[name]
        return loss

    return step


def tanh_by_hand(h):
    y = np.tanh(h)
    return y, lambda: 1 - y * y


def gelu_by_hand(h):
    phi = scipy.special.ndtr(h)
    return h * phi, lambda: phi + h * (np.exp(h * h * -0.5) * np.float32(1 / math.sqrt(2 * math.pi)))


def bench_mlp() -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((ROWS, WIDTH)).astype(np.float32)
    target = rng.standard_normal((ROWS, WIDTH)).astype(np.float32)
    print(
        f"\n{f'training step, MLP {WIDTH}-{HIDDEN}-{WIDTH}, {ROWS} rows':44s}{'pntm':>10s}{'by hand':>11s}{'ratio':>8s}"
    )
    for label, ours, hand in (("tanh", ad.tanh, tanh_by_hand), ("GELU", ad.gelu, gelu_by_hand)):
        a, b = mlp_parameters(), mlp_parameters()
        engine, by_hand = engine_step(ours), hand_written_step(hand)
        assert np.allclose(engine(a, x, target), by_hand(b, x, target), rtol=1e-5)
        assert all(np.allclose(a[k], b[k], atol=1e-6) for k in a), "the two do not compute the same"
        best = best_times({"pntm": lambda: engine(a, x, target), "hand": lambda: by_hand(b, x, target)}, 25)
        ratio = best["pntm"] / best["hand"]
        print(f"{label:44s}{best['pntm'] * 1e3:8.2f}ms{best['hand'] * 1e3:9.2f}ms{ratio:7.2f}x")


if __name__ == "__main__":
    print(f"NumPy {np.__version__}, autograd {importlib.metadata.version('autograd')}\n")
    bench_ops()
    bench_mlp()
