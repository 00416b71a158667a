"""What is compiled is kept, and used again only as long as all that it is made of stays the same."""

from __future__ import annotations

import ast
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autodiff import backend
from tests.limits import LIMIT

pytestmark = pytest.mark.skipif(not backend.compiled(), reason="Numba is not installed")
ROOT = Path(__file__).parent.parent.parent

# A package of two files: a kernel, and a number that is compiled into it.
FILES = {
    "autodiff/__init__.py": "",
    "pntm_np/__init__.py": "",
    "pntm_np/number.py": "NUMBER = 1.0\n",
    "pntm_np/adding.py": """
from autodiff.kernel import kernel, unkept
from pntm_np.number import NUMBER

@kernel
def add(x):
    return x + NUMBER

if __name__ == "__main__":
    print(add(1.0), "cached" if sum(add.stats.cache_hits.values()) else "compiled", unkept())
""",
}


@pytest.fixture
def small(tmp_path) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    shutil.copy(ROOT / "autodiff" / "kernel.py", tmp_path / "autodiff")
    return tmp_path


@pytest.fixture(scope="module")
def ready(tmp_path_factory) -> Path:
    """It has been compiled."""
    place = small.__wrapped__(tmp_path_factory.mktemp("ready"))
    assert run(place) == "2.0 compiled"
    return place


def run(small: Path, before: str = "", **more: str) -> str:
    code = f"{before}\nimport runpy; runpy.run_module('pntm_np.adding', run_name='__main__')"
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"} | {"PYTHONPATH": str(small)} | more
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, env=environment, cwd=small, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def cache(small: Path) -> list[Path]:
    return sorted((small / "pntm_np" / "__pycache__").glob("*.nb*"))


@pytest.mark.parametrize("imported", ["from pntm_np.number import NUMBER", "from pntm_np import number"])
def test_a_number_in_another_file_is_a_part_of_a_kernel(imported: str, small):
    adding = small / "pntm_np" / "adding.py"
    name = "NUMBER" if imported.endswith("NUMBER") else "number.NUMBER"
    text = (
        adding.read_text().replace("from pntm_np.number import NUMBER", imported).replace("x + NUMBER", f"x + {name}")
    )
    adding.write_text(text)
    assert run(small) == "2.0 compiled" and run(small) == "2.0 cached"
    kept = cache(small)
    (small / "pntm_np" / "number.py").write_text("NUMBER = 5.0\n")
    assert run(small) == "6.0 compiled" and run(small) == "6.0 cached"
    assert len(kept) == len(cache(small)) == 2 and not set(kept) & set(cache(small)), "the old ones are removed"


@pytest.mark.parametrize("damage", ["none", "i garbage", "i empty", "i fifo", "i directory", "c garbage", "c cut"])
def test_a_damaged_cache_is_compiled_again(damage: str, ready: Path, tmp_path: Path):
    place = shutil.copytree(ready, tmp_path / "copy")
    kind, _, how = damage.partition(" ")
    for path in cache(place):
        if path.suffix == f".nb{kind}":
            content = path.read_bytes()
            path.unlink()
            if how == "fifo":
                os.mkfifo(path)
            elif how == "directory":
                path.mkdir()
            else:
                path.write_bytes({"empty": b"", "cut": content[:-7]}.get(how, b"\x80\x04garbage"))
    assert run(place).startswith("2.0 cached" if damage == "none" else "2.0 compiled")


FULL = """
import errno, os
import numba.core.caching as caching
def full(self, name, data):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
caching.IndexDataCacheFile._save_data = full
"""
NOWHERE = """
import numba.core.caching as caching
caching.CacheImpl._locator_classes = []
"""


def test_a_full_disk_is_said_with_the_place(small):
    """What was compiled is used, and nothing half kept is left for the next time."""
    said = run(small, FULL)
    assert said == f"2.0 compiled {small / 'pntm_np' / '__pycache__'}: No space left on device"
    assert not cache(small) and run(small) == "2.0 compiled"


def test_a_cache_that_cannot_be_written_is_said(small):
    assert run(small, NOWHERE).startswith(f"2.0 compiled neither {small / 'pntm_np' / '__pycache__'} nor")


def names_in(path: Path) -> tuple[set[str], dict[str, str]]:
    """All names that a file's compiled functions use; and those that it imports, with their modules."""
    tree = ast.parse(path.read_text())
    kernels = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.decorator_list]
    used = {n.id for kernel in kernels for n in ast.walk(kernel) if isinstance(n, ast.Name)}
    froms = [n for n in tree.body if isinstance(n, ast.ImportFrom)]
    return used, {alias.asname or alias.name: node.module for node in froms for alias in node.names}


def test_everything_that_kernels_use_is_in_their_fingerprint():
    from autodiff.kernel import made_of

    parts, checked = [*made_of(ROOT / "autodiff"), *made_of(ROOT / "pntm_np")], set()
    files = [p for p in parts if "from autodiff.kernel import" in p.read_text() and p.name != "kernel.py"]
    assert len(files) >= 9
    for path in files:
        used, imported = names_in(path)
        found = vars(importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts)))
        for name in used & imported.keys():
            if imported[name].split(".")[0] in ("autodiff", "pntm_np"):
                where = Path(getattr(found[name], "__file__", None) or sys.modules[imported[name]].__file__)
                assert where in parts, f"{path.name} uses {name} of {where}"
                checked.add(name)
    assert {"LOG_FLOOR", "NORM_FLOOR", "STEEPEST", "scalar", "move", "largest", "blend"} <= checked


def test_a_change_of_any_part_changes_the_fingerprint(tmp_path):
    from autodiff.kernel import fingerprint, made_of, package_of

    for package in ("autodiff", "pntm_np"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    package, engine = tmp_path / "pntm_np", tmp_path / "autodiff"
    fresh = fingerprint.__wrapped__  # as in another process
    before, parts = fresh(package, engine), made_of(package, engine)
    assert before == fingerprint(ROOT / "pntm_np") and {package_of(path) for path in parts} == {package, engine}
    for path in parts:
        text = path.read_text()
        path.write_text(text + "# changed\n")
        assert fresh(package, engine) != before, path
        path.write_text(text)
    (tmp_path / "pntm_np" / "experiments" / "report" / "tables.py").write_text("")
    assert fresh(package, engine) == before, "what kernels have nothing to do with"
