"""One step: Adam as published, a gradient that does not know of shards, and no update from what is not finite."""

from __future__ import annotations

import numpy as np
import pytest

import autodiff as ad
from autodiff import backend
from pntm_np.models import MODELS
from pntm_np.randomness import BATCHES, PARAMETERS, generator
from pntm_np.training import learner as module
from pntm_np.training.config import Config
from pntm_np.training.flat import views
from pntm_np.training.learner import Learner, objective, shards_of
from pntm_np.training.optimizer import Moments, adam
from pntm_np.training.run import Progress
from pntm_np.workers import Workers
from tasks import TASKS, batch
from tests import standin

TASK = TASKS["parity-check"]
SMALL = {"width": 16, "heads": 2, "cell": 4}


def config(**given) -> Config:
    return Config.of(TASK, "paper", **({"sizes": SMALL, "max_length": 8, "batch_size": 8} | given))


def learner(config: Config, workers: Workers) -> Learner:
    start = Progress.start(config, generator(PARAMETERS, config.seed))
    return Learner(config, start.params, start.moments, workers)


def samples(config: Config, step: int):
    return batch(TASK, generator(BATCHES, config.seed, step), 5, config.batch_size, config.end_token)


def test_adam_as_published(rng):
    """Kingma and Ba's algorithm 1, line by line in float64; float32 rounds each of some ten operations once."""
    theta = rng.standard_normal(50)
    params = theta.astype(np.float32)
    moments = Moments(np.zeros(50, np.float32), np.zeros(50, np.float32))
    m = v = np.zeros(50)
    for t in range(1, 30):
        g = rng.standard_normal(50) * 10.0 ** rng.integers(-6, 3, 50)
        adam(params, g.astype(np.float32), moments, t, 5e-4, np.float32(1))
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        theta = theta - 5e-4 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    assert params.dtype == moments.m.dtype == moments.v.dtype == np.float32
    np.testing.assert_allclose(params, theta, rtol=0, atol=30 * 1e-7)


def test_adam_leaves_everything_alone_where_it_is_told_to(rng):
    params, m, v = (rng.random(9).astype(np.float32) for _ in range(3))
    before = [x.copy() for x in (params, m, v)]
    for bad in (np.nan, np.inf, -np.inf):
        adam(params, np.full(9, bad, np.float32), Moments(m, v), 3, 1e-3, np.float32(0))
    assert all(np.array_equal(x, y) for x, y in zip((params, m, v), before, strict=True))


def test_shards_depend_on_the_batch_alone():
    for rows, count in ((1, 1), (15, 1), (31, 1), (32, 2), (48, 3), (128, 4), (1000, 4)):
        cfg = config(batch_size=rows)
        parts = shards_of(samples(cfg, 1), "cpu")
        assert len(parts) == count and sum(len(p.tokens) for p in parts) == rows
        assert max(len(p.tokens) for p in parts) - min(len(p.tokens) for p in parts) <= 1
    assert len(shards_of(samples(config(batch_size=128), 1), "cuda")) == 1


@pytest.mark.parametrize("name", MODELS)
def test_the_gradient_of_shards_is_the_gradient_of_the_batch(name: str):
    cfg = config(model=name, sizes={}, batch_size=50, max_length=5)  # shards of 16, 17 and 17 rows
    gates = 0.4 if name in ("pntm", "mingru") else 0.0
    cfg = Config(**{**vars(cfg), "sharpen": 0.3 if name == "pntm" else 0.0, "sharpen_gates": gates})
    task, found = TASKS["binary-addition"], []
    cfg = Config(**{**vars(cfg), "task": task.name, "symbols": task.symbols})
    whole = batch(task, np.random.default_rng(3), 5, 50)  # answers of different lengths: shards differ in their tokens
    with Workers(1) as workers:
        one = learner(cfg, workers)
        params = {k: v.astype(np.float64) for k, v in one.params.items()}
        total = int(whole.mask.sum())
        (value, _), gradient = ad.value_and_grad(objective, has_aux=True)(
            params, one.architecture, cfg, whole, total, 1.0
        )
        report = one.step(whole, 1)
        found = views(one.gradient, one.shapes)
    assert report.objective == pytest.approx(float(value), rel=1e-5)
    for key, g in gradient.items():
        # float32 against float64, over some hundred products in a row
        np.testing.assert_allclose(found[key], g, rtol=0, atol=2e-5 * max(1e-2, np.abs(g).max()), err_msg=key)


def test_the_loss_is_the_mean_over_answer_tokens():
    cfg = config(sharpen=0.5)
    with Workers(1) as workers:
        one = learner(cfg, workers)
        data = samples(cfg, 1)
        logits = one.architecture.forward(one.params, data.tokens, cfg.memory_size).astype(np.float64)
        logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        picked = np.take_along_axis(logp, data.targets[..., None], -1)[..., 0]
        report = one.step(data, 1)
    assert report.loss == pytest.approx(-picked[data.mask].mean(), rel=1e-5)
    assert report.objective > report.loss, "entropy is positive"
    assert report.gradient_norm == pytest.approx(np.abs(one.gradient).max())


@pytest.mark.parametrize("threads", (2, 3))
def test_bits_do_not_depend_on_threads(threads: int):
    cfg = config(batch_size=50, sharpen=0.01)
    runs = []
    for count in (1, threads):
        with Workers(count) as workers:
            one = learner(cfg, workers)
            reports = [one.step(samples(cfg, k), k) for k in range(1, 6)]
            runs.append((one.flat.tobytes(), one.moments.v.tobytes(), reports))
    assert runs[0] == runs[1]


def test_the_learning_rate_falls_at_the_end():
    """Adam's step is proportional to it: at the last of four steps of cooling down it is a quarter."""
    cfg, cooled = config(steps=9), config(steps=9, cool_down=4)
    assert [cooled.learning_rate(n) / cfg.lr for n in (1, 5, 6, 7, 8, 9)] == [1, 1, 1, 0.75, 0.5, 0.25]
    assert cfg.learning_rate(9) == cfg.lr
    moves = []
    with Workers(1) as workers:
        for c in (cfg, cooled):
            one = learner(c, workers)
            before = one.flat.astype(np.float64)
            one.step(samples(c, 9), 9)
            moves.append(one.flat - before)
    # the difference of two float32 parameters below 4 is exact to 2^-22
    assert np.abs(moves[1] - 0.25 * moves[0]).max() <= 2.0**-22 and np.abs(moves[0]).max() > 1e-4


def test_a_run_that_ends_early_cools_down_as_one_that_was_to_end_there():
    """Rate and thresholds of a step depend on the last one, whether it was configured or came of being solved."""
    cut = {"cool_down": 4, "train_tau": 0.2, "train_gate_tau": 0.2}
    ways = ((config(steps=9, **cut), 0), (config(steps=200, **cut), 9), (config(steps=200, **cut), 0))
    found = []
    with Workers(1) as workers:
        for c, end in ways:
            one = learner(c, workers)
            report = one.step(samples(c, 8), 8, end)
            found.append((report, one.flat.tobytes()))
    assert found[0] == found[1] and found[1][1] != found[2][1] and found[1][0].loss != found[2][0].loss


def test_sharpening_grows():
    cfg = config(sharpen=0.5, sharpen_gates=0.2, sharpen_rise=4)
    assert [cfg.sharpening(n)["shift_entropy"] for n in (1, 2, 4, 9)] == [0.125, 0.25, 0.5, 0.5]
    assert cfg.sharpening(2)["gate_uncertainty"] == 0.1 and config(sharpen=0.5).sharpening(1) == {"shift_entropy": 0.5}
    with Workers(1) as workers:
        data = samples(cfg, 1)
        reports = [learner(cfg, workers).step(data, n) for n in (1, 4)]  # the same parameters, early and late
    early, late = (report.objective - report.loss for report in reports)
    assert late == pytest.approx(4 * early, rel=1e-4) and early > 0


def test_thresholds_grow_while_the_learning_rate_falls():
    cfg = config(steps=9, cool_down=4, train_tau=0.2, train_gate_tau=0.4)
    assert [cfg.thresholds(n) for n in (1, 5, 6, 8)] == [(0, 0), (0, 0), (0, 0), (0.1, 0.2)]
    assert config(train_tau=0.2).thresholds(1) == (0.2, 0)
    with Workers(1) as workers:
        data = samples(cfg, 1)
        early, late = (learner(cfg, workers).step(data, n).loss for n in (1, 9))  # the same parameters
    assert early != late


def test_a_large_gradient_is_scaled_down():
    """Adam's first moment is a tenth of the gradient it was given: of the gradient itself, or of what is left of it."""
    means = []
    with Workers(1) as workers:
        for limit in (0.0, 1e-3, 1e3):
            cfg = config(clip=limit)
            one = learner(cfg, workers)
            report = one.step(samples(cfg, 1), 1)
            means.append(one.moments.m.copy())
    assert report.gradient_norm > 1e-3  # what is reported is the gradient as it came
    assert np.array_equal(means[0], means[2])
    assert np.abs(means[1]).max() == pytest.approx(1e-4, rel=1e-6)
    # the same direction: one more rounding each of the scale, the product and the mean
    np.testing.assert_allclose(means[1], means[0] * (1e-3 / report.gradient_norm), rtol=4e-7, atol=1e-12)


def test_a_gradient_that_is_not_finite_changes_nothing_and_is_named():
    cfg = config(lr=1.0)
    with Workers(1) as workers:
        one = learner(cfg, workers)
        one.step(samples(cfg, 1), 1)
        one.params["decoder.bias"][2] = np.inf
        before = one.flat.tobytes(), one.moments.m.tobytes(), one.moments.v.tobytes()
        report = one.step(samples(cfg, 2), 2)
        after = one.flat.tobytes(), one.moments.m.tobytes(), one.moments.v.tobytes()
    assert not np.isfinite(report.objective) and np.isnan(report.gradient_norm)
    assert before == after and one.not_finite() == "decoder.bias"


def test_a_gradient_whose_square_is_not_finite_is_not_applied(monkeypatch):
    """In float32 the square of 1e20 is infinite, and Adam's second moment would be, for ever."""
    cfg = config()

    def steep(params, *args):
        value, loss = objective(params, *args)
        return value + 1e20 * ad.sum(params["decoder.bias"]), loss

    with Workers(1) as workers:
        one = learner(cfg, workers)
        one.step(samples(cfg, 1), 1)
        before = one.flat.tobytes(), one.moments.m.tobytes(), one.moments.v.tobytes()
        monkeypatch.setattr(module, "objective", steep)
        report = one.step(samples(cfg, 2), 2)
    assert np.isnan(report.gradient_norm) and one.not_finite() == "decoder.bias"
    assert before == (one.flat.tobytes(), one.moments.m.tobytes(), one.moments.v.tobytes())


@pytest.mark.parametrize("name", ("pntm", "ntm", "lstm", "transformer-fire"))
def test_on_a_device_a_step_is_the_same_and_synchronises_once(name: str):
    sizes = SMALL if name == "pntm" else {}
    host, device = (
        config(model=name, form="chunked", sizes=sizes, sharpen=0.01 if name == "pntm" else 0.0, backend=b)
        for b in ("cpu", "standin")
    )
    with Workers(1) as workers:
        for step in (1, 2, 3):  # each from the start: Adam's first steps make much of the sign of a gradient near 0
            on_host, on_device = learner(host, workers), learner(device, workers)
            before = standin.synchronisations
            found = on_device.step(samples(device, step), step)
            assert standin.synchronisations == before + 1
            # float32 in another order of sums, and functions of its own on the CPU
            assert found == pytest.approx(on_host.step(samples(host, step), step), rel=1e-4)
            g, expected = ad.to_host(on_device.gradient), on_host.gradient
            assert np.abs(g - expected).max() <= 1e-4 * np.abs(expected).max()
    assert backend.owner(on_device.flat).name == "standin"
