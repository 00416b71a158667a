"""A run: the same bits every time, and none lost whatever happens to it."""

from __future__ import annotations

import errno
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pntm_np as pn
from pntm_np.runtime import files as pntm_files
from pntm_np.runtime.origin import commit
from pntm_np.runtime.randomness import PARAMETERS, generator
from pntm_np.runtime.sealed import pack
from pntm_np.runtime.untrusted import CheckpointError
from pntm_np.training import Config, Run, cost
from pntm_np.training.run import COUNTERS, Progress
from tasks import TASKS
from tests.limits import LIMIT, limit
from tests.pntm_np.training.small import SAME, files, pntm_train, send, started, wait_for

TASK = TASKS["parity-check"]


def pntm(*args: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "cli", *args], capture_output=True, text=True, timeout=LIMIT)


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("reference") / "run"
    done = pntm_train(out, "--threads", "1")
    assert done.returncode == 0, done.stderr
    return files(out)


def test_the_same_bits_with_any_number_of_threads(reference, tmp_path):
    for threads in ("1", "2", "3"):
        done = pntm_train(tmp_path / threads, "--threads", threads)
        assert done.returncode == 0, done.stderr
        assert files(tmp_path / threads) == reference


def test_what_the_files_say(reference):
    config, result = json.loads(reference["config.json"]), json.loads(reference["result.json"])
    assert config["steps"] == 30 and config["task"] == "parity-check" and config["sizes"]["width"] == 8
    assert result["step"] == 30 and result["stopped_by"] == "steps" and result["config"] == config
    assert [row["length"] for row in result["by_length"]] == [1, 2, 3, 4, 5, 6]
    assert result["score_lengths"] == [5, 6]
    rows = [json.loads(line) for line in reference["metrics.jsonl"].splitlines()]
    assert [row["step"] for row in rows if "loss" in row] == [1, 10, 20, 30]
    assert [row["step"] for row in rows if "exact_match" in row] == [8, 16, 24]
    assert all(set(row["by_length"]) == {str(n) for n in range(1, 5)} for row in rows if "exact_match" in row)
    assert b"seconds" not in b"".join(reference.values()) and b"/tmp" not in b"".join(reference.values())


def test_the_machine_remembers_its_thresholds_and_answers_as_its_result_says(tmp_path):
    out = tmp_path / "run"
    assert pntm_train(out).returncode == 0
    result, model = json.loads((out / "result.json").read_text()), pn.load(out / "model.safetensors")
    assert model.thresholds == (result["tau"], result["gate_tau"])
    done = pntm("eval", str(out), "--json")
    found = json.loads(done.stdout)
    for key in ("tau", "gate_tau", "memory_size", "by_length", "score", "exact_match", "token_accuracy", "end_token"):
        assert found[key] == result[key], key


def test_what_a_run_cost_and_what_made_it(tmp_path):
    """In a file beside the machine: seconds by the clock and of the processor, threads, version and commit."""
    out = tmp_path / "run"
    process = started(out, "--threads", "2", "--steps", "3000")
    wait_for(out / "timing.jsonl")
    wait_for(out / "timing.jsonl", (out / "timing.jsonl").stat().st_size + 1)  # the first row of what was saved
    send(process, signal.SIGKILL)
    process.communicate(timeout=60)
    assert pntm_train(out, "--resume", "--threads", "1", "--steps", "600").returncode == 0
    rows = [json.loads(line) for line in (out / "timing.jsonl").read_text().splitlines()]
    assert [row["threads"] for row in rows if "threads" in row] == [2, 1]
    spent = cost.total(Run(out))
    for name in ("training_seconds", "training_cpu_seconds", "evaluation_seconds", "evaluation_cpu_seconds"):
        assert spent[name] > 0 and spent[name] == pytest.approx(sum(row.get(name, 0) for row in rows), abs=1e-3)
    assert spent["threads"] == 1 and spent["pntm"] == importlib.metadata.version("pntm")
    assert spent["commit"] == commit()
    steps = [row["step"] for row in rows if "training_seconds" in row]
    assert steps[0] == 7 and steps[-1] == 600, "also what a killed process had saved"
    (out / "timing.jsonl").write_text('{"training_seconds": 2}\n[1]\n{"training_sec')
    assert cost.total(Run(out)) == {"training_seconds": 2}


def test_a_second_run_in_the_same_place(reference, tmp_path):
    out = tmp_path / "run"
    assert pntm_train(out, "--threads", "1").returncode == 0
    again = pntm_train(out)
    assert again.returncode == 2 and "has a run already" in again.stderr and "--resume" in again.stderr
    assert files(out) == reference
    resumed = pntm_train(out, "--resume", "--json")
    assert resumed.returncode == 0 and json.loads(resumed.stdout) == json.loads(reference["result.json"])
    other = pntm_train(out, "--resume", "--lr", "0.1")
    assert other.returncode == 2 and "--lr 0.1: expected 0.0005" in other.stderr
    other = pntm_train(out, "--resume", "--preset", "paper")
    assert other.returncode == 2 and "--preset paper: expected 'recipe'" in other.stderr
    other = pntm_train(out, "--resume", "--end-token")
    assert other.returncode == 2 and "pntm: --end-token: expected False" in other.stderr
    other = pntm_train(out, "--resume", "--memory-size", "96")
    assert other.returncode == 2 and "--memory-size 96: expected 16:24" in other.stderr
    assert files(out) == reference


def test_a_finished_run_without_its_state_is_left_alone(reference, tmp_path):
    out = tmp_path / "run"
    assert pntm_train(out, "--threads", "1").returncode == 0
    (out / "state.safetensors").unlink()
    kept = {path.name: path.read_bytes() for path in out.iterdir()}
    again = pntm_train(out, "--resume", "--json")
    assert again.returncode == 0 and json.loads(again.stdout) == json.loads(reference["result.json"])
    other = pntm_train(out, "--resume", "--tau", "0.3")
    assert other.returncode == 2 and "has no state.safetensors" in other.stderr
    assert {path.name: path.read_bytes() for path in out.iterdir()} == kept


def test_steps_do_not_change_while_a_run_cools_down(tmp_path):
    assert pntm_train(tmp_path / "a", "--option", "cool-down=5", "--threads", "1").returncode == 0
    more = pntm_train(tmp_path / "a", "--resume", "--option", "cool-down=5", "--steps", "40")
    assert more.returncode == 2 and "is cooling down" in more.stderr


def test_steps_do_not_change_after_a_run_was_solved(tmp_path):
    """A run that was solved and cooled down has ended; without a cool-down it is over as well, whatever is asked."""
    out = tmp_path / "a"
    assert pntm_train(out, "--option", "cool-down=5", "--threads", "1").returncode == 0
    run = Run(out)
    config, progress = run.load()
    config = replace(config, steps=100)
    progress.solved_at, progress.end = 25, 30
    with run.locked():
        run.write_config(config)
        run.save(config, progress)
    more = pntm_train(out, "--resume", "--option", "cool-down=5", "--steps", "120")
    assert more.returncode == 2 and "was solved and ended at step 30" in more.stderr
    progress.end = 40
    with run.locked():
        run.save(config, progress)
    more = pntm_train(out, "--resume", "--option", "cool-down=5", "--steps", "120")
    assert more.returncode == 2 and "is cooling down" in more.stderr


def test_more_steps_for_a_finished_run(tmp_path):
    assert pntm_train(tmp_path / "a", "--threads", "1").returncode == 0
    assert pntm_train(tmp_path / "a", "--resume", "--steps", "40").returncode == 0
    assert pntm_train(tmp_path / "b", "--steps", "40").returncode == 0
    assert files(tmp_path / "a") == files(tmp_path / "b"), "as if it had been asked for at once"
    fewer = pntm_train(tmp_path / "a", "--resume", "--steps", "35")
    assert fewer.returncode == 2 and "expected at least 40" in fewer.stderr
    assert pntm_train(tmp_path / "a", "--resume", "--steps", "40", "--checkpoint-every", "3").returncode == 0
    assert files(tmp_path / "a") == files(tmp_path / "b"), "a complete run is left alone"


@pytest.mark.parametrize(("number", "code"), ((signal.SIGINT, 130), (signal.SIGTERM, 143)))
def test_a_signal_saves_and_the_run_goes_on_to_the_same_bits(number, code, reference, tmp_path):
    out = tmp_path / "run"
    process = started(out)
    wait_for(out / "metrics.jsonl")
    send(process, number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code and "stopped and saved" in errors and "Traceback" not in errors
    assert not (out / "result.json").exists() and pn.load(out / "model.safetensors").training["step"] >= 1
    resumed = pntm_train(out, "--resume")
    assert resumed.returncode == 0 and "resumed at step" in resumed.stderr
    assert files(out) == reference


def test_the_second_signal_ends_at_once_without_harm(reference, tmp_path):
    out = tmp_path / "run"
    process = started(out)
    wait_for(out / "metrics.jsonl")
    for _ in range(50):
        if process.poll() is not None:
            break
        send(process, signal.SIGINT)
        time.sleep(0.002)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert pntm_train(out, "--resume").returncode == 0
    assert files(out) == reference


def test_resume_without_the_task_and_without_a_run(reference, tmp_path):
    out = tmp_path / "run"
    none = pntm("train", "--resume", "--out", str(out))
    assert none.returncode == 2 and "no run to resume" in none.stderr and not out.exists()
    process = started(out)
    wait_for(out / "state.safetensors")
    send(process, signal.SIGKILL)
    process.communicate(timeout=60)
    done = pntm("train", "--resume", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert files(out) == reference
    other = pntm("train", "reverse", "--resume", "--out", str(out))
    assert other.returncode == 2 and "has the task parity-check, not reverse-string" in other.stderr


def test_two_at_once(tmp_path):
    out = tmp_path / "run"
    first = started(out, "--steps", "3000")
    wait_for(out / "metrics.jsonl")
    second = pntm_train(out, "--resume", "--steps", "3000")
    assert second.returncode == 2 and "another process is at work" in second.stderr
    send(first, signal.SIGTERM)
    first.communicate(timeout=60)
    assert first.returncode == 143


def test_divergence_keeps_the_last_good_checkpoint_and_says_where(tmp_path):
    out = tmp_path / "diverges"
    config = Config.of(TASK, "paper", sizes={"width": 8, "heads": 2, "cell": 4}, max_length=4, batch_size=4, steps=9)
    progress = Progress.start(config, generator(PARAMETERS, 0))
    progress.params[-1] = np.inf  # a decoder bias: the next loss is not finite
    progress.step = 3
    run = Run(out)
    with run.locked():
        run.write_config(config)
        run.save(config, progress)
    before = (out / "state.safetensors").read_bytes()
    done = pntm("train", "--resume", "--out", str(out))
    assert done.returncode == 3, done.stderr
    assert "not finite at step 4 (seed 0" in done.stderr and "Traceback" not in done.stderr
    assert (out / "state.safetensors").read_bytes() == before and not (out / "result.json").exists()
    facts = json.loads((out / "timing.jsonl").read_text().splitlines()[-1])["diverged"]
    assert facts["step"] == 4 and facts["seed"] == 0 and {"parameter", "length", "loss"} <= set(facts)


# failures of single system calls while saving
CALLS = ("open", "write", "fsync", "close", "replace")


class Faults:
    """Counts the calls that a save makes of the operating system, and fails at one of them."""

    def __init__(self, monkeypatch, at: int, what) -> None:
        self.count, self.at, self.what = 0, at, what
        for name in CALLS:
            monkeypatch.setattr(pntm_files.os, name, self.wrap(getattr(os, name)))

    def wrap(self, call):
        def wrapped(*args, **kwargs):
            self.count += 1
            if self.count == self.at:
                self.what(call, args)
            return call(*args, **kwargs)

        return wrapped


def saved_run(directory: Path) -> tuple[Run, Config, Progress]:
    config = Config.of(TASK, "paper", sizes={"width": 8, "heads": 2, "cell": 4}, max_length=4)
    run, progress = Run(directory), Progress.start(config, generator(PARAMETERS, 0))
    directory.mkdir()
    progress.metrics_bytes = run.append("metrics.jsonl", {"step": 0})
    run.save(config, progress)
    progress.step, progress.params = 1, progress.params + np.float32(1)
    progress.metrics_bytes = run.append("metrics.jsonl", {"step": 1})
    return run, config, progress


def check_loadable(run: Run) -> None:
    """State and machine load, each the old or the new one; a second save works."""
    state = run.load()[1]
    assert state.step in (0, 1) and pn.load(run.path("model.safetensors")).training["step"] in (0, 1)
    run.cut_metrics(state.metrics_bytes)
    pntm_files.clear_partial(run.files)
    assert not list(run.directory.glob(".*"))


def count_calls(tmp_path: Path) -> int:
    run, config, progress = saved_run(tmp_path / "count")
    with pytest.MonkeyPatch.context() as patch:
        faults = Faults(patch, 0, None)
        run.save(config, progress)
    assert faults.count >= 15
    return faults.count


@pytest.mark.parametrize("code", (errno.ENOSPC, errno.EIO))
def test_a_failure_of_any_system_call_leaves_a_loadable_checkpoint(code: int, tmp_path):
    def refuse(call, args):
        raise OSError(code, os.strerror(code))

    for at in range(1, count_calls(tmp_path) + 1):
        run, config, progress = saved_run(tmp_path / str(at))
        with pytest.MonkeyPatch.context() as patch:
            Faults(patch, at, refuse)
            with pytest.raises(OSError):
                run.save(config, progress)
        check_loadable(run)
        run.save(config, progress)
        assert run.load()[1].step == 1


def test_sigkill_at_any_system_call_leaves_a_loadable_checkpoint(tmp_path):
    def die_before(call, args):
        os.kill(os.getpid(), signal.SIGKILL)

    def die_half_way(call, args):
        if call is WRITE:
            call(args[0], args[1][: len(args[1]) // 2])
        os.kill(os.getpid(), signal.SIGKILL)

    WRITE = os.write
    for at in range(1, count_calls(tmp_path) + 1):
        for how in (die_before, die_half_way):
            run, config, progress = saved_run(tmp_path / f"{at}-{how.__name__}")
            child = os.fork()
            if child == 0:
                with pytest.MonkeyPatch.context() as patch:
                    Faults(patch, at, how)
                    run.save(config, progress)
                os._exit(0)
            with limit(60):
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
            check_loadable(run)


def test_a_full_disk_ends_the_run_with_one_message(tmp_path):
    import resource

    from tests.pntm_np.training.small import ENVIRONMENT, command

    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))

    given = {"capture_output": True, "text": True, "env": ENVIRONMENT, "timeout": LIMIT}
    done = subprocess.run(command(tmp_path / "run"), preexec_fn=small_files, **given)
    assert done.returncode == 5 and "File too large" in done.stderr and "Traceback" not in done.stderr
    assert pntm_train(tmp_path / "run", "--resume").returncode == 0


def test_damaged_files_of_a_run(reference, tmp_path):
    out = tmp_path / "run"
    for name in SAME:
        out.mkdir(exist_ok=True)
        for other, content in reference.items():
            (out / other).write_bytes(content)
        (out / "result.json").unlink()
        (out / name).write_bytes(reference[name][:-40])
        done = pntm_train(out, "--resume")
        if name in ("state.safetensors", "metrics.jsonl"):
            assert done.returncode == 4 and name in done.stderr and "Traceback" not in done.stderr, done.stderr
        elif name == "result.json":
            assert done.returncode == 4, done.stderr
        else:
            assert done.returncode == 0 and files(out) == reference, "follows from the state"


def test_state_of_another_format(tmp_path):
    run, _, _ = saved_run(tmp_path / "run")
    os.replace(run.path("model.safetensors"), run.path("state.safetensors"))
    with pytest.raises(CheckpointError, match="says that it is 'machine-2'; expected 'state-4'"):
        run.load()


def test_what_lies_in_the_directory_is_not_taken_for_ours(reference, tmp_path):
    for name in SAME:
        out = tmp_path / name
        out.mkdir()
        (out / name).write_bytes(reference[name])
        (out / ".mine.partial").write_text("keep")
        done = pntm_train(out)
        assert done.returncode == 2 and "has a run already" in done.stderr
        assert (out / name).read_bytes() == reference[name] and (out / ".mine.partial").exists()


def test_more_steps_are_not_forgotten_when_killed(reference, tmp_path):
    out = tmp_path / "run"
    assert pntm_train(out).returncode == 0
    process = started(out, "--resume", "--steps", "3000", "--checkpoint-every", "100000")
    wait_for(out / "metrics.jsonl", len(reference["metrics.jsonl"]) + 10)
    send(process, signal.SIGKILL)
    process.communicate(timeout=60)
    assert json.loads((out / "config.json").read_text())["steps"] == 3000
    done = pntm_train(out, "--resume", "--steps", "40", "--checkpoint-every", "7")
    assert done.returncode == 0 and json.loads((out / "result.json").read_text())["step"] == 40


@pytest.mark.parametrize(
    "change", ({"lr": 10**400}, {"backend": "tpu"}, {"task": "../x"}, {"symbols": "a\x1b"}, {"steps": "9"})
)
def test_a_hostile_state_that_is_well_sealed(change, tmp_path):
    run, config, progress = saved_run(tmp_path / "run")

    class Hostile:
        def as_json(self):
            return config.as_json() | change

    counters = {name: 0 for name in COUNTERS} | {"rounding": 0.0}
    arrays = {"params": progress.params, "adam.m": progress.moments.m, "adam.v": progress.moments.v}
    run.path("state.safetensors").write_bytes(pack(arrays, "state-4", {"config": Hostile().as_json(), **counters}))
    done = pntm("train", "--resume", "--out", str(run.directory))
    assert done.returncode == 4 and "Traceback" not in done.stderr and done.stderr.count("\n") == 1, done.stderr


@pytest.mark.parametrize("content", ("{}", '{"by_length": 3}', "[]", "{", '{"by_length": [], "stopped_by": "steps"}'))
def test_a_result_that_is_none(content: str, reference, tmp_path):
    out = tmp_path / "run"
    assert pntm_train(out).returncode == 0
    (out / "result.json").write_text(content)
    for more in ((), ("--json",)):
        done = pntm_train(out, "--resume", *more)
        assert done.returncode == 4 and "result" in done.stderr and done.stdout == "" and "Traceback" not in done.stderr
