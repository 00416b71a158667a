"""Grids: from files and flags to runs, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pntm_np.experiments.sweep.grid import (
    GridError,
    extend_plan,
    grid,
    read_grid,
    read_plan,
    seeds_of,
    shard,
    write_plan,
)
from pntm_np.models import MODELS
from pntm_np.protocol import SEEDS
from pntm_np.training.run import Run
from tasks import TASKS

TINY = {"sizes": {"width": 8, "heads": 2, "cell": 4}, "max_length": 4}
GOOD = """
tasks = ["parity", "reverse-string"]
seeds = [3, 4]
[options]
steps = 20
batch-size = 4
[variants.noisy]
noise = 0.5
tau = "auto"
[variants.ntm]
"""


def written(directory: Path, text: str) -> Path:
    path = directory / "grid.toml"
    path.write_text(text)
    return path


def test_a_file(tmp_path):
    runs = read_grid(written(tmp_path, GOOD))
    assert [run.name for run in runs] == [
        f"{task}-{variant}-{seed}"
        for seed in (3, 4)
        for variant in ("noisy", "ntm")
        for task in ("parity-check", "reverse-string")
    ]
    first, third = runs[0].config, runs[2].config
    assert (first.model, first.noise, first.tau, first.steps, first.batch_size) == ("pntm", 0.5, "auto", 20, 4)
    assert (third.model, third.noise, third.tau) == ("ntm", 1.0, 0.01)  # a variant with a model's name is that model
    assert first.cool_down == 20, "of the recipe, as far as there are steps"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("seeds = [3, 4]", "seeds = 11"), "seeds is 11; expected how many of the ten seeds"),
        (("seeds = [3, 4]", "seeds = [3, 3]"), "different seeds"),
        (("seeds = [3, 4]", "seeds = []"), "seeds is"),
        (('"parity"', '"partiy"'), "partiy"),
        (('"parity"', "5"), "tasks"),
        (("steps = 20", "steps = 0"), "variant noisy: steps is 0; expected an integer from 1"),
        (("steps = 20", "stesp = 20"), "'stesp'; the options are model"),
        (("[variants.noisy]", "[variants.'../noisy']"), "variant '../noisy'; expected letters"),
        (("[variants.ntm]", "[variants.ntm]\nmodel = 'lstm'\nnoise = 1"), "variant ntm: noise is 1"),
        (("[variants.ntm]", "[variants.ntm]\nmodel = 'rnn'"), "variant ntm: model is 'rnn'"),
        (("[variants.ntm]", "[variants.ntm]\ntau = 'often'"), "variant ntm: tau is 'often'"),
        (("steps = 20", "max-length = 'no'"), "max_length is 'no'; expected an integer"),
        (("steps = 20", "preset = ['recipe']"), "preset is"),
        (("[variants.ntm]", "[variants.ntm]\nmodel = ['ntm']"), "variant ntm: model is"),
        (("[options]", "[option]"), "'option'; a grid has tasks, seeds, options and variants"),
        (('["parity", "reverse-string"]', '["parity", "parity"]'), "is listed twice"),
        (("[options]", "[options"), "not readable as TOML"),
    ],
)
def test_files_that_make_no_sense(tmp_path, change, said):
    assert change[0] in GOOD
    with pytest.raises(GridError, match=said):
        read_grid(written(tmp_path, GOOD.replace(*change)))


def test_a_variants_own_options_win_over_those_of_all_runs():
    (run,) = grid([TASKS["parity-check"]], {"a": TINY | {"steps": 5}}, (1,), {"steps": 7, "batch_size": 3})
    assert (run.config.steps, run.config.batch_size) == (5, 3)


def test_no_variants(tmp_path):
    with pytest.raises(GridError, match="at least one variant"):
        read_grid(written(tmp_path, "seeds = 1"))


def test_the_papers_seeds_and_size():
    assert tuple(np.random.SeedSequence(0).generate_state(10).tolist()) == SEEDS
    assert seeds_of(3) == SEEDS[:3] and seeds_of([7]) == (7,)
    runs = grid(TASKS.values(), {m: {} for m in MODELS}, SEEDS, {"preset": "paper"})
    assert len(runs) == len({run.name for run in runs}) == 480
    assert {run.config.steps for run in runs} == {500_000} and {run.config.batch_size for run in runs} == {128}


def test_shards_are_a_partition():
    runs = grid(TASKS.values(), {m: {} for m in MODELS}, (1, 2), TINY | {"sizes": {}})
    parts = [shard(runs, k, 7) for k in range(1, 8)]
    assert sorted(run.name for part in parts for run in part) == sorted(run.name for run in runs)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_plan_grows_and_does_not_change(tmp_path):
    task = [TASKS["parity-check"]]
    first = grid(task, {"a": TINY}, (1,), {})
    write_plan(tmp_path, extend_plan(tmp_path, first))
    more = grid(task, {"a": TINY, "b": TINY}, (1, 2), {})
    write_plan(tmp_path, extend_plan(tmp_path, more))
    assert read_plan(tmp_path) == [first[0], *more[1:]] and extend_plan(tmp_path, []) == read_plan(tmp_path)
    with pytest.raises(GridError, match="its steps is 20000, not 7; name the variant differently"):
        extend_plan(tmp_path, grid(task, {"a": TINY}, (1,), {"steps": 7}))


def test_a_run_that_was_made_by_hand_is_taken_over_or_refused(tmp_path):
    planned = grid([TASKS["parity-check"]], {"a": TINY}, (1,), {})[0]
    run = Run(tmp_path / planned.name)
    run.directory.mkdir()
    run.write_config(planned.config)
    assert extend_plan(tmp_path, [planned]) == [planned]
    with pytest.raises(GridError, match=r"its lr is 0\.001, not 0\.1"):
        extend_plan(tmp_path, grid([TASKS["parity-check"]], {"a": TINY}, (1,), {"lr": 0.1}))
