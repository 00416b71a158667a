"""Refuses to import pntm if a file of the user hides one of its packages, whose names are short.

Without this check, the error would be about the first name that such a file lacks.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent


def origin(name: str) -> str | None:
    """The file that ``import name`` finds or has found."""
    try:
        spec = importlib.util.find_spec(name)
    except ValueError:  # the module is loaded, but has no specification
        return getattr(sys.modules[name], "__file__", None)
    return spec.origin if spec else None


for package in ("autodiff", "tasks"):
    found = origin(package)
    if found and Path(found).resolve() != HERE / package / "__init__.py":
        raise ImportError(
            f"{found} hides the package {package!r} of pntm; rename it, or start Python in another directory"
        )
