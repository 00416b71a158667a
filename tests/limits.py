"""A time limit for what could wait for ever in this process."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

LIMIT = 1200  # seconds for a process: none takes more than some of them, on a machine with nothing else to do


class Hung(BaseException):
    """Not an Exception: nothing takes it for an error of its own."""


@contextmanager
def limit(seconds: int) -> Iterator[None]:
    """Also what waits in the operating system is interrupted, such as a file that is being opened."""

    def ring(number: int, frame: object) -> None:
        raise Hung(f"it took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
