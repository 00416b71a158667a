"""Shares as people read them."""

from __future__ import annotations


def share(value: float, digits: int) -> str:
    """Rounded; but only what is perfect looks so."""
    return f"{min(value, 1 - 10.0**-digits) if value < 1 else value:.{digits}f}"
