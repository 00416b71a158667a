"""Killed at random moments and resumed until done: the same files as without a break. make test-kill"""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from pntm_np.training import Run
from tests.pntm_np.training.small import ENVIRONMENT, command, files, pntm_train, send

pytestmark = pytest.mark.kill
KILLS = 50


def test_killed_at_fifty_random_moments(tmp_path: Path):
    began = time.perf_counter()
    assert pntm_train(tmp_path / "reference").returncode == 0
    whole, reference = time.perf_counter() - began, files(tmp_path / "reference")
    rng, kills, steps = np.random.default_rng(50), 0, set()
    while kills < KILLS:
        out = tmp_path / f"run-{kills}"
        while True:  # until this run is done, each attempt with a moment of its own
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            process = subprocess.Popen(command(out, "--resume"), env=ENVIRONMENT, **quiet)
            try:
                process.wait(rng.uniform(0.3, 1.1) * whole)
            except subprocess.TimeoutExpired:
                send(process, signal.SIGKILL)
                process.wait()
                kills += 1
                if (out / "state.safetensors").exists():
                    steps.add(Run(out).load()[1].step)
                continue
            assert process.returncode == 0
            break
        assert files(out) == reference
    assert len(steps) >= 3, "killed too early or too late: no run had to be resumed in its middle"


@pytest.mark.skipif(not __import__("shutil").which("strace"), reason="strace is not installed")
@pytest.mark.parametrize("fault", ("error=ENOSPC", "error=EIO", "signal=SIGKILL"))
def test_a_fault_in_every_system_call_of_a_save(fault: str, tmp_path: Path):
    """With strace: the k-th call of each kind in the run's directory fails, for every k until none does any more."""
    reference = tmp_path / "reference"
    assert pntm_train(reference, "--steps", "8").returncode == 0
    expected = files(reference)
    for call in (
        "openat",
        "write",
        "fsync",
        "close",
        "rename",
        "unlink",
        "ftruncate",
        "truncate",
        "lseek",
        "mkdir",
        "flock",
    ):
        for k in range(1, 40):
            out = tmp_path / f"{fault[-3:]}-{call}-{k}"
            trace = ["strace", "-f", "-qq", "-o", "/dev/null", "-P", str(out)]
            for name in (
                "metrics.jsonl",
                "timing.jsonl",
                "config.json",
                "state.safetensors",
                "model.safetensors",
                "result.json",
            ):
                trace += ["-P", str(out / name), "-P", str(out / f".{name}.partial")]
            trace += ["-e", f"trace={call}", "-e", f"inject={call}:{fault}:when={k}"]
            done = subprocess.run(
                [*trace, *command(out, "--steps", "8")], capture_output=True, text=True, env=ENVIRONMENT
            )
            assert "Traceback" not in done.stderr, (call, k, done.stderr)
            if (out / "state.safetensors").exists():
                Run(out).load()
            again = pntm_train(out, "--steps", "8", "--resume")
            assert again.returncode == 0 and files(out) == expected, (call, k, again.stderr)
            if done.returncode == 0:
                break
        else:
            raise AssertionError(f"{call}: more than 40 calls")
