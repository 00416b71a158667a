"""Threads that share the work of a batch, each with a BLAS of one thread.

NumPy releases the interpreter's lock, so threads are enough. A product's bits may depend on the number of threads that
compute it: with one thread for each, results do not depend on how many workers there are.
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
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def keep_freed_memory() -> None:
    """Ask glibc to keep what is freed. It would hand large arrays back to the system, which clears them for the next
    use: a large part of the time of a training step. Threads share one pool of it. Elsewhere nothing is changed."""
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
        """Results in the order of the items, each as soon as it and those before it are there."""

        def quiet(item: T) -> R:
            with np.errstate(all="ignore"):  # what is not finite is found and reported by the caller
                return function(item)

        if self._pool is None:
            yield from map(quiet, items)
            return
        ahead: deque[Future] = deque()
        for item in items:  # not all at once: items may be many, and large
            ahead.append(self._pool.submit(quiet, item))
            if len(ahead) > self.threads:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
