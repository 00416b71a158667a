"""Shares as people read them."""

from __future__ import annotations

MOST = 6  # digits


def share(value: float, digits: int) -> str:
    """Rounded, but never up to 1: what is nearly perfect has as many digits as that takes."""
    while value < 1 and digits < MOST and float(f"{value:.{digits}f}") == 1:
        digits += 1
    return f"{min(value, 1 - 10.0**-digits) if value < 1 else value:.{digits}f}"
