"""What a run is made with if nothing else is said."""

from __future__ import annotations

from pntm_np import protocol
from pntm_np.models import MODELS
from pntm_np.training import Config
from tasks import TASKS
from tests.pntm_np.training.stage import TASK


def test_the_papers_settings():
    config = Config.of(TASK, "paper")
    shown = (config.steps, config.batch_size, config.lr, config.max_length, config.memory_size)
    assert shown == (500_000, 128, 5e-4, 40, 96)
    ours = (
        config.noise,
        config.rounding,
        config.clip,
        config.warm_up,
        config.restart_after,
        config.cool_down,
        config.stop_when_solved,
        config.end_token,
    )
    assert (
        not any(ours)
        and (config.start, config.head_gain) == ("uniform", 1)
        and config.learnt_memory_size is None
        and config.tau == 0.01
    )
    assert config.model == "pntm" and config.sizes == {} and (config.lengths, config.samples) == ((1, 120), 128)


def test_our_recipe_is_the_same_for_all_tasks():
    for model in MODELS:
        found = [vars(Config.of(task, "recipe", model=model)) for task in TASKS.values()]
        for each in found:
            assert {**each, "task": "", "symbols": ""} == {**found[0], "task": "", "symbols": ""}
            assert not each["end_token"]
    assert Config.of(TASK, "recipe").rounding and not Config.of(TASK, "recipe", model="ntm").rounding


def test_machines_meet_smaller_memories_than_the_papers_and_ntm_those_of_the_evaluation():
    """At 40 symbols the paper has 96 cells, at 120 it has 256."""
    pntm, ntm = (Config.of(TASK, "recipe", model=model) for model in ("pntm", "ntm"))
    assert (pntm.memory_size, pntm.learnt_memory_size) == ((64, 96), None)
    assert (ntm.memory_size, ntm.learnt_memory_size) == (96, (88, 256))


def test_the_papers_memory_sizes_follow_from_its_lengths():
    assert (protocol.TRAINING_MEMORY, protocol.EVALUATION_MEMORY) == (96, 256)
    assert (protocol.LONGEST, protocol.BENCH_LENGTHS[0], protocol.BENCH_LENGTHS[-1]) == (120, 8, 65_536)


def test_an_option_newer_than_the_first_results_leaves_files_without_it_as_they_were():
    off, on = Config.of(TASK, "recipe"), Config.of(TASK, "recipe", model="ntm", blur=0.1)
    assert "blur" not in off.as_json() and on.as_json()["blur"] == 0.1
    assert Config.from_json(off.as_json()) == off and Config.from_json(on.as_json()) == on
