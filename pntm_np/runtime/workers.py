"""Threads that share the work of a batch, each with a BLAS of one thread.

NumPy releases the interpreter's lock, so threads suffice. The bits of a product may depend on the number of threads
that compute it; with one thread for each product, results do not depend on the number of workers.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

T = TypeVar("T")
R = TypeVar("R")
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -2, -3, -8  # of malloc.h


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def keep_freed_memory() -> None:
    """Make glibc keep freed memory in one pool for all threads; on other systems, do nothing.

    By default it returns large arrays to the system, which then clears them: a large part of a training step's time.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        keep = {M_ARENA_MAX: 1, M_MMAP_THRESHOLD: 1 << 30, M_TRIM_THRESHOLD: (1 << 31) - 1, M_TOP_PAD: 1 << 26}
        for parameter, value in keep.items():
            mallopt(parameter, value)


class Workers:
    """``with Workers(2) as workers: workers.map(function, items)``"""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Workers:
        keep_freed_memory()
        self._limits = threadpool_limits(1, "blas")
        self._pool = ThreadPoolExecutor(self.threads) if self.threads > 1 else None
        return self

    def __exit__(self, *exception: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._limits.restore_original_limits()

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Yield results in the order of the items, each once it and those before it are ready."""

        def quiet(item: T) -> R:
            with np.errstate(all="ignore"):  # the caller finds and reports values that are not finite
                return function(item)

        if self._pool is None:
            yield from map(quiet, items)
            return
        ahead: deque[Future] = deque()
        for item in items:  # lazily: items may be many, and large
            ahead.append(self._pool.submit(quiet, item))
            if len(ahead) > self.threads:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
