"""Estimates of memory, beside what is really taken."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import autodiff as ad
import pntm_np as pn
from pntm_np import memory
from pntm_np.models import MODELS, Options
from pntm_np.scans.forms import compiled
from pntm_np.training.config import Config
from pntm_np.training.learner import loss
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
        estimate = memory.training_need(architecture, rows, steps, cells, form)
        assert 0.8 < estimate / peak < 1.6, (form, estimate, peak)


def test_what_cannot_fit_is_refused_with_the_number_and_the_flag(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda device: 10**9)
    memory.require(7 * 10**8, "this", "--that")
    with pytest.raises(memory.NotEnoughMemory, match=r"this needs about 0.9 GB, and 1.0 GB are free; lower --that"):
        memory.require(9 * 10**8, "this", "--that")
    monkeypatch.setattr(memory, "available", lambda device: None)
    memory.require(10**20, "this", "--that")


def test_there_is_some_memory_here():
    assert memory.available() > 10**8


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
        estimate = memory.decoding_need(model.architecture, rows, steps, cells)
        assert 0.8 < estimate / peak < 1.6, (estimate, peak)
