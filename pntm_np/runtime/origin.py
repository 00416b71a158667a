"""The origin of results: versions of pntm and its libraries, and the commit of the sources, if known."""

from __future__ import annotations

import functools
import importlib.metadata
import json
import platform
import subprocess
from pathlib import Path

from autodiff import backend

SOURCES = ("autodiff", "pntm_np", "tasks", "cli.py")


@functools.cache
def commit() -> str | None:
    """The commit, with a + if the sources have been changed since; None if unknown."""
    here = Path(__file__).resolve().parents[2]
    try:
        git("ls-files", "--error-unmatch", "pntm_np/runtime/origin.py", at=here)  # in another repository, this fails
        changed = git("status", "--porcelain", "--", *SOURCES, at=here)
        return git("rev-parse", "HEAD", at=here).strip() + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return _installed_from()


def git(*command: str, at: Path) -> str:
    return subprocess.run(["git", *command], cwd=at, capture_output=True, text=True, check=True, timeout=10).stdout


def _installed_from() -> str | None:
    """The commit that pip records when it installs from a repository (PEP 610)."""
    try:
        text = importlib.metadata.distribution("pntm").read_text("direct_url.json")
        return json.loads(text or "{}").get("vcs_info", {}).get("commit_id")
    except (importlib.metadata.PackageNotFoundError, ValueError, AttributeError):
        return None


def made_by() -> dict[str, str | None]:
    """Versions on which speed, and the last bits of results, may depend."""
    return {**versions("pntm"), "commit": commit(), **versions("python", "numpy", "numba")}


def versions(*names: str) -> dict[str, str]:
    """Versions of Python and of libraries; Numba is left out if it is not in use."""
    there = [name for name in names if name != "numba" or backend.compiled()]
    return {n: platform.python_version() if n == "python" else importlib.metadata.version(n) for n in there}


def versions_in_use() -> dict[str, str]:
    return versions("python", "pntm", "numpy", "scipy", "safetensors", "numba")
