"""A run that takes a second, as a command line and as its files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.limits import LIMIT

SMALL = [
    "parity-check",
    "--form",
    "chunked",  # loads at once
    "--steps",
    "30",
    "--batch-size",
    "34",
    "--max-length",
    "4",
    "--size",
    "width=8",
    "--size",
    "heads=2",
    "--size",
    "cell=4",
    "--eval-every",
    "8",
    "--checkpoint-every",
    "7",
    "--lengths",
    "1:6",
    "--samples",
    "4",
    "--no-stop-when-solved",
    "--lr",
    "0.0005",
    "--option",
    "cool-down=0",
    "--noise",
    "0.5",
    "--memory-size",
    "16:24",
    "--tau",
    "auto",
]
SAME = ("model.safetensors", "metrics.jsonl", "state.safetensors", "config.json", "result.json")
ENVIRONMENT = os.environ | {"OPENBLAS_NUM_THREADS": "1"}


def command(out: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "cli", "train", *SMALL, "--out", str(out), *more]


def pntm_train(out: Path, *more: str) -> subprocess.CompletedProcess:
    return subprocess.run(command(out, *more), capture_output=True, text=True, env=ENVIRONMENT, timeout=LIMIT)


def started(out: Path, *more: str) -> subprocess.Popen:
    return subprocess.Popen(
        command(out, *more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    )


def files(out: Path) -> dict[str, bytes]:
    return {name: (out / name).read_bytes() for name in SAME}


def wait_for(path: Path, size: int = 1, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not path.exists() or path.stat().st_size < size:
        assert time.monotonic() < end, f"{path} did not come"
        time.sleep(0.005)


def send(process: subprocess.Popen, number: signal.Signals) -> None:
    os.kill(process.pid, number)
