"""Dependencies point one way: cli -> pntm_np -> {autodiff, tasks}; only the backend knows CuPy."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
ALLOWED = {
    "autodiff": set(),
    "tasks": set(),
    "pntm_np": {"autodiff", "tasks"},
    "cli": {"pntm_np", "autodiff", "tasks"},
}


def imported(path: Path) -> set[str]:
    """The top-level names that a file imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            names.add(node.module.split(".")[0])
    return names


def sources(package: str) -> list[Path]:
    return [ROOT / "cli.py"] if package == "cli" else sorted((ROOT / package).rglob("*.py"))


def test_dependencies_point_one_way():
    for package, allowed in ALLOWED.items():
        assert sources(package)
        for path in sources(package):
            wrong = imported(path) & ALLOWED.keys() - allowed - {package}
            assert not wrong, f"{path.relative_to(ROOT)} imports {wrong}"


def test_nothing_imports_the_tests_or_a_framework():
    for package in ALLOWED:
        for path in sources(package):
            assert not imported(path) & {"tests", "benchmarks", "torch", "jax", "pickle"}, path


def test_only_the_backend_names_cupy():
    for package in ALLOWED:
        for path in sources(package):
            if path != ROOT / "autodiff" / "backend.py":
                assert not imported(path) & {"cupy", "cupyx"}, path
                assert "import_module" not in path.read_text(), path
