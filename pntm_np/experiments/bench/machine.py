"""Describe the computer that a benchmark ran on, and measure the peak memory."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
from pathlib import Path

import threadpoolctl

from autodiff import backend
from pntm_np.runtime import ram
from pntm_np.runtime.origin import versions
from pntm_np.runtime.untrusted import Json
from pntm_np.runtime.workers import cores


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def describe(device: str) -> Json:
    """What about the computer decides how fast things are."""
    blas = [lib for lib in threadpoolctl.threadpool_info() if lib["user_api"] == "blas"]
    return {
        "processor": processor(),
        "cores": cores(),
        "free_memory": ram.available(),
        "device": backend.describe_device(device),
        "system": f"{platform.system()} {platform.machine()}",
        **versions("python", "pntm", "numpy", "numba"),
        "blas": ", ".join(sorted({f"{lib['internal_api']} {lib.get('version') or ''}".strip() for lib in blas})),
    }


class PeakMemory:
    """``with PeakMemory() as peak: ...; peak.bytes``: the process's peak memory above what it held before.

    Linux keeps a high-water mark that can be reset. Elsewhere ``bytes`` is None.
    """

    bytes: int | None = None

    def __enter__(self) -> PeakMemory:
        gc.collect()
        give_back()
        self._before = None
        try:
            Path("/proc/self/clear_refs").write_text("5")
            self._before = _status("VmRSS")
        except OSError:
            pass
        return self

    def __exit__(self, *exception: object) -> None:
        if self._before is not None:
            self.bytes = max(0, _status("VmHWM") - self._before)


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def give_back() -> None:
    """Return freed memory that the allocator keeps to the system (``workers.keep_freed_memory``)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)
