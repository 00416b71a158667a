"""Reads the sources and reports whatever the real CuPy would not accept, without running them.

In files that compute on arrays ``xp`` is the namespace of the data. For every ``xp.name`` the name must exist in
CuPy, and in a call every keyword, and the number of positional arguments, must fit; the same for
``special_module(x).name``. Methods that NumPy's arrays have and CuPy's lack are reported, and so are functions of
NumPy itself, which would pull device arrays to the host.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import cupy
import cupyx.scipy.special
import numpy as np

UFUNC_KEYWORDS = {"out", "dtype", "casting"}  # ``where=`` is refused by CuPy at run time
UFUNC_METHODS = {"accumulate": {"add", "multiply"}, "reduce": {"add", "multiply"}, "reduceat": {"add"}}
HOST_NAMES = {"dtype", "errstate", "finfo", "float32", "float64", "generic", "integer", "ndarray", "memmap", "random"}
OPEN_KEYWORDS = {"pad": {"constant_values"}, "einsum": {"dtype", "optimize"}}  # those CuPy takes as **kwargs
MODULES = {"ad", "autodiff", "backend", "json", "math", "np"}  # their functions are not methods of an array
HOST_FILES = (  # they handle host arrays on purpose
    "autodiff/backend.py",
    "autodiff/check.py",
    "autodiff/compiled.py",  # compiled, for the CPU alone
    "autodiff/scalar.py",
    "autodiff/host.py",  # the CPU only
    "pntm_np/experiments/bench/forward.py",  # inputs and outputs; what is between is on the device
    "pntm_np/experiments/bench/train_step.py",
    "pntm_np/models/checkpoint.py",
    "pntm_np/evaluation/answer.py",
    "pntm_np/evaluation/decode.py",  # prompts and answers; what is between is on the device
    "pntm_np/evaluation/report.py",
    "pntm_np/evaluation/score.py",
    "pntm_np/models/attention/fused.py",
    "pntm_np/models/initial.py",
    "pntm_np/models/lstm/fused.py",
    "pntm_np/models/ntm/fused.py",
    "pntm_np/models/ntm/kernels.py",
    "pntm_np/models/summary.py",
    "pntm_np/scans/conv_shift/fused.py",
    "pntm_np/scans/gated/fused.py",
    "pntm_np/scans/heads/fused.py",
    "pntm_np/scans/memory/fused.py",
    "pntm_np/runtime/sealed.py",
    "pntm_np/experiments/selftest.py",
    "pntm_np/experiments/trace/document.py",
    "pntm_np/experiments/trace/explain.py",
    "pntm_np/experiments/trace/figure.py",
    "pntm_np/experiments/trace/page.py",
    "pntm_np/experiments/trace/record.py",  # what it is given is brought to the host first
    "pntm_np/experiments/trace/render.py",
    "pntm_np/experiments/trace/variants.py",
    "pntm_np/training/learner.py",  # batches and masks, before they are moved
    "pntm_np/training/noise.py",  # drawn on the host, then moved
    "pntm_np/training/rounding.py",  # the same
    "pntm_np/training/run.py",
    "pntm_np/training/session.py",
    "pntm_np/experiments/sweep/forecast.py",
    "pntm_np/experiments/report/figures.py",
)


class Fault(NamedTuple):
    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


def faults(source: str, file: str) -> list[Fault]:
    """All that CuPy would not accept in this source text."""
    tree = ast.parse(source)
    aliases = {"xp": cupy, **_aliases(tree)}
    found = []
    for node in ast.walk(tree):
        for message in _check(node, aliases, file):
            found.append(Fault(file, node.lineno, message))
    return sorted(set(found))


def _aliases(tree: ast.AST) -> dict[str, Any]:
    """Local names for functions of the namespace, as in ``where = array_module(g).where``."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            root = _root(node.value, {"xp": cupy})
            if root is not None and root[1]:
                found[node.targets[0].id] = _resolve(*root)
    return {name: value for name, value in found.items() if value is not None}


def _root(node: ast.AST, aliases: dict[str, Any]) -> tuple[Any, list[str]] | None:
    """A chain of attributes as (namespace, names), if it starts in the namespace of the data."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    names.reverse()
    if isinstance(node, ast.Name) and node.id in aliases:
        return aliases[node.id], names
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id == "array_module":
            return cupy, names
        if node.func.id == "special_module":
            return cupyx.scipy.special, names
    return None


def _resolve(value: Any, names: list[str]) -> Any:
    for name in names:
        value = getattr(value, name, None)
        if value is None:
            return None
    return value


def _check(node: ast.AST, aliases: dict[str, Any], file: str) -> Iterator[str]:
    if isinstance(node, (ast.Import, ast.ImportFrom)) and file != "autodiff/backend.py":
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
        if any(m.split(".")[0] in ("cupy", "cupyx") for m in modules):
            yield "imports CuPy; only autodiff/backend.py may"
    if isinstance(node, ast.Attribute):
        yield from _check_name(node, aliases, file)
    if isinstance(node, ast.Call):
        yield from _check_call(node, aliases)


def _check_name(node: ast.Attribute, aliases: dict[str, Any], file: str) -> Iterator[str]:
    root = _root(node, aliases)
    if root is not None:
        base, names = root
        owner = _resolve(base, names[:-1])
        if owner is not None and getattr(owner, names[-1], None) is None and names[-1] != "newaxis":
            yield f"CuPy has no {'.'.join(names)}"
        elif isinstance(owner, cupy.ufunc) and names[-1] in UFUNC_METHODS:
            ufunc = owner.name.removeprefix("cupy_")
            if ufunc not in UFUNC_METHODS[names[-1]]:
                yield f"CuPy's {ufunc} has no {names[-1]}"
    elif isinstance(node.value, ast.Name) and node.value.id == "np" and file not in HOST_FILES:
        if node.attr not in HOST_NAMES:
            yield f"np.{node.attr} works on the host; take it from the namespace of the data"
    elif isinstance(node.value, ast.Name) and node.value.id in MODULES:
        return
    elif hasattr(np.ndarray, node.attr) and not hasattr(cupy.ndarray, node.attr):
        yield f"CuPy's arrays have no .{node.attr}"


def _check_call(node: ast.Call, aliases: dict[str, Any]) -> Iterator[str]:
    root = _root(node.func, aliases)
    if root is not None:
        target, name = _resolve(*root), ".".join(root[1]) or getattr(node.func, "id", "")
        if target is not None:
            yield from _check_arguments(node, target, name)
    elif isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") not in MODULES:
        name = node.func.attr
        special = name.startswith("__")  # super().__init__(...): every class has one, and no array's is called by name
        if node.keywords and not special and hasattr(np.ndarray, name) and hasattr(cupy.ndarray, name):
            yield from _check_method(node, name)


def _check_arguments(node: ast.Call, target: Any, name: str) -> Iterator[str]:
    keywords = [k.arg for k in node.keywords if k.arg]
    positional = [a for a in node.args if not isinstance(a, ast.Starred)]
    starred = len(positional) != len(node.args)
    if isinstance(target, cupy.ufunc):
        for keyword in sorted(set(keywords) - UFUNC_KEYWORDS):
            yield f"CuPy's {name} takes no {keyword}="
        if not starred and not target.nin <= len(positional) <= target.nin + target.nout:
            yield f"CuPy's {name} takes {target.nin} arrays, not {len(positional)}"
        return
    if inspect.isclass(target):
        return
    if inspect.isbuiltin(target):
        for keyword in sorted(set(keywords) - _documented_parameters(target)):
            yield f"CuPy's {name} takes no {keyword}="
        return
    signature = inspect.signature(target)
    parameters = signature.parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        known = {p.name for p in parameters} | OPEN_KEYWORDS.get(name.split(".")[-1], set())
    else:
        known = {p.name for p in parameters}
    for keyword in sorted(set(keywords) - known):
        yield f"CuPy's {name} takes no {keyword}="
    if not starred and set(keywords) <= known and all(k.arg for k in node.keywords):
        try:
            signature.bind(*positional, **dict.fromkeys(keywords))
        except TypeError as error:
            yield f"CuPy's {name}: {error}"


def _check_method(node: ast.Call, name: str) -> Iterator[str]:
    known = _documented_parameters(getattr(cupy.ndarray, name))
    for keyword in node.keywords:
        if keyword.arg and keyword.arg not in known:
            yield f"the .{name} of CuPy's arrays takes no {keyword.arg}="


def _documented_parameters(method: Any) -> set[str]:
    """Methods are compiled; their parameters stand in the first line of the docstring."""
    inside = re.search(r"\((.*)\)", (method.__doc__ or "").splitlines()[0])
    return set(re.findall(r"(\w+)\s*(?:=|,|$)", inside.group(1))) if inside else set()
