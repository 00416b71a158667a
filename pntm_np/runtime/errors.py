"""The base class of failures that the user can cause or fix, and the exit codes of commands."""

from __future__ import annotations

FAILED, USAGE, DIVERGED, BAD_FILE, NOT_AVAILABLE = 1, 2, 3, 4, 5  # exit codes; scripts rely on them


class PntmError(Exception):
    """The message tells the user what was wrong and what to do."""

    exit_code = FAILED
