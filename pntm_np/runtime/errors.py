"""Failures that a user can cause or mend: one base class, and the exit code that a command ends with."""

from __future__ import annotations

FAILED, USAGE, DIVERGED, BAD_FILE, NOT_AVAILABLE = 1, 2, 3, 4, 5  # exit codes; scripts rely on them


class PntmError(Exception):
    """The message is for the user: what was wrong, and what would be right."""

    exit_code = FAILED
