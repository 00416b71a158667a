"""Sweeps among files of the user's that are called like ours, and on disks that are full."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pntm_np.experiments.sweep.grid import read_grid
from pntm_np.experiments.sweep.supervise import Care, run_here
from pntm_np.training.run import Run
from tests.limits import LIMIT
from tests.pntm_np.experiments.sweep.small import grid_file, sweep, within

OWN = """
from tasks.parity_check import ParityCheck

class Own(ParityCheck):
    name = "own"
"""
MINE = "raise SystemExit('this is a file of the user's')"


def few(directory: Path, tasks: str, steps: int = 2) -> Path:
    """A grid of one variant and one seed."""
    grid = grid_file(directory, steps)
    text = grid.read_text().replace('["parity-check", "reverse-string", "cycle-navigation"]', tasks)
    grid.write_text(text.replace("[1, 2, 3, 4]", "[1]").replace("[variants.plain]\nnoise = 0\n", ""))
    return grid


def test_files_that_are_called_like_ours(tmp_path):
    """Every run finds what it needs, and the task in a file of the user's that was named."""
    for name in ("cli", "tasks", "random", "autodiff", "numpy"):
        (tmp_path / f"{name}.py").write_text(MINE)
    (tmp_path / "mine.py").write_text(OWN)
    few(tmp_path, '["mine.py:Own", "parity-check"]')
    done = sweep("--grid", "grid.toml", "--out", "out", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [run["state"] for run in json.loads(done.stdout)["runs"]] == ["done"] * 2
    assert "source" not in (tmp_path / "out" / "sweep.json").read_text()
    again = sweep("--out", "out", cwd=tmp_path)
    assert again.returncode == 0 and "0 to do" in again.stderr, "what is done needs no task"
    (tmp_path / "out" / "own-noisy-1" / "result.json").unlink()
    unnamed = sweep("--out", "out", cwd=tmp_path)
    assert unnamed.returncode == 2 and "its task 'own' is in a file of yours: name it again" in unnamed.stderr
    assert "1 to do" in sweep("--grid", "grid.toml", "--out", "out", cwd=tmp_path).stderr


@pytest.mark.parametrize("name", ["tasks.py", "autodiff.py", "tasks/__init__.py"])
def test_a_file_that_hides_one_of_our_packages_is_named(name: str, tmp_path):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    given = {"capture_output": True, "text": True, "timeout": LIMIT, "cwd": tmp_path}
    done = subprocess.run([sys.executable, "-c", "import pntm_np"], **given)
    assert f"ImportError: {path} hides the package" in done.stderr
    script = Path(sys.executable).with_name("pntm")
    done = subprocess.run([script, "tasks"], env=os.environ | {"PYTHONPATH": str(tmp_path)}, **given)
    assert done.returncode == 1 and done.stderr.startswith(f"pntm: {path} hides the package"), done.stderr
    assert done.stderr.count("\n") == 1


def small_files(size: int):
    """No file grows larger: as on a full disk, but for the name of the error."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


def test_a_run_that_finds_no_room_is_taken_up_when_there_is_some(tmp_path):
    grid, out = few(tmp_path, '["parity-check", "reverse-string"]', 12), tmp_path / "out"
    full = sweep("--grid", grid, "--out", out, "--json", preexec_fn=small_files(6000))
    assert full.returncode == 5 and "Traceback" not in full.stderr, full.stderr
    assert "parity-check-noisy-1: unavailable: pntm: " in full.stderr and "File too large" in full.stderr
    assert "2 runs lacked disk space, memory or a device; repeat the command to continue them" in full.stderr
    assert "failed" not in [run["state"] for run in json.loads(full.stdout)["runs"]]
    assert not list(out.glob("*/failure.json"))
    done = sweep("--out", out, "--json")
    assert done.returncode == 0 and [run["state"] for run in json.loads(done.stdout)["runs"]] == ["done"] * 2


def test_a_disk_without_room_for_the_plan(tmp_path):
    grid, out = few(tmp_path, '["parity-check", "reverse-string"]'), tmp_path / "out"
    full = sweep("--grid", grid, "--out", out, preexec_fn=small_files(500))
    assert full.returncode == 5 and full.stderr == f"pntm: {out / 'sweep.json'}: File too large\n", full.stderr
    assert not (out / "sweep.json").exists()


def test_no_room_for_the_files_of_the_sweep_itself(tmp_path, monkeypatch):
    """Before the run's own process is there: not a failure that is remembered either, and the others go on."""
    first, second = read_grid(few(tmp_path, '["parity-check", "reverse-string"]'))
    write_config, ended = Run.write_config, {}

    def full(run: Run, config: object) -> None:
        if run.directory.name == first.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(run.path("config.json")))
        write_config(run, config)

    monkeypatch.setattr(Run, "write_config", full)
    run_here(tmp_path, [first, second], 1, Care(), lambda r, end: ended.update({r.name: end}), int, within(LIMIT))
    assert ended[first.name].state == "unavailable" and ended[first.name].cause.endswith("No space left on device")
    assert ended[second.name].state == "done" and not (tmp_path / first.name / "failure.json").exists()
