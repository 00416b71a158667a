"""Decoding many rows of different lengths at once is decoding each alone, by the whole-sequence form of the machine."""

from __future__ import annotations

import numpy as np
import pytest

import pntm_np as pn
from pntm_np.evaluation.decode import decode
from pntm_np.models import MODELS, Options
from pntm_np.runtime.signals import Stopped

SEPARATOR, END = 4, 5
SIZES = {"pntm": {"width": 16, "heads": 2, "cell": 4}, "ntm": {"width": 12, "heads": 2, "cell": 4}}


def machine(name: str, seed: int = 0) -> pn.Model:
    model = pn.Model.new(name, 6, np.random.default_rng(seed), **SIZES.get(name, {}))
    model.params["decoder.weight"] *= 3  # answers that vary
    return model


def prompts(rng: np.random.Generator, lengths: tuple[int, ...]) -> list[np.ndarray]:
    return [np.append(rng.integers(0, 4, n), SEPARATOR) for n in lengths]


def alone(model: pn.Model, prompt: np.ndarray, limit: int, end: int | None, cells: int, options: Options) -> list[int]:
    """The definition: the whole sequence again for every token."""
    tokens, answer = list(prompt), []
    while len(answer) < limit:
        token = int(np.argmax(model.forward(np.array([tokens]), cells, options)[0, -1]))
        answer.append(token)
        tokens.append(token)
        if token == end:
            break
    return answer


@pytest.mark.parametrize("name", MODELS)
def test_rows_together_are_rows_alone(name: str, rng, device):
    model = machine(name)
    lengths, limits = (3, 1, 7, 3, 12), np.array([9, 4, 1, 12, 6])
    given = prompts(rng, lengths)
    options = Options(tau=0.01, gate_tau=0.02)
    answers = {}
    for end in (0, 1, 2, 3, END, None):
        found = decode(model.to(device), given, limits, end, 20, options)
        for row, prompt, limit in zip(found, given, limits, strict=True):
            expected = alone(model, prompt, int(limit), end, 20, options)
            assert row[row != -1].tolist() == expected and np.all(row[len(expected) :] == -1)
        answers[end] = found.tolist()
    assert any(found != answers[None] for found in answers.values()), "no row was ended by its token"


def test_decoding_stops_when_all_rows_have_ended(rng):
    model = machine("lstm")
    model.params["decoder.bias"][END] = 1000.0  # it always ends at once
    steps, right = [], model.step
    model.step = lambda *args: steps.append(1) or right(*args)
    found = decode(model, prompts(rng, (4, 5)), np.array([1000, 1000]), END, 20, Options())
    assert len(steps) < 20 and found[:, 0].tolist() == [END, END] and np.all(found[:, 1:] == -1)


def test_the_caller_can_stop_it(rng):
    calls = iter([False] * 5 + [True] * 100)
    with pytest.raises(Stopped):
        decode(machine("lstm"), prompts(rng, (9,)), np.array([9]), END, 20, Options(), lambda: next(calls))
