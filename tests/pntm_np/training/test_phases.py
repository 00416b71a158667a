"""The phases of a run follow the machine, and a run cut in any of them ends in the same bytes."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from pntm_np.models import decide_heads
from pntm_np.runtime.randomness import EXAMINE, JUDGE, PARAMETERS, generator
from pntm_np.training import Config, Run, session
from pntm_np.training.optimizer import views
from pntm_np.training.run import first_parameters
from tests.pntm_np.training.stage import TASK, Killed, Stage, alone, rows_of


@pytest.mark.parametrize("cut", (None, 1, 7, 10, 25))
def test_learnt_three_times_in_a_row(monkeypatch, tmp_path, cut):
    """Judged at 10, 20, ..; learnt at 10 and 30, 40, 50: the run ends at 50, wherever it was interrupted."""
    given = {"steps": 200, "eval_every": 10, "checkpoint_every": 7, "stop_when_solved": True, "batch_size": 1}
    exact = lambda step: 0.98 if step == 20 else 1.0  # noqa: E731
    stage = Stage(monkeypatch, tmp_path, exact=exact, **given)
    if cut is not None:
        assert stage.train(stop_after=cut)[0] == "signal"
    reason, progress = stage.train()
    assert (reason, progress.step, progress.solved) == ("solved", 50, 3)
    *judged, examined = stage.asked
    assert [a["step"] for a in judged] == [10, 20, 30, 40, 50], "other problems at every evaluation"
    assert {a["purpose"] for a in judged} == {JUDGE} and examined["purpose"] == EXAMINE and examined["step"] == 50
    for asked in stage.asked:
        assert asked["longest"] == 8 and asked["cells"] == 2 * 8 + 16 and asked["thresholds"] == (0, 0)
    assert [row["step"] for row in rows_of(stage.run) if "by_length" in row] == [10, 20, 30, 40, 50, 50]
    assert [row["step"] for row in rows_of(stage.run) if "loss" in row] == [1, 10, 20, 30, 40, 50]
    if cut is not None:
        whole = Stage(monkeypatch, tmp_path, exact=exact, **given)
        whole.train()
        assert whole.files() == stage.files()


PHASES = {"steps": 400, "eval_every": 10, "checkpoint_every": 7, "stop_when_solved": True, "batch_size": 1,
          "cool_down": 25, "noise": 0.5, "rounding": True}  # fmt: skip


def phases(step: int) -> float:
    """Learns until 30, stumbles over rounding at 50 and once in the last steps, and makes a mistake when examined."""
    return {10: 0.1, 20: 0.5, 50: 0.3, 240: 0.3}.get(step, 0.999 if step == 255 else 1.0)


def test_the_phases_of_a_run(monkeypatch, tmp_path):
    """Noise alone; then rounding that grows with every evaluation; once all is one-hot and answered three times in a
    row, rate and noise fall; and because that ends in a mistake, from there once more."""
    stage = Stage(monkeypatch, tmp_path, exact=phases, **PHASES)
    reason, progress = stage.train()
    assert (reason, progress.solved_at, progress.step) == ("solved", 280, 305)
    assert {p.rounding for p in stage.paces[:30]} == {None}
    smallest, largest = zip(*(p.rounding for p in stage.paces[30:]), strict=True)
    grown = [0.01, 0.013, *(min(0.01 * 1.3**k, 0.5) for k in range(17)), *[0.5] * 10]  # from step 31, 41, ..
    assert largest[::10] == pytest.approx(grown[: len(largest[::10])])
    last = [k for k, tau in enumerate(smallest, 31) if tau == 0.5]
    assert last == [*range(231, 256), *range(281, 306)] and set(smallest) == {0.01, 0.5}
    falls = [k / 25 for k in range(25, 0, -1)]
    halved = np.concatenate([[1.0] * 200, falls, [1.0] * 25, falls]) / 2
    assert [p.lr / stage.config.lr for p in stage.paces] == pytest.approx([1.0] * 30 + halved.tolist())
    doubled = np.concatenate([[1.0] * 200, falls, [1.0] * 25, falls]) * 2
    assert [p.noise / 0.5 for p in stage.paces] == pytest.approx([1.0] * 30 + doubled.tolist())
    assert [a["step"] for a in stage.asked if a["purpose"] == EXAMINE] == [255, 305]
    judged = {a["step"]: a["thresholds"] for a in stage.asked}
    assert judged[30] == (0, 0) and judged[40] == (0.01, 0.01) and judged[230] == judged[255] == (0.5, 0.1)
    assert [row["certain"] for row in rows_of(stage.run) if "certain" in row] == [False, True]


def test_without_rounding_the_noise_is_doubled_once_it_has_learnt(monkeypatch, tmp_path):
    """At 30, with 99 of 100 inputs answered three times in a row; also if fewer are later."""
    answered = {10: 0.99, 20: 0.99, 30: 0.99}
    given = {"steps": 120, "eval_every": 10, "batch_size": 1, "noise": 0.5}
    stage = Stage(monkeypatch, tmp_path, exact=lambda step: answered.get(step, 0.98), **given)
    assert stage.train()[1].learnt_at == 30
    assert [p.noise for p in stage.paces] == [0.5] * 30 + [1.0] * 90
    assert {p.rounding for p in stage.paces} == {None} and {p.lr for p in stage.paces} == {stage.config.lr}


def test_a_machine_that_was_rounded_is_judged_as_it_was_trained(monkeypatch, tmp_path):
    stage = Stage(monkeypatch, tmp_path, exact=phases, tau="auto", **PHASES)
    result = session.conduct(stage.run, stage.config, TASK, True, alone())
    assert [asked["thresholds"] for asked in stage.evaluated] == [(result["tau"], result["gate_tau"])] == [(0.5, 0.1)]


@pytest.mark.parametrize("cut", (5, 30, 31, 45, 52, 111, 230, 231, 250, 255, 256, 290))
@pytest.mark.parametrize("way", ("stopped", "killed"))
def test_cut_in_every_phase_and_resumed(monkeypatch, tmp_path, cut, way):
    whole = Stage(monkeypatch, tmp_path, exact=phases, **PHASES)
    expected = whole.train()[0]
    stage = Stage(monkeypatch, tmp_path, exact=phases, **PHASES)
    if way == "stopped":
        assert stage.train(stop_after=cut)[0] == "signal"
    else:
        with pytest.raises(Killed):
            stage.train(kill_after=cut)
    assert stage.train()[0] == expected
    assert stage.files() == whole.files()


LATE = {"steps": 150, "eval_every": 10, "checkpoint_every": 7, "batch_size": 1, "restart_after": 30, "warm_up": 20,
         "noise": 0.5, "rounding": True}  # fmt: skip


@pytest.mark.parametrize("cut", (None, 29, 30, 31, 45, 60, 61, 85, 139))
def test_a_machine_that_learns_nothing_begins_again(monkeypatch, tmp_path, cut):
    """Without a fifth of its answers after 30 steps, and again after 60, from other parameters each time."""
    stage = Stage(monkeypatch, tmp_path, exact=lambda step: {20: 0.6, 80: 0.95}.get(step, 0.19), **LATE)
    if cut is not None:
        assert stage.train(stop_after=cut)[0] == "signal"
    reason, progress = stage.train()
    assert (reason, progress.step, progress.began, progress.restarts) == ("steps", 150, 140, 3)
    assert [row["step"] for row in rows_of(stage.run) if "restarts" in row] == [30, 60, 140], "80 and 2 x 30 steps more"
    rising = [k / 20 for k in range(1, 21)]
    rates = (rising + [1.0] * 10) * 2 + rising + [0.5] * 60 + rising[:10]
    assert [p.lr / stage.config.lr for p in stage.paces] == pytest.approx(rates)
    start = first_parameters(stage.config, generator(PARAMETERS, 0, 3))
    for pace in stage.paces[140:]:
        start += np.float32(pace.lr + pace.noise + sum(pace.rounding or ()))
    assert np.array_equal(progress.params, start)
    if cut is not None:
        whole = Stage(monkeypatch, tmp_path, exact=stage.exact, **LATE)
        whole.train()
        assert whole.files() == stage.files()


def test_a_machine_that_learns_a_part_has_three_times_as_long(monkeypatch, tmp_path):
    exact = {90: 0.89}
    stage = Stage(monkeypatch, tmp_path, exact=lambda step: exact.get(step, 0.2), **LATE)
    assert stage.train()[1].restarts == 1 and [r["step"] for r in rows_of(stage.run) if "restarts" in r] == [90]


def test_a_machine_that_cannot_be_rounded_begins_again(monkeypatch, tmp_path):
    """Rounding begins at 10 and gets nowhere until 310; from other parameters it begins at 330, and comes to an end."""
    exact = {**dict.fromkeys(range(20, 311), 0.6), 320: 0.1}
    given = LATE | {"steps": 800, "restart_after": 150, "stop_when_solved": True}
    stage = Stage(monkeypatch, tmp_path, exact=lambda step: exact.get(step, 1.0), **given)
    reason, progress = stage.train()
    assert (progress.restarts, progress.began, progress.most_at) == (1, 310, 330)
    rounded = [k for k, pace in enumerate(stage.paces, 1) if pace.rounding]
    assert rounded == [*range(11, 311), *range(331, 511)], "it begins again without"
    # 0.01 at 330, .., 0.5 at 480, answered at 490, 500 and 510; there are no last steps
    assert (reason, progress.learnt_at, progress.step) == ("solved", 510, 510)


@pytest.mark.parametrize(
    ("given", "exact"),
    [
        ({"restart_after": 0}, lambda step: 0.0),
        ({"restart_after": 151}, lambda step: 0.0),
        ({"restart_after": 50, "rounding": False}, lambda step: 0.95 if step == 60 else 0.5),
        ({"rounding": False}, lambda step: 1.0 if step <= 30 else 0.0),
    ],
    ids=("there are none", "not yet", "most was answered in time", "learnt, and forgotten"),
)
def test_no_milestone_is_missed(monkeypatch, tmp_path, given, exact):
    stage = Stage(monkeypatch, tmp_path, exact=exact, **LATE | given)
    assert stage.train()[1].restarts == 0


@pytest.mark.parametrize("steps", (31, 100))
def test_restarts_do_not_depend_on_the_steps_that_are_left(monkeypatch, tmp_path, steps):
    stage = Stage(monkeypatch, tmp_path, exact=lambda step: 0.1, **LATE | {"steps": steps})
    assert stage.train()[1].restarts == steps // 30


def test_a_run_that_has_ended_ends_again_without_a_look(monkeypatch, tmp_path):
    """The final evaluation was interrupted: what comes before it is not made again."""
    stage = Stage(monkeypatch, tmp_path, exact=lambda step: 1.0, **PHASES | {"rounding": False})
    assert stage.train()[0] == "solved"
    before, files = len(stage.asked), stage.files()
    assert stage.train()[0] == "solved" and len(stage.asked) == before and stage.files() == files


@pytest.mark.parametrize("cut", (None, 30, 31, 44))
def test_the_last_steps_begin_when_it_is_learnt(monkeypatch, tmp_path, cut):
    """Learnt at 30, with 25 last steps: they end at 55, with a learning rate that falls as it does at the end of 55
    steps, whatever is found meanwhile and wherever the run was interrupted."""
    given = {"eval_every": 10, "checkpoint_every": 7, "cool_down": 25, "batch_size": 1}
    exact = lambda step: float(step != 40)  # noqa: E731
    stage = Stage(monkeypatch, tmp_path, exact=exact, steps=200, stop_when_solved=True, **given)
    if cut is not None:
        assert stage.train(stop_after=cut)[0] == "signal"
    reason, progress = stage.train()
    assert (reason, progress.step, progress.solved_at, progress.end) == ("solved", 55, 30, 55)
    whole = Stage(monkeypatch, tmp_path, exact=exact, steps=55, **given)
    assert whole.train()[0] == "steps"
    assert np.array_equal(whole.run.load()[1].params, progress.params)
    assert rows_of(whole.run) == [row for row in rows_of(stage.run) if "certain" not in row]


def test_a_memory_that_changes_once_it_is_learnt(monkeypatch, tmp_path):
    """Learnt at 30 with one memory, at 60 with another; then the last steps."""
    given = {"eval_every": 10, "cool_down": 25, "batch_size": 1, "stop_when_solved": True, "steps": 200}
    stage = Stage(monkeypatch, tmp_path, exact=lambda step: 1.0, learnt_memory_size=(40, 50), **given)
    reason, progress = stage.train()
    assert (reason, progress.learnt_at, progress.solved_at, progress.step) == ("solved", 30, 60, 85)
    cells = [p.cells for p in stage.paces]
    assert set(cells[:30]) == {32} and set(cells[30:]) <= set(range(40, 51)) and len(set(cells[30:])) > 5
    assert [a["cells"] for a in stage.asked] == [32] * 3 + [50] * 6


def test_a_run_that_cools_down_already_goes_on_to_its_end(monkeypatch, tmp_path):
    given = {"eval_every": 10, "cool_down": 30, "batch_size": 1, "stop_when_solved": True}
    stage = Stage(monkeypatch, tmp_path, exact=lambda step: 1.0, steps=42, **given)
    reason, progress = stage.train()
    assert (reason, progress.step, progress.solved_at) == ("solved", 42, 30)


RECIPE = {"max_length": 2, "sizes": {"width": 16, "heads": 2, "cell": 8}, "batch_size": 16, "lr": 0.01, "eval_every": 5,
          "checkpoint_every": 7, "cool_down": 20, "lengths": (1, 4), "samples": 4, "steps": 2000, "memory_size": (8, 12),
          "form": "chunked"}  # fmt: skip


def conducted(place: Path, kill_after: int | None = None) -> list[bytes]:
    """A run by our recipe, killed after so many looks at whether it is to stop, and gone on with."""
    run, config = Run(place), Config.of(TASK, "recipe", **RECIPE)
    for limit in (kill_after, None):
        looks = itertools.count()

        def stop(limit=limit, looks=looks) -> bool:
            if next(looks) == limit:
                raise Killed
            return False

        try:
            assert session.conduct(run, config, TASK, True, alone(stop))
            break
        except Killed:
            assert not run.complete
    return [
        run.path(n).read_bytes() for n in ("state.safetensors", "model.safetensors", "metrics.jsonl", "result.json")
    ]


def test_every_seed_has_a_start_of_its_own(tmp_path):
    """With a rate of almost 0 a machine stays where it began."""
    given, made = RECIPE | {"steps": 1, "lr": 1e-30, "cool_down": 0}, {}
    for place, seed in (("a", 0), ("b", 1), ("c", 1)):
        run = Run(tmp_path / place)
        assert session.conduct(run, Config.of(TASK, "recipe", seed=seed, **given), TASK, False, alone())
        made[place] = run.load()[1].params
    assert np.array_equal(made["b"], made["c"])
    assert np.mean(made["a"] == made["b"]) < 0.2, "norms and biases alone begin alike"


@pytest.mark.parametrize(("start", "gain"), [("uniform", 1.0), ("flax", 1.0), ("uniform", 4.0), ("flax", 4.0)])
def test_training_begins_with_the_weights_that_were_asked_for(start, gain):
    config = Config.of(TASK, "paper", start=start, head_gain=gain, sizes=RECIPE["sizes"])
    architecture = config.architecture()
    found = views(first_parameters(config, generator(PARAMETERS, 1)), architecture.shapes())
    expected = decide_heads(architecture.init(generator(PARAMETERS, 1), start=start), gain)
    assert all(np.array_equal(found[name], expected[name]) for name in expected)
    other = architecture.init(generator(PARAMETERS, 1))
    assert all(np.array_equal(found[name], other[name]) for name in other) == ((start, gain) == ("uniform", 1.0))


def test_a_real_run_killed_in_each_phase_ends_in_the_same_bytes(tmp_path):
    whole = conducted(tmp_path / "whole")
    rows = rows_of(Run(tmp_path / "whole"))
    judged = [row for row in rows if "rounding" in row]
    assert judged[0]["rounding"] == 0 and judged[-1]["rounding"] == 0.5 and judged[-1]["certain"], "all phases were met"
    looks = rows[-1]["step"]  # at least one at every step
    for k, kill_after in enumerate((3, looks // 3, 2 * looks // 3, looks - 10, looks + 5, looks + 40)):
        assert conducted(tmp_path / f"run-{k}", kill_after) == whole
