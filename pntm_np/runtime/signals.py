"""SIGINT and SIGTERM: the first one lets the program finish its step and save; the second ends it at once."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

SHOW_CURSOR = b"\x1b[?25h\n"
HANDLED = (signal.SIGINT, signal.SIGTERM)


class Stopped(Exception):
    """The caller asked to stop."""


class Signals:
    """``with Signals() as signals: ... if signals.received: ...``"""

    def __init__(self) -> None:
        self.received = 0  # the first signal's number

    def __enter__(self) -> Signals:
        self.received = 0
        self._before = {number: signal.signal(number, self._handle) for number in HANDLED}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received:
            if sys.stderr.isatty():
                os.write(2, SHOW_CURSOR)  # the live display hides it
            os._exit(128 + number)  # safe: files are written atomically
        self.received = number

    @property
    def exit_code(self) -> int:
        return 128 + self.received
