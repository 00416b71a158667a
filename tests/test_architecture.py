"""Dependencies point one way, between the packages and between the layers of pntm_np; only the backend knows CuPy."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
LONGEST = 350  # lines of a source file
ALLOWED = {
    "autodiff": set(),
    "tasks": set(),
    "pntm_np": {"autodiff", "tasks"},
    "cli": {"pntm_np", "autodiff", "tasks"},
}


# of pntm_np: each may import those before it, and none behind it; a run ends with its evaluation
LAYERS = ("protocol", "runtime", "scans", "models", "evaluation", "training", "experiments", "commands")
KNOW_TASKS = LAYERS[LAYERS.index("evaluation") :]
FACE = {"__init__", "siblings"}  # pntm_np/__init__.py exports; siblings imports nothing of the package


def modules(path: Path) -> set[str]:
    """The modules that a file imports, wherever in it: ``a.b`` for ``from a import b`` too."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def imported(path: Path) -> set[str]:
    """The top-level names that a file imports."""
    return {name.split(".")[0] for name in modules(path)}


def layer_of(path: Path) -> str:
    """The part of pntm_np that a file is in."""
    return path.relative_to(ROOT / "pntm_np").with_suffix("").parts[0]


def sources(package: str) -> list[Path]:
    return [ROOT / "cli.py"] if package == "cli" else sorted((ROOT / package).rglob("*.py"))


def test_dependencies_point_one_way():
    for package, allowed in ALLOWED.items():
        assert sources(package)
        for path in sources(package):
            wrong = imported(path) & ALLOWED.keys() - allowed - {package}
            assert not wrong, f"{path.relative_to(ROOT)} imports {wrong}"


def test_layers_of_the_package_point_one_way():
    wrong = []
    for path in sources("pntm_np"):
        layer = layer_of(path)
        if layer in FACE:
            continue
        assert layer in LAYERS, f"{path.relative_to(ROOT)}: say in LAYERS where it belongs"
        for name in modules(path):
            package, _, rest = name.partition(".")
            if package == "pntm_np":
                allowed = rest.split(".")[0] in LAYERS[: LAYERS.index(layer) + 1]
            else:
                allowed = package != "tasks" or layer in KNOW_TASKS
            if not allowed:
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert not wrong, wrong


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


def test_the_engine_knows_nothing_of_models():
    for path in sources("autodiff"):
        found = re.findall(r"\b(?:pntm_np|p-ntm|ntm|mingru|lstm|transformer|heads?)\b", path.read_text(), re.IGNORECASE)
        assert not found, f"{path.relative_to(ROOT)}: {found}"


def test_no_source_file_is_long():
    every = [path for package in ALLOWED for path in sources(package)] + sorted((ROOT / "pntm_np").rglob("*.js"))
    long = {str(path.relative_to(ROOT)): n for path in every if (n := path.read_text().count("\n")) > LONGEST}
    assert not long


def test_the_papers_numbers_are_below_everything():
    assert not imported(ROOT / "pntm_np" / "protocol.py") & ALLOWED.keys()
