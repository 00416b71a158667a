"""The sources against the real CuPy, and the lint against faults planted on purpose. Run by make cuda-check."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import cupy
import cupyx.scipy.special
import pytest

import autodiff
from tests import standin
from tests.cuda_check.lint import _check_method, faults

ROOT = Path(__file__).parent.parent.parent
SOURCES = sorted(p for package in ("autodiff", "pntm_np") for p in (ROOT / package).rglob("*.py"))


def test_the_sources_use_only_what_cupy_has():
    found = [f for path in SOURCES for f in faults(path.read_text(), path.relative_to(ROOT).as_posix())]
    assert SOURCES and not found, "\n".join(map(str, found))


def test_the_names_were_really_looked_up():
    """The lint sees the namespaces that the ops use: a source without one would pass for nothing."""
    text = "\n".join(p.read_text() for p in SOURCES)
    assert text.count("xp.") > 80


PLANTED = {
    "a function that CuPy lacks": ("with xp.errstate(all='ignore'): y = xp.exp(x)", "no errstate"),
    "a keyword of a ufunc": ("y = xp.exp(x, where=x > 0)", "exp takes no where="),
    "accumulate of a ufunc": ("y = xp.maximum.accumulate(x, axis=0)", "maximum has no accumulate"),
    "out= of a transform": ("y = xp.fft.rfft(x, axis=-1, out=y)", "fft.rfft takes no out="),
    "a keyword of a reduction": ("y = xp.sum(x, axis=0, initial=1.0)", "sum takes no initial="),
    "a method that CuPy's arrays lack": ("x.setflags(write=False)", "no .setflags"),
    "a keyword of a method": ("y = x.sum(axis=0, where=x > 0)", ".sum of CuPy's arrays takes no where="),
    "a function of NumPy itself": ("y = np.maximum(x, 0)", "np.maximum works on the host"),
    "CuPy imported elsewhere": ("import cupy", "only autodiff/backend.py may"),
    "too many arrays": ("y = xp.exp(x, x, x)", "exp takes 1 arrays, not 3"),
    "too few arguments": ("y = xp.broadcast_to(x)", "broadcast_to: missing a required argument"),
    "a special function that CuPy lacks": ("y = special_module(x).no_such_function(x)", "no no_such_function"),
    "a fault behind another name": ("add = array_module(x).add\ny = add(x, x, where=x > 0)", "takes no where="),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_faults_are_found(name: str):
    """Each is put into a real source file, after its last line, and is the only thing reported there."""
    fault, message = PLANTED[name]
    path = ROOT / "autodiff" / "elementwise.py"
    body = "".join(f"    {line}\n" for line in fault.splitlines())
    planted = path.read_text() + f"\n\ndef planted(xp, x, y):\n{body}"
    found = faults(planted, "autodiff/elementwise.py")
    assert len(found) == 1 and message in found[0].message, found


def test_right_code_is_not_reported():
    source = (
        "def right(xp, x):\n"
        "    y = xp.pad(x, ((1, 1),), mode='constant', constant_values=0) + xp.add.accumulate(x, axis=0)\n"
        "    return xp.sum(y, axis=(0, 1), keepdims=True).astype(xp.float32, copy=False) + special_module(x).erf(x)\n"
    )
    assert faults(source, "autodiff/right.py") == []


def shape_of(signature: inspect.Signature) -> list[tuple[str, inspect._ParameterKind]]:
    return [(p.name, p.kind) for p in signature.parameters.values()]


def test_the_stand_in_has_only_what_cupy_has():
    for name in standin.UFUNCS:
        assert isinstance(getattr(cupy, name), cupy.ufunc), name
    for name in standin.SPECIAL_UFUNCS:
        assert isinstance(getattr(cupyx.scipy.special, name), cupy.ufunc), name
    for space, functions in (
        (cupy, standin.FUNCTIONS),
        (cupy.fft, standin.FFT_FUNCTIONS),
        (cupy.lib.stride_tricks, standin.STRIDE_FUNCTIONS),
    ):
        for name, parameters in functions.items():
            assert shape_of(inspect.signature(getattr(space, name))) == shape_of(standin._signature(parameters)), name
    for name in standin.CONSTANTS:
        assert hasattr(cupy, name), name
    assert shape_of(inspect.signature(cupy.asarray)) == shape_of(inspect.signature(standin.asarray))
    assert shape_of(inspect.signature(cupy.asnumpy)) == shape_of(inspect.signature(standin.asnumpy))


def test_the_stand_ins_methods_are_cupys():
    for name, parameters in standin.METHODS.items():
        assert hasattr(cupy.ndarray, name), name
        for p in standin._signature(parameters).parameters.values():
            call = ast.parse(f"x.{name}({p.name}=0)").body[0].value
            assert p.kind is p.VAR_POSITIONAL or not list(_check_method(call, name)), (name, p.name)


def test_without_a_gpu_cuda_is_reported_as_missing_and_why():
    reason = autodiff.available()["cuda"]
    assert reason == "" or "GPU" in reason
