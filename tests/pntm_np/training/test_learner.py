"""One step: Adam as published, a gradient that does not know of shards, and no update from what is not finite."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

import autodiff as ad
from autodiff import backend
from pntm_np.models import MODELS, Options
from pntm_np.runtime.randomness import BATCHES, PARAMETERS, generator
from pntm_np.runtime.workers import Workers
from pntm_np.training import learner as module
from pntm_np.training.config import Config
from pntm_np.training.learner import Learner, loss, shards_of
from pntm_np.training.noise import QUANTILES, Noise
from pntm_np.training.optimizer import Moments, adam, views
from pntm_np.training.rounding import FIRST, LAST, next_threshold, row_thresholds
from pntm_np.training.run import Progress
from pntm_np.training.schedule import Pace, pace
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
    return batch(TASK, generator(BATCHES, config.seed, step), 5, config.batch_size)


def at(config: Config, **given) -> Pace:
    """What a step is made with if nothing else is said."""
    return Pace(config.lr, 0.0, 0.0, config.most_cells(), None)._replace(**given)


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
    for rows, count in ((1, 1), (15, 1), (31, 1), (32, 2), (48, 3), (64, 4), (128, 4), (159, 4), (160, 5), (1000, 31)):
        cfg = config(batch_size=rows)
        parts = shards_of(samples(cfg, 1), "cpu")
        assert len(parts) == count and sum(len(p.tokens) for p in parts) == rows
        assert max(len(p.tokens) for p in parts) - min(len(p.tokens) for p in parts) <= 1
    assert len(shards_of(samples(config(batch_size=128), 1), "cuda")) == 1


@pytest.mark.parametrize("name", MODELS)
def test_the_gradient_of_shards_is_the_gradient_of_the_batch(name: str):
    cfg = config(model=name, sizes={}, batch_size=50, max_length=5)  # shards of 16, 17 and 17 rows
    task, found = TASKS["binary-addition"], []
    cfg = Config(**{**vars(cfg), "task": task.name, "symbols": task.symbols})
    whole = batch(task, np.random.default_rng(3), 5, 50)  # answers of different lengths: shards differ in their tokens
    with Workers(1) as workers:
        one = learner(cfg, workers)
        params = {k: v.astype(np.float64) for k, v in one.params.items()}
        total = int(whole.mask.sum())
        value, gradient = ad.value_and_grad(loss)(params, one.architecture, whole, total, 96, Options(cfg.form))
        report = one.step(whole, 1, at(cfg, cells=96))
        found = views(one.gradient, one.shapes)
    assert report.loss == pytest.approx(float(value), rel=1e-5)
    for key, g in gradient.items():
        # float32 against float64, over some hundred products in a row
        np.testing.assert_allclose(found[key], g, rtol=0, atol=2e-5 * max(1e-2, np.abs(g).max()), err_msg=key)


def test_the_loss_is_the_mean_over_answer_tokens():
    cfg = config()
    with Workers(1) as workers:
        one = learner(cfg, workers)
        data = samples(cfg, 1)
        logits = one.architecture.forward(one.params, data.tokens, cfg.most_cells()).astype(np.float64)
        logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        picked = np.take_along_axis(logp, data.targets[..., None], -1)[..., 0]
        report = one.step(data, 1, at(cfg))
    assert report.loss == pytest.approx(-picked[data.mask].mean(), rel=1e-5)
    assert report.gradient_norm == pytest.approx(np.abs(one.gradient).max())


@pytest.mark.parametrize("threads", (2, 3))
def test_bits_do_not_depend_on_threads(threads: int):
    """Noise and rounding included: they are drawn for a step and a shard, whoever works on it."""
    cfg = config(batch_size=50)
    runs = []
    for count in (1, threads):
        with Workers(count) as workers:
            one = learner(cfg, workers)
            like = at(cfg, noise=1.0, rounding=(FIRST, LAST))
            reports = [one.step(samples(cfg, k), k, like) for k in range(1, 6)]
            runs.append((one.flat.tobytes(), one.moments.v.tobytes(), reports))
    assert runs[0] == runs[1]


def stands(**given) -> Progress:
    """Where a run stands."""
    nothing = np.zeros(0, np.float32)
    return Progress(nothing, Moments(nothing, nothing), **given)


def test_the_rate_rises_at_the_beginning_and_falls_with_the_noise_at_the_end():
    """Over the last four steps, to a quarter at the very last, whether it was configured or came of being solved."""
    cfg = config(steps=9, cool_down=4, noise=0.8)
    shares = [1, 1, 1, 0.75, 0.5, 0.25]
    for c, end in ((cfg, 0), (config(steps=200, cool_down=4, noise=0.8), 9)):
        found = [pace(c, n, stands(end=end)) for n in (1, 5, 6, 7, 8, 9)]
        assert [p.lr / c.lr for p in found] == shares
        assert [p.noise for p in found] == pytest.approx([0.8 * s for s in shares])
    assert pace(config(steps=9), 9, stands()).lr == cfg.lr
    warm = config(steps=9, warm_up=4)
    assert [pace(warm, n, stands()).lr / warm.lr for n in (1, 2, 3, 4, 5, 9)] == [0.25, 0.5, 0.75, 1, 1, 1]


def test_after_a_restart_nothing_is_left_of_what_was_before():
    """Parameters, moments and the count of Adam's steps are those of a new learner; so is the rising rate."""
    cfg = config()
    with Workers(1) as workers:
        fresh, again = learner(cfg, workers), learner(cfg, workers)
        start = fresh.flat.copy()
        for number in (1, 2, 3):
            again.step(samples(cfg, number), number, at(cfg))
        assert not np.array_equal(again.flat, start)
        again.restart(start)
        for number in (1, 2):
            reports = (
                fresh.step(samples(cfg, number), number, at(cfg)),
                again.step(samples(cfg, number), 3 + number, at(cfg), 3),
            )
            assert reports[0] == reports[1]
    assert np.array_equal(again.flat, fresh.flat) and np.array_equal(again.moments, fresh.moments)
    warm = config(steps=9, warm_up=4)
    assert [pace(warm, n, stands(began=3)).lr / warm.lr for n in (4, 5, 8)] == [0.25, 0.5, 1]
    found = [pace(warm, n, stands(began=1, examined=3)).lr / warm.lr for n in (4, 5, 8)]
    assert found == [0.25, 0.5, 1], "and after an examination that failed"


def test_the_rate_is_adams():
    """Its step is proportional to it."""
    cfg, moves = config(), []
    with Workers(1) as workers:
        for rate in (1.0, 0.25):
            one = learner(cfg, workers)
            before = one.flat.astype(np.float64)
            one.step(samples(cfg, 9), 9, at(cfg, lr=rate * cfg.lr))
            moves.append(one.flat - before)
    # the difference of two float32 parameters below 4 is exact to 2^-22
    assert np.abs(moves[1] - 0.25 * moves[0]).max() <= 2.0**-22 and np.abs(moves[0]).max() > 1e-4


def test_rounding_follows_the_machine():
    """It begins where the paper's threshold is, grows while nine tenths are answered, yields below half of that, and
    ends where a shift is one-hot; over the last steps all is rounded that far. From its beginning the rate is halved.
    """
    assert next_threshold(0.0, 0.89) == next_threshold(0.0, 0.1) == 0 and next_threshold(0.0, 0.9) == 0.01
    assert next_threshold(0.1, 0.9) == 0.13 and next_threshold(0.1, 0.5) == 0.1
    assert next_threshold(0.13, 0.44) == 0.1 and next_threshold(0.01, 0.1) == 0.01
    assert next_threshold(0.4, 1.0) == next_threshold(0.5, 1.0) == 0.5
    cfg = config(cool_down=4)
    assert pace(cfg, 1, stands()) == at(cfg)
    assert pace(cfg, 1, stands(rounding=0.05)) == at(cfg, lr=cfg.lr / 2, rounding=(0.01, 0.05))
    assert pace(cfg, 9, stands(rounding=0.5, end=9)) == at(cfg, lr=cfg.lr / 8, rounding=(0.5, 0.5))


def test_every_rounded_row_has_a_threshold_of_its_own():
    drawn = row_thresholds(np.random.default_rng(1), 4001, 0.01, 0.5, "cpu")
    tau, gates = drawn["tau"], drawn["gate_tau"]
    assert tau.shape == gates.shape == (2001,) and tau.dtype == np.float32 and gates.dtype == np.float32
    assert (
        tau.min() >= np.float32(0.01) and tau.max() <= 0.5 and np.array_equal(gates, np.minimum(tau, np.float32(0.1)))
    )
    assert abs(np.mean(tau < np.sqrt(0.01 * 0.5)) - 0.5) < 0.056  # half, to five deviations
    last = row_thresholds(np.random.default_rng(1), 3, 0.5, 0.5, "cpu")
    assert last["tau"].tolist() == [0.5, 0.5] and last["gate_tau"] == pytest.approx([0.1, 0.1])


def test_thresholds_of_rows_are_drawn_for_every_step_and_shard():
    cfg, losses = config(batch_size=32), set()
    data = samples(cfg, 1)
    twice = type(data)(*(np.concatenate([part[:16], part[:16]]) for part in data))  # two shards of the same rows
    with Workers(1) as workers:
        for rows, number in ((twice, 1), (twice, 2), (type(data)(*(part[:16] for part in twice)), 1)):
            losses.add(learner(cfg, workers).step(rows, number, at(cfg, rounding=(FIRST, LAST))).loss)
    assert len(losses) == 3


def test_half_of_a_batch_is_rounded():
    """The loss of a step is that of rows 0, 2, .. with thresholds, of the others without."""
    cfg = config(sizes={}, batch_size=6)
    data = samples(cfg, 1)
    with Workers(1) as workers:
        one = learner(cfg, workers)
        soft, hard = (
            one.architecture.forward(one.params, data.tokens, 32, Options(cfg.form, *cut)).astype(np.float64)
            for cut in ((0.0, 0.0), (0.5, 0.1))
        )
        mixed = np.where(np.arange(6)[:, None, None] % 2 == 0, hard, soft)
        logp = mixed - np.log(np.exp(mixed).sum(-1, keepdims=True))
        expected = -np.take_along_axis(logp, data.targets[..., None], -1)[..., 0][data.mask].mean()
        report = one.step(data, 1, at(cfg, cells=32, rounding=(LAST, LAST)))
    assert report.loss == pytest.approx(expected, rel=1e-5) and not np.allclose(soft, hard, atol=1e-3)


def test_blur_is_doubled_once_learnt_and_falls_with_the_noise():
    cfg = config(model="ntm", sizes={}, steps=200, cool_down=4, blur=0.1)
    with Workers(1) as workers:
        params = learner(cfg, workers).flat
    stands = [Progress(params, None), Progress(params, None, learnt_at=5), Progress(params, None, learnt_at=5, end=9)]
    assert [pace(cfg, 8, progress).blur for progress in stands] == pytest.approx([0.1, 0.2, 0.1])


def test_every_second_row_is_blurred():
    cfg, seen = config(model="ntm", sizes={}, batch_size=5), []
    with Workers(1) as workers:
        one = learner(cfg, workers)
        run = one.architecture.run

        def watched(params, tokens, state, options):
            seen.append(options.blur)
            return run(params, tokens, state, options)

        object.__setattr__(one.architecture, "run", watched)
        one.step(samples(cfg, 1), 1, at(cfg, blur=0.25))
        one.step(samples(cfg, 1), 2, at(cfg))
    assert seen[0].tolist() == [0, 0.25, 0, 0.25, 0] and seen[1] is None


def test_noise_is_normal_and_its_own_for_every_step_and_shard():
    drawn = [Noise(0.5, generator(9, 1, k), "cpu")(np.zeros((201, 99), np.float32)) for k in range(10)]
    assert not np.any([part[::2] for part in drawn]), "every second row is left alone"
    drawn = np.concatenate([part[1::2] for part in drawn])
    ordered = np.sort(drawn, axis=None).astype(np.float64)
    normal = ndtr(ordered / 0.5)
    # Kolmogorov and Smirnov: of 99,000 numbers that are normal, one set in a million deviates by 2.7 / sqrt(99,000)
    assert np.abs(normal - (np.arange(ordered.size) + 0.5) / ordered.size).max() < 2.7 / np.sqrt(ordered.size)
    assert np.isfinite(QUANTILES).all() and np.allclose(QUANTILES, -QUANTILES[::-1], atol=1e-6), "no end is far off"
    cfg, losses = config(batch_size=32), set()
    data = samples(cfg, 1)
    twice = type(data)(*(np.concatenate([part[:16], part[:16]]) for part in data))  # two shards of the same rows
    with Workers(1) as workers:
        for rows, number in ((twice, 1), (twice, 2), (type(data)(*(part[:16] for part in twice)), 1)):
            losses.add(learner(cfg, workers).step(rows, number, at(cfg, noise=1.0)).loss)
    assert len(losses) == 3


def test_memory_sizes_are_drawn_log_uniformly():
    cfg = config(memory_size=(8, 32), learnt_memory_size=(32, 48))
    drawn = np.array([pace(cfg, n, stands()).cells for n in range(1, 2001)])
    assert drawn.min() == 8 and drawn.max() == 32
    assert abs(np.mean(drawn < 16) - np.log(16 / 8) / np.log(33 / 8)) < 0.06  # five deviations
    later = [pace(cfg, n, stands(learnt_at=1)).cells for n in range(1, 500)]
    assert (min(later), max(later)) == (32, 48) and pace(config(memory_size=9), 1, stands()).cells == 9


def test_a_large_gradient_is_scaled_down():
    """Adam's first moment is a tenth of the gradient it was given: of the gradient itself, or of what is left of it."""
    means = []
    with Workers(1) as workers:
        for limit in (0.0, 1e-3, 1e3):
            cfg = config(clip=limit)
            one = learner(cfg, workers)
            report = one.step(samples(cfg, 1), 1, at(cfg))
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
        one.step(samples(cfg, 1), 1, at(cfg))
        one.params["decoder.bias"][2] = np.inf
        before = one.flat.tobytes(), one.moments.m.tobytes(), one.moments.v.tobytes()
        report = one.step(samples(cfg, 2), 2, at(cfg))
        after = one.flat.tobytes(), one.moments.m.tobytes(), one.moments.v.tobytes()
    assert not np.isfinite(report.loss) and np.isnan(report.gradient_norm)
    assert before == after and one.not_finite() == "decoder.bias"


def test_a_gradient_whose_square_is_not_finite_is_not_applied(monkeypatch):
    """In float32 the square of 1e20 is infinite, and Adam's second moment would be, for ever."""
    cfg = config()

    def steep(params, *args):
        return loss(params, *args) + 1e20 * ad.sum(params["decoder.bias"])

    with Workers(1) as workers:
        one = learner(cfg, workers)
        one.step(samples(cfg, 1), 1, at(cfg))
        before = one.flat.tobytes(), one.moments.m.tobytes(), one.moments.v.tobytes()
        monkeypatch.setattr(module, "loss", steep)
        report = one.step(samples(cfg, 2), 2, at(cfg))
    assert np.isnan(report.gradient_norm) and one.not_finite() == "decoder.bias"
    assert before == (one.flat.tobytes(), one.moments.m.tobytes(), one.moments.v.tobytes())


@pytest.mark.parametrize("name", ("pntm", "ntm", "lstm", "transformer-fire"))
def test_on_a_device_a_step_is_the_same_and_synchronises_once(name: str):
    sizes = SMALL if name == "pntm" else {}
    host, device = (config(model=name, form="chunked", sizes=sizes, backend=b) for b in ("cpu", "standin"))
    like = at(host, noise=1.0, rounding=(FIRST, LAST)) if name == "pntm" else at(host)
    like = like._replace(noise=0.5, blur=0.1) if name == "ntm" else like
    with Workers(1) as workers:
        for step in (1, 2, 3):  # each from the start: Adam's first steps make much of the sign of a gradient near 0
            on_host, on_device = learner(host, workers), learner(device, workers)
            before = standin.synchronisations
            found = on_device.step(samples(device, step), step, like)
            assert standin.synchronisations == before + 1
            # float32 in another order of sums, and functions of its own on the CPU
            assert found == pytest.approx(on_host.step(samples(host, step), step, like), rel=1e-4)
            g, expected = ad.to_host(on_device.gradient), on_host.gradient
            assert np.abs(g - expected).max() <= 1e-4 * np.abs(expected).max()
    assert backend.owner(on_device.flat).name == "standin"
