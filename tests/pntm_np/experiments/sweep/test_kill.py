"""Sweeps whose parent, workers and runs are killed at random moments: the same table as without. make test-kill"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.pntm_np.experiments.sweep.small import at_work, completed_once, files, gone, grid_file, started, sweep

pytestmark = pytest.mark.kill
KILLS, STEPS = 20, 800


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("undisturbed")
    assert sweep("--grid", grid_file(place, STEPS), "--out", place / "out").returncode == 0
    return place / "out"


def check(out: Path, undisturbed: Path, table: str) -> None:
    assert table == sweep("status", undisturbed).stdout
    assert files(out) == files(undisturbed) and len(files(out)) == 24


def test_here(undisturbed, tmp_path):
    """The parent, or one of the runs."""
    out, grid, rng, kills = tmp_path / "out", grid_file(tmp_path, STEPS), np.random.default_rng(0), 0
    with completed_once(out):
        process = started("--grid", grid, "--out", out, log=tmp_path / "log")
        while kills < KILLS and process.poll() is None:
            time.sleep(rng.uniform(1.0, 4.0))
            if process.poll() is None:
                if kills % 2:
                    process.kill()
                    process.wait(60)
                    assert gone(out), "a run outlived its sweep"
                else:
                    for pid in at_work(out)[:1]:
                        os.kill(pid, signal.SIGKILL)
                kills += 1
            if process.poll() == -signal.SIGKILL:  # not where all is done: there is nothing left to kill
                process = started("--grid", grid, "--out", out, log=tmp_path / "log")
        assert kills == KILLS, "the sweep was too fast to be killed that often"
        assert process.wait(600) == 0, (tmp_path / "log").read_text()[-2000:]
    check(out, undisturbed, sweep("status", out).stdout)
    assert gone(out)


def test_on_a_cluster_of_two_workers(undisturbed, tmp_path):
    """The parent, or one of the workers, which are started again by hand."""
    out, grid, rng, kills = tmp_path / "out", grid_file(tmp_path, STEPS), np.random.default_rng(1), 0
    port, log = 20_000 + os.getpid() % 10_000, open(tmp_path / "dask", "w")  # noqa: SIM115
    dask, quiet = [sys.executable, "-m", "dask"], {"stdout": log, "stderr": log, "cwd": tmp_path}
    address = f"tcp://127.0.0.1:{port}"
    scheduler = subprocess.Popen([*dask, "scheduler", "--port", str(port), "--no-dashboard"], **quiet)

    def worker() -> subprocess.Popen:
        return subprocess.Popen([*dask, "worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard"], **quiet)

    workers = [worker(), worker()]
    try:
        with completed_once(out):
            process = started("--grid", grid, "--out", out, "--cluster", address, log=tmp_path / "log")
            while kills < KILLS and process.poll() is None:
                time.sleep(rng.uniform(2.0, 5.0))
                if process.poll() is None:
                    if kills % 4 == 3:
                        process.kill()
                        process.wait(60)
                        assert gone(out), "a run outlived its sweep"
                    else:
                        victim = kills % 2
                        workers[victim].kill()
                        workers[victim].wait(60)
                        workers[victim] = worker()
                    kills += 1
                if process.poll() == -signal.SIGKILL:
                    process = started("--grid", grid, "--out", out, "--cluster", address, log=tmp_path / "log")
            assert kills == KILLS, "the sweep was too fast to be killed that often"
            assert process.wait(600) == 0, (tmp_path / "log").read_text()[-2000:]
        check(out, undisturbed, sweep("status", out).stdout)
    finally:
        for p in (*workers, scheduler):
            p.kill()
            p.wait(60)
        log.close()
    assert gone(out)
