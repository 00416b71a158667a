"""Estimates of memory, beside what is really taken."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest

import autodiff as ad
import pntm_np as pn
from pntm_np.evaluation import Settings
from pntm_np.evaluation.score import require_memory, tokens_of
from pntm_np.models import MODELS, Options, footprint
from pntm_np.runtime import ram
from pntm_np.scans.forms import compiled
from pntm_np.training.config import Config
from pntm_np.training.learner import loss, shard_cuts
from pntm_np.training.session import require_fit
from tasks import TASKS, Batch

TASK = TASKS["parity-check"]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("rows", "steps", "cells"), ((8, 81, 96), (2, 241, 200)))
def test_training(name: str, rows: int, steps: int, cells: int):
    for form in ("chunked", *(["paper"] if name == "pntm" else []), *(["fused"] if compiled() else [])):
        config = Config.of(TASK, "paper", model=name, memory_size=cells, form=form)
        architecture = config.architecture()
        params = architecture.init(np.random.default_rng(0))
        tokens = np.zeros((rows, steps), np.int64)
        batch = Batch(tokens, tokens, np.ones_like(tokens, bool))
        gradient, options = ad.value_and_grad(loss), Options(form)
        gradient(params, architecture, Batch(*(x[:1, :2] for x in batch)), 2, cells, options)  # loads compiled kernels
        tracemalloc.start()
        gradient(params, architecture, batch, rows * steps, cells, options)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        estimate = footprint.training_need(architecture, rows, steps, cells, form)
        assert 0.8 < estimate / peak < 1.6, (form, estimate, peak)


def test_what_cannot_fit_is_refused_with_the_number_and_the_flag(monkeypatch):
    monkeypatch.setattr(ram, "available", lambda device: 10**9)
    ram.require(7 * 10**8, "this", "--that")
    with pytest.raises(ram.NotEnoughMemory, match=r"this needs about 0.9 GB, and 1.0 GB are free; lower --that"):
        ram.require(9 * 10**8, "this", "--that")
    monkeypatch.setattr(ram, "available", lambda device: None)
    ram.require(10**20, "this", "--that")


def test_what_fits_by_a_hair_and_what_does_not(monkeypatch):
    """A third more than is needed has to be free, for the numbers are those of arrays alone."""
    monkeypatch.setattr(ram, "available", lambda device: 1300)
    ram.require(1000, "this", "--that")
    with pytest.raises(ram.NotEnoughMemory, match=r"this needs about 0.0 MB"):
        ram.require(1001, "this", "--that")


@pytest.mark.parametrize(
    ("meminfo", "limit", "current", "inactive", "expected"),
    [
        (8_000, "max", 0, 0, 8_000 * 1024),
        (8_000, 6_000_000, 1_000_000, 0, 5_000_000),
        (8_000, 6_000_000, 1_000_000, 400_000, 5_400_000),  # a cache that is given back when it is needed
        (1_000, 6_000_000, 1_000_000, 0, 1_024_000),
        (8_000, None, 0, 0, 8_000 * 1024),  # no such file
        (None, 6_000_000, 1_000_000, 0, 5_000_000),
    ],
)
def test_what_is_free_is_the_least_that_the_system_and_its_group_allow(
    meminfo, limit, current, inactive, expected, tmp_path, monkeypatch
):
    monkeypatch.setattr(ram, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(ram, "CGROUP", tmp_path)
    monkeypatch.setattr(ram.os, "sysconf_names", {})  # not asked, or not there
    if meminfo is not None:
        (tmp_path / "meminfo").write_text(f"MemTotal: 99999 kB\nMemAvailable:   {meminfo} kB\n")
    if limit is not None:
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        (tmp_path / "memory.current").write_text(f"{current}\n")
        (tmp_path / "memory.stat").write_text(f"anon 5\ninactive_file {inactive}\n")
    assert ram.available() == expected


@pytest.mark.parametrize(
    ("batch", "threads", "shards"),
    [(64, 1, 1), (64, 2, 2), (64, 1000, None), (1, 2, 1)],
    ids=("one", "two", "all", "row"),
)
def test_what_a_run_needs(batch: int, threads: int, shards: int | None, monkeypatch):
    """As many shards at once as there are threads, and beside them parameters and samples."""
    config = Config.of(TASK, "paper", batch_size=batch, form="chunked", lengths=(1, 2), samples=1)
    asked = []
    monkeypatch.setattr(ram, "require", lambda need, what, *rest: asked.append((what, need)))
    require_fit(config, TASK, threads)
    sizes = [b - a for a, b in itertools.pairwise(shard_cuts(batch, "cpu"))]
    steps, architecture = tokens_of(TASK, 40), config.architecture()
    one = footprint.training_need(architecture, max(sizes), steps, 96, "chunked")
    beside = 14 * 4 * architecture.parameter_count() + 22 * batch * steps
    assert dict(asked)[asked[0][0]] == one * (shards or len(sizes)) + beside
    assert "evaluating inputs of 2 symbols with 256 cells" in asked[1][0]


def test_what_an_evaluation_needs(monkeypatch):
    asked, said = [], []
    monkeypatch.setattr(ram, "require", lambda need, what, *rest: (asked.append(need), said.append(what)))
    architecture = Config.of(TASK, "paper").architecture()
    for samples, threads in ((1, 4), (64, 4), (65, 4), (1000, 4), (1000, 1)):
        require_memory(architecture, TASK, Settings([7], samples), threads, "--lengths")
    one = footprint.decoding_need(architecture, 1, tokens_of(TASK, 7), 256)
    many = footprint.decoding_need(architecture, 64, tokens_of(TASK, 7), 256)
    assert asked == [one, many, 2 * many, 4 * many, many]
    require_memory(architecture, TASK, Settings(range(5, 8), 60), 4, "--lengths")
    assert asked[-1] == 3 * many, "180 inputs: three groups of 64, side by side"
    assert said[-1] == "evaluating inputs of 7 symbols with 256 cells"
    require_memory(architecture, TASK, Settings([7], 5000, device="cuda"), 4, "--lengths")
    assert asked[-1] == footprint.decoding_need(architecture, 4096, tokens_of(TASK, 7), 256), "a device has one group"


@pytest.mark.parametrize("name", MODELS)
def test_the_size_of_a_state_is_known_without_making_it(name: str):
    architecture = Config.of(TASK, "paper", model=name).architecture()
    for cells in (1, 2, 3, 96):
        assert footprint.state_numbers(architecture, cells) == footprint.state_size(architecture, cells)


def test_there_is_some_memory_here():
    assert ram.available() > 10**8


@pytest.mark.parametrize("name", MODELS)
def test_decoding(name: str):
    for rows, steps, cells in ((32, 40, 256), (8, 90, 800)):
        model = pn.Model.new(name, 6, np.random.default_rng(0))
        model.step(model.initial_state(1, 2), np.zeros(1, np.int64), Options(tau=0.01))  # loads compiled kernels
        tracemalloc.start()
        state = model.initial_state(rows, cells)
        for _ in range(steps if name.startswith("transformer") else 3):
            state, _ = model.step(state, np.zeros(rows, np.int64), Options(tau=0.01))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        estimate = footprint.decoding_need(model.architecture, rows, steps, cells)
        assert 0.8 < estimate / peak < 1.6, (estimate, peak)
