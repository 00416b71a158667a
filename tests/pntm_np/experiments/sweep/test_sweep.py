"""Sweeps: what they make, what they do again, and what becomes of runs that break, hang or diverge."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pntm_np.commands.sweep import asked_for
from pntm_np.experiments.sweep.cluster import run_there
from pntm_np.experiments.sweep.collect import collect
from pntm_np.experiments.sweep.coordinator import left
from pntm_np.experiments.sweep.grid import GridError, Planned, read_grid
from pntm_np.experiments.sweep.status import Standing, standing, summary
from pntm_np.experiments.sweep.supervise import Care, Outcome, failure, last_row, run_here, supervise
from pntm_np.runtime.randomness import PARAMETERS, generator
from pntm_np.training.run import Progress, Run, RunBusy
from tasks import TASKS
from tests.limits import LIMIT, limit
from tests.pntm_np.experiments.report.made import fails_after, mean_to, write_run
from tests.pntm_np.experiments.sweep.small import at_work, command, ends, files, gone, grid_file, started, sweep, within

BROKEN = """
import os, sys, time
from tasks.parity_check import ParityCheck

in_a_run = "--end-with-parent" in sys.argv  # the sweep itself looks at tasks as well

class Crash(ParityCheck):
    name = "crash"
    def sample(self, rng, length, batch):
        if in_a_run:
            os._exit(7)
        return super().sample(rng, length, batch)

class Hang(ParityCheck):
    name = "hang"
    def sample(self, rng, length, batch):
        if in_a_run:
            time.sleep(1000)
        return super().sample(rng, length, batch)
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Path, Path]:
    """A sweep of two tasks and two seeds, and its grid."""
    place = tmp_path_factory.mktemp("sweep")
    grid = grid_file(place)
    text = grid.read_text().replace('"parity-check", ', "").replace("[1, 2, 3, 4]", "[1]")
    grid.write_text(text)
    done = sweep("--grid", grid, "--out", place / "out", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert [run["state"] for run in report["runs"]] == ["done"] * 4
    assert [(g["task"], g["variant"], g["done"]) for g in report["summary"]] == [
        ("reverse-string", "noisy", 1),
        ("cycle-navigation", "noisy", 1),
        ("reverse-string", "plain", 1),
        ("cycle-navigation", "plain", 1),
    ]
    return place / "out", grid


def test_what_is_finished_is_not_done_again(finished):
    out, grid = finished
    before = {path: path.stat().st_mtime_ns for path in out.glob("*/*") if path.name != ".lock"}
    done = sweep("--out", out, "--json")  # the grid is remembered
    assert done.returncode == 0 and "4 runs" in done.stderr and "0 to do" in done.stderr
    assert before == {path: path.stat().st_mtime_ns for path in out.glob("*/*") if path.name != ".lock"}
    assert sweep("--grid", grid, "--out", out).returncode == 0


def test_status(finished):
    out, _ = finished
    shown = sweep("status", out)
    assert shown.returncode == 0 and shown.stdout.count("reverse-string") == 2 and "perfect" in shown.stdout
    assert json.loads(sweep("status", out, "--json").stdout)["runs"][0]["step"] == 12


def test_only_what_is_perfect_counts_as_perfect():
    runs = [Standing(f"p-{n}", "parity-check", "pntm", n, "done", 9, 9, s) for n, s in enumerate((1.0, 0.9995, None))]
    (row,) = summary(runs)
    assert (row["perfect"], row["best"], row["mean"]) == (1, 1.0, 0.99975)


def test_what_has_been_collected_is_done_wherever_it_was_made(tmp_path):
    place = write_run(tmp_path / "made", "parity-check", "pntm", 1, fails_after(60))
    planned = Planned("pntm-recipe", Run(place).read_config())
    new, kept = tmp_path / "new", tmp_path / "kept"
    assert collect(tmp_path / "made", kept) == ([planned.name], [])
    now = standing(new, planned, kept)
    assert (now.state, now.step, now.score) == ("done", 1000, mean_to(60))
    assert standing(new, planned).state == "waiting"
    assert left(new, [planned], False, kept) == [] and left(new, [planned], False, None) == [planned]
    other = replace(planned, config=replace(planned.config, batch_size=7))
    with pytest.raises(GridError, match=r"parity-check-pntm-recipe-1\.json: its batch_size is \d+, not 7"):
        standing(new, other, kept)


def test_runs_that_flags_ask_for():
    asked = {"grid_file": None, "preset": None, "chosen": None, "names": None, "seeds": None, "options": ()}
    assert asked_for(None, **asked) == []
    one = asked_for(None, **asked | {"chosen": [TASKS["parity-check"]], "options": (("steps", 2000),)})
    assert [(run.task, run.variant, run.config.preset, run.config.steps) for run in one] == [
        ("parity-check", "pntm", "recipe", 2000)
    ]
    models = asked_for(None, **asked | {"names": ("lstm", "ntm"), "seeds": (3, 4)})
    assert len(models) == 6 * 2 * 2 and {run.config.preset for run in models} == {"recipe"}
    paper = asked_for(None, **asked | {"preset": "paper"})
    assert len(paper) == 480 and {run.config.preset for run in paper} == {"paper"}


def test_the_same_run_by_hand_and_in_a_sweep(finished, tmp_path):
    out, _ = finished
    import subprocess

    task = ["reverse-string", "--form", "chunked", "--steps", "12", "--batch-size", "4", "--max-length", "4"]
    task += ["--lengths", "1:5", "--samples", "2", "--eval-every", "20", "--checkpoint-every", "5", "--seed", "1"]
    task += ["--no-stop-when-solved", "--size", "width=8", "--size", "heads=2", "--size", "cell=4"]
    by_hand = [*command()[:-1], "train", *task, "--out", str(tmp_path / "run")]
    assert subprocess.run(by_hand, capture_output=True, timeout=LIMIT).returncode == 0
    made = files(out)["reverse-string-noisy-1"]
    assert {name: (tmp_path / "run" / name).read_bytes() for name in made} == made


def test_dry_run_writes_nothing(tmp_path):
    out = tmp_path / "out"
    done = sweep(
        "--tasks",
        "parity",
        "--seeds",
        "2",
        "--option",
        "steps=10",
        "--option",
        "cool-down=5",
        "--out",
        out,
        "--dry-run",
        "--json",
    )
    report = json.loads(done.stdout)
    assert report["to_do"] == 2 and report["seconds"] > 0 and not out.exists()


def test_shards_may_start_at_the_same_time(tmp_path):
    out, grid = tmp_path / "out", grid_file(tmp_path, steps=1)
    shards = [
        started("--grid", grid, "--out", out, "--shard", f"{k}/4", log=tmp_path / f"log{k}") for k in (1, 2, 3, 4)
    ]
    assert [process.wait(LIMIT) for process in shards] == [0] * 4
    found = json.loads(sweep("status", out, "--json").stdout)["runs"]
    assert [run["state"] for run in found] == ["done"] * 24


def test_a_run_that_another_sweep_has_is_left_to_it(tmp_path):
    """Nothing is started or written there: the other sweep looks for signs of life."""
    planned = read_grid(grid_file(tmp_path))[0]
    run = Run(tmp_path / planned.name)
    with run.locked():
        before = sorted(run.directory.iterdir())
        assert run.at_work and supervise(run.directory, planned, Care(), within(60)).state == "busy"
        assert supervise(run.directory, planned, Care(), lambda: True).state == "stopped"
        assert sorted(run.directory.iterdir()) == before
    assert not run.at_work and supervise(run.directory, planned, Care(), within(LIMIT)).state == "done"


def test_two_sweeps_give_up_what_always_breaks(tmp_path, monkeypatch):
    """Each knows how often it has tried, although the other one tries in between; and believes what the other found."""
    planned = read_grid(grid_file(tmp_path))[0]
    place, care, tried = tmp_path / planned.name, Care(retries=2), []

    def attempt(run, command, care, stop):
        with contextlib.suppress(RunBusy), run.locked():
            tried.append(None)
            time.sleep(0.3)
            return Outcome("crashed", "always")
        return Outcome("busy")

    monkeypatch.setattr("pntm_np.experiments.sweep.supervise._attempt", attempt)
    with ThreadPoolExecutor(2) as pool:

        def one(_: int) -> Outcome:
            stop = within(60)
            while (outcome := supervise(place, planned, care, stop)).state == "busy":
                pass
            return outcome

        outcomes = list(pool.map(one, range(2)))
    assert [outcome.state for outcome in outcomes] == ["crashed"] * 2 and 3 <= len(tried) <= 6
    assert supervise(place, planned, care, within(60)) == failure(place), "what was given up is not tried again"


def test_what_another_sweep_has_keeps_nobody_from_work(tmp_path):
    """With one job, the runs that nobody has are made first; then the other sweep's is waited for."""
    first, second = read_grid(grid_file(tmp_path))[:2]
    run, ended, held = Run(tmp_path / first.name), [], contextlib.ExitStack()
    held.enter_context(run.locked())

    def finished(planned, outcome) -> None:
        ended.append((planned.name, outcome.state))
        held.close()  # the other sweep gives up

    run_here(tmp_path, [first, second], 1, Care(), finished, lambda: None, within(60))
    held.close()
    assert ended == [(second.name, "done"), (first.name, "done")]


def test_stopped_while_all_that_is_left_is_at_work_elsewhere(tmp_path):
    planned, ended = read_grid(grid_file(tmp_path))[0], []
    began, run = time.monotonic(), Run(tmp_path / planned.name)

    def finished(planned, outcome) -> None:
        ended.append(outcome.state)

    with run.locked():
        run_here(tmp_path, [planned], 1, Care(), finished, lambda: None, lambda: time.monotonic() - began > 3)
        assert not run.exists
    assert ended == ["stopped"]


@pytest.mark.parametrize("first", ("busy", "stopped"))
def test_a_worker_that_does_not_make_a_run_is_asked_again(first, tmp_path):
    """Another sweep has it, or the worker was shut down: neither is the end of the run."""
    answers, ended = [(first, "", 0), (first, "", 0), ("done", "", 1)], []

    class Answered:
        status = "finished"

        def __init__(self) -> None:
            self.answer = answers.pop(0)

        def done(self) -> bool:
            return True

        def result(self) -> tuple[str, str, int]:
            return self.answer

    class Client:
        status = "running"

        def submit(self, *args, **options) -> Answered:
            return Answered()

        def cancel(self, futures) -> None:
            assert not futures

    planned = read_grid(grid_file(tmp_path))[0]
    run_there(Client(), tmp_path, [planned], Care(), lambda *heard: ended.append(heard), lambda: None, within(60))
    assert ended == [(planned, Outcome("done", "", 1))] and not answers


def test_a_sweep_that_is_faster_is_not_a_failure(tmp_path, monkeypatch):
    """It took the run after we looked; its process goes on writing into the log that our refusal is in."""
    planned = read_grid(grid_file(tmp_path))[0]
    run, looks = Run(tmp_path / planned.name), []
    monkeypatch.setattr(Run, "at_work", property(lambda self: looks.append(None) or len(looks) > 1))
    log, over = run.path("log.txt"), threading.Event()

    def progress() -> None:
        while not over.wait(0.05):
            with open(log, "a") as file:
                file.write("step 8\n")

    writer = threading.Thread(target=progress, daemon=True)
    with run.locked():
        run.write_config(planned.config)
        writer.start()
        outcome = supervise(run.directory, planned, Care(), within(60))
        over.set()
        writer.join(60)
    assert outcome.state == "busy" and not run.path("failure.json").exists()
    assert "another process is at work" in log.read_text()


def test_shards_do_their_part(tmp_path):
    out, grid = tmp_path / "out", grid_file(tmp_path)
    assert sweep("--grid", grid, "--out", out, "--shard", "8/12").returncode == 0
    found = [run["name"] for run in json.loads(sweep("status", out, "--json").stdout)["runs"] if run["state"] == "done"]
    assert found == [read_grid(grid)[7].name, read_grid(grid)[19].name]


def test_a_run_that_crashes_one_that_hangs_and_one_that_diverges(tmp_path):
    """Each is reported as what it is; the others complete; and they are not tried again unless one asks for it."""
    (tmp_path / "broken.py").write_text(BROKEN)
    out, grid = tmp_path / "out", grid_file(tmp_path)
    names = f'["{tmp_path}/broken.py:Crash", "{tmp_path}/broken.py:Hang", "parity-check", "reverse-string"]'
    text = grid.read_text().replace('["parity-check", "reverse-string", "cycle-navigation"]', names)
    grid.write_text(text.replace("[1, 2, 3, 4]", "[1]").replace("[variants.plain]\nnoise = 0\n", ""))
    planned = read_grid(grid)[2]
    progress = Progress.start(planned.config, generator(PARAMETERS, 1))
    progress.params[-1], progress.step = np.inf, 3  # a decoder bias: the next loss is not finite
    run = Run(out / planned.name)
    with run.locked():
        run.write_config(planned.config)
        run.save(planned.config, progress)
    done = sweep("--grid", grid, "--out", out, "--json", "--stall", "4", "--retries", "1", "--jobs", "4")
    assert done.returncode == 1, done.stderr
    found = {run["task"]: run for run in json.loads(done.stdout)["runs"]}
    assert found["reverse-string"]["state"] == "done" and "Traceback" not in done.stderr
    assert found["crash"]["state"] == "failed" and found["crash"]["cause"].startswith("crashed: exit code 7")
    assert found["hang"]["state"] == "failed" and "hung: no output for 4 s" in found["hang"]["cause"]
    assert found["parity-check"]["state"] == "failed" and "diverged: pntm: training" in found["parity-check"]["cause"]
    assert json.loads((out / "crash-noisy-1" / "failure.json").read_text())["attempts"] == 2
    assert gone(out)
    again = sweep("--out", out, "--json")
    assert again.returncode == 1 and "0 to do" in again.stderr
    retried = ("--out", out, "--retry-failed", "--stall", "2", "--retries", "0")
    unnamed = sweep(*retried)
    assert unnamed.returncode == 2 and "its task 'crash' is in a file of yours" in unnamed.stderr
    assert "3 to do" in sweep("--grid", grid, *retried).stderr


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.kill)])
def test_the_sweep_is_stopped_or_killed(number, tmp_path):
    """Its processes end within seconds; the same command goes on, to the same bits as without a break."""
    out, grid = tmp_path / "out", grid_file(tmp_path, steps=400)
    grid.write_text(grid.read_text().replace("[1, 2, 3, 4]", "[1]").replace(', "cycle-navigation"', ""))
    process = started("--grid", grid, "--out", out, "--jobs", "2", log=tmp_path / "log")
    until = time.monotonic() + 60
    while sum(1 for _ in out.glob("*/state.safetensors")) < 2:
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.02)
    assert at_work(out)
    os.kill(process.pid, number)
    assert process.wait(30) == (-9 if number == signal.SIGKILL else 128 + number)
    assert gone(out)
    if number != signal.SIGKILL:
        assert f"stopped and saved; continue with: pntm sweep --grid {grid}" in (tmp_path / "log").read_text()
    states = [run["state"] for run in json.loads(sweep("status", out, "--json").stdout)["runs"]]
    assert "running" not in states and states.count("done") < 4
    done = sweep("--out", out)
    assert done.returncode == 0, done.stderr
    assert all(ends(path.parent) == 1 for path in out.glob("*/result.json"))
    if number == signal.SIGKILL:
        assert sweep("--grid", grid, "--out", tmp_path / "whole").returncode == 0
        assert files(out) == files(tmp_path / "whole")


def test_a_run_that_is_killed_is_taken_up_again(tmp_path):
    grid = grid_file(tmp_path, steps=500)
    planned, out = read_grid(grid)[0], tmp_path / "out"
    kills, late = [], within(LIMIT)

    def kill() -> bool:
        step = last_row(Run(out / planned.name)).get("step", -1)
        if len(kills) < 4 and step > max(kills, default=0) and (found := at_work(out)):
            os.kill(found[0], signal.SIGKILL)
            with limit(60):  # it may have got further until it died
                os.waitid(os.P_PID, found[0], os.WEXITED | os.WNOWAIT)
            kills.append(last_row(Run(out / planned.name)).get("step", -1))
        return late()

    outcome = supervise(out / planned.name, planned, Care(retries=1), kill)
    assert outcome.state == "done" and len(kills) == 4


BAD = [
    ([], 2, "there is no sweep in"),
    (["--seeds", "2"], 2, "--seeds and --option need"),
    (["--tasks", "nothing"], 2, "nothing"),
    (["--tasks", "parity", "--seeds", "11"], 2, "how many of our ten seeds"),
    (["--tasks", "parity", "--seeds", "x"], 2, "'x'"),
    (["--tasks", "parity", "--shard", "3/2"], 2, "expected K/N"),
    (["--tasks", "parity", "--option", "steps"], 2, "expected NAME=VALUE"),
    (["--tasks", "parity", "--option", "steps=no"], 2, "steps is 'no'"),
    (["--tasks", "parity", "--option", "seed=1"], 2, "'seed'"),
    (["--tasks", "parity", "--stall", "0"], 2, "--stall"),
    (["--tasks", "parity", "--cluster", "nowhere"], 2, "expected the address of a scheduler"),
    (["--tasks", "parity", "--cluster", "tcp://127.0.0.1:9"], 5, "no scheduler answers there"),
    (["--grid", "no-such-file"], 2, "does not exist"),
    (["--grid", "."], 2, "expected a TOML file"),
    (["--tasks", "parity", "--option", "model=lstm"], 2, "name the models with --models"),
    (["--tasks", "parity", "--option", "max-length=no"], 2, "max_length is 'no'"),
    (["--tasks", "parity", "--out", "/dev/null"], 2, "--out /dev/null: /dev/null is not a directory"),
    (["--tasks", "parity", "--option", "backend=cuda"], 5, "CuPy"),
    (["--tasks", "parity", "--option", "batch-size=1000000", "--option", "max-length=99999"], 5, "needs about"),
    (["--json", "status", "."], 2, "--json has no effect before status"),
    (["status", "."], 2, "has no sweep"),
]


@pytest.mark.parametrize(("args", "code", "said"), BAD, ids=lambda x: " ".join(x)[:40] if isinstance(x, list) else "")
def test_bad_commands(args, code, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pntm_np.experiments.sweep.cluster.CONNECTING", 1.0)
    from click.testing import CliRunner

    from cli import main

    done = CliRunner().invoke(main, ["sweep", *args])
    assert done.exit_code == code and said in done.stderr and len(done.stderr.splitlines()) <= 3, done.stderr
    assert not list(tmp_path.iterdir())
