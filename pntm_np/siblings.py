"""The packages beside this one have short names: a file of the user's that Python finds first is named here.

Without this, the first thing that such a file does not have would be missed, somewhere.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent


def origin(name: str) -> str | None:
    """The file that ``import name`` finds, or has found."""
    try:
        spec = importlib.util.find_spec(name)
    except ValueError:  # there is a module without a specification
        return getattr(sys.modules[name], "__file__", None)
    return spec.origin if spec else None


for package in ("autodiff", "tasks"):
    found = origin(package)
    if found and Path(found).resolve() != HERE / package / "__init__.py":
        raise ImportError(f"{found} hides the package {package!r} of pntm: rename it, or start Python elsewhere")
