"""Killed at random moments and resumed until done: the same files as without a break. make test-kill"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pntm_np.training import Run
from tests.limits import LIMIT
from tests.pntm_np.training.small import ENVIRONMENT, command, files, pntm_train, send
from tests.pntm_np.training.test_run import check_loadable, saved_run

pytestmark = pytest.mark.kill
KILLS = int(os.environ.get("KILLS", "50"))
LONGER = ("--steps", "150")  # so that it is not mostly its start that is killed


def test_killed_at_random_moments(tmp_path: Path):
    began = time.perf_counter()
    assert pntm_train(tmp_path / "reference", *LONGER).returncode == 0
    whole, reference = time.perf_counter() - began, files(tmp_path / "reference")
    rng, kills, runs, steps = np.random.default_rng(50), 0, 0, set()
    while kills < KILLS:
        out, undisturbed, began = tmp_path / f"run-{runs}", True, time.perf_counter()
        runs += 1
        while True:  # until this run is done, each attempt with a moment of its own
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            process = subprocess.Popen(command(out, "--resume", *LONGER), env=ENVIRONMENT, **quiet)
            try:
                process.wait(rng.uniform(0.3, 1.1) * whole)
            except subprocess.TimeoutExpired:
                send(process, signal.SIGKILL)
                process.wait(60)
                kills, undisturbed = kills + 1, False
                if (out / "state.safetensors").exists():
                    steps.add(Run(out).load()[1].step)
                continue
            assert process.returncode == 0
            break
        assert files(out) == reference
        if undisturbed:  # the machine has become faster
            whole = min(whole, time.perf_counter() - began)
    assert len(steps) >= min(KILLS, 10), "killed too early or too late: no run had to be resumed in its middle"


SAVE = """
import sys
from pathlib import Path
from pntm_np.training import Run

run = Run(Path(sys.argv[1]))
config, progress = run.load()
progress.step += 1
run.save(config, progress)
"""
CALLS = ("openat", "write", "fsync", "close", "rename")


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
@pytest.mark.parametrize("fault", ("error=ENOSPC", "error=EIO", "signal=SIGKILL"))
def test_a_fault_in_every_system_call_of_a_save(fault: str, tmp_path: Path):
    """With strace: the k-th call of each kind on the run's files fails, for every k until there is none."""
    faults = 0
    for call in CALLS:
        for k in range(1, 20):
            run, config, progress = saved_run(tmp_path / f"{call}-{k}")
            out = run.directory
            trace = ["strace", "-f", "-qq", "-o", "/dev/null", "-P", str(out)]
            for name in ("metrics.jsonl", "state.safetensors", "model.safetensors"):
                trace += ["-P", str(out / name), "-P", str(out / f".{name}.partial")]
            trace += ["-e", f"trace={call}", "-e", f"inject={call}:{fault}:when={k}"]
            save = [*trace, sys.executable, "-c", SAVE, str(out)]
            done = subprocess.run(save, capture_output=True, env=ENVIRONMENT, timeout=LIMIT)
            check_loadable(run)
            run.save(config, progress)
            assert run.load()[1].step == 1
            if done.returncode == 0:
                break
            faults += 1
        else:
            raise AssertionError(f"{call}: more than 20 calls")
    assert faults >= 15, "the faults did not reach the save"
