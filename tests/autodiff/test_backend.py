"""Which namespace an array belongs to, and that CuPy is not touched until it is needed."""

from __future__ import annotations

import subprocess
import sys
import types

import numpy as np
import pytest

import autodiff as ad
from autodiff import backend
from tests import standin
from tests.limits import LIMIT


def test_importing_autodiff_does_not_import_cupy():
    """A cupy that cannot be imported without being noticed stands first on the path."""
    code = (
        "import sys, types\n"
        "class Tripwire:\n"
        "    def find_spec(self, name, *a):\n"
        "        if name.split('.')[0] in ('cupy', 'cupyx'): raise SystemExit('imported ' + name)\n"
        "sys.meta_path.insert(0, Tripwire())\n"
        "import numpy as np, autodiff as ad\n"
        "ad.value_and_grad(lambda p: ad.sum(ad.gelu(p)))(np.ones(3))\n"
        "assert not any(m.split('.')[0] in ('cupy', 'cupyx') for m in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr


def test_the_data_decides():
    d = ad.to_device(np.ones(2), "standin")
    assert ad.array_module(np.ones(2)) is np and ad.array_module(np.float32(1), 2.0) is np
    assert ad.array_module(d) is standin.xp and ad.array_module(2.0, d, None, np.float32(1)) is standin.xp
    assert ad.special_module(d) is standin.special
    with pytest.raises(TypeError, match="list is not an array"):
        ad.array_module([1.0])


def test_an_array_in_a_file_is_one_of_numpy(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(3.0))
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert ad.array_module(x) is np
    value, gradient = ad.value_and_grad(lambda p: ad.sum(p * x))(np.ones(3))
    assert value == 3 and np.array_equal(gradient, [0, 1, 2])


def test_there_and_back():
    x = np.arange(3.0)
    d = ad.to_device(x, "standin")
    assert isinstance(d, standin.DeviceArray) and ad.to_device(d, "standin") is d
    assert ad.to_device(x, "cpu") is x and ad.to_host(x) is x
    before = standin.synchronisations
    np.testing.assert_array_equal(ad.to_device(d, "cpu"), x)
    assert standin.synchronisations == before + 1
    ad.synchronize("cpu")
    assert standin.synchronisations == before + 1
    ad.synchronize("standin")
    assert standin.synchronisations == before + 2


def test_devices_are_described_in_one_line():
    assert ad.describe_device("cpu") == f"cpu: NumPy {np.__version__}"
    assert ad.describe_device("standin").startswith("standin")


def test_what_is_available_and_why_not(monkeypatch):
    reasons = ad.available()
    assert reasons["cpu"] == "" and "cuda" in reasons
    monkeypatch.setitem(sys.modules, "cupy", None)  # as if not installed
    monkeypatch.delitem(backend._LOADED, "cuda", raising=False)
    assert "pip install 'pntm[cuda]'" in ad.available()["cuda"]
    with pytest.raises(ad.BackendUnavailable, match="cannot be imported"):
        ad.to_device(np.ones(1), "cuda")


class FakeCupy:
    """A cupy module as it looks to the loader."""

    def __init__(self, version: str, devices) -> None:
        def count():
            if isinstance(devices, Exception):
                raise devices
            return devices

        self.__version__ = version
        self.ndarray = type("ndarray", (), {"__module__": "cupy"})
        runtime = {
            "getDeviceCount": count,
            "getDevice": lambda: 1,
            "getDeviceProperties": lambda device: {1: {"name": b"Some GPU"}}[device],
            "runtimeGetVersion": lambda: 12090,
        }
        self.cuda = types.SimpleNamespace(runtime=types.SimpleNamespace(**runtime))


@pytest.mark.parametrize(
    ("version", "devices", "reason"),
    [
        ("13.6.0", 1, "CuPy 13.6.0 is too old; CuPy 14"),
        ("14.2.0", 0, "finds no GPU"),
        ("14.2.0", RuntimeError("cudaErrorInsufficientDriver: too old"), "no usable GPU: cudaErrorInsufficientDriver"),
        ("14.2.0", 2, ""),
    ],
)
def test_cuda_is_loaded_only_if_it_can_be_used(monkeypatch, version, devices, reason):
    cupy = FakeCupy(version, devices)
    for name, module in (("cupy", cupy), ("cupyx.scipy.special", object())):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(backend._LOADED, "cuda", raising=False)
    monkeypatch.setattr(backend, "_OWNERS", dict(backend._OWNERS))
    found = ad.available()["cuda"]
    backend._LOADED.pop("cuda", None)
    assert (reason in found) if reason else found == ""
    if not reason:
        assert ad.array_module(cupy.ndarray()) is cupy
        assert ad.describe_device("cuda") == "cuda: Some GPU, CuPy 14.2.0, CUDA runtime 12090"
    backend._LOADED.pop("cuda", None)
