"""What all tests share: the devices they run on, and the counts printed at the end."""

from __future__ import annotations

import importlib.util

import hypothesis
import numpy as np
import pytest

from tests import standin, tally

# These read the sources beside the real CuPy; make cuda-check has an environment with it.
collect_ignore = [] if importlib.util.find_spec("cupy") else ["cuda_check"]

hypothesis.settings.register_profile("pntm", deadline=None)  # a first call may compile; speed is not tested here
hypothesis.settings.load_profile("pntm")

DEVICES = ("cpu", standin.DEVICE.name)


@pytest.fixture(params=DEVICES)
def device(request) -> str:
    """Every test of an op runs on NumPy and on the strict stand-in for CuPy."""
    return request.param


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20260)


def pytest_sessionfinish(session) -> None:
    if hasattr(session.config, "workeroutput"):  # one of several processes, by pytest-xdist
        session.config.workeroutput["tally"] = tally.as_json()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error) -> None:
    if found := getattr(node, "workeroutput", {}).get("tally"):
        tally.add(found)


def pytest_terminal_summary(terminalreporter) -> None:
    for line in tally.summary():
        terminalreporter.write_line(line)
