"""Greedy decoding: the model reads its input token by token, then the tokens that it writes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from autodiff import Array, array_module, to_host
from pntm_np.models import Options
from pntm_np.models.checkpoint import Model
from pntm_np.models.stack import States
from pntm_np.runtime.signals import Stopped

Watch = Callable[[Array, States, States, Array], None]  # the token read, the states before and after it, the logits
LOOK = 8  # steps between two checks whether all rows have ended: a check waits for the device


def decode(
    model: Model,
    prompts: list[np.ndarray],
    limits: np.ndarray,
    end: int | None,
    memory_size: int,
    options: Options,
    stop: Callable[[], bool] = lambda: False,
    watch: Watch = lambda token, before, after, logits: None,
) -> np.ndarray:
    """The model's answer to each prompt (the input and the separator), padded with -1.

    Prompts may differ in length: each row changes from reading to writing at its own time. A row ends with the token
    ``end``, which is part of its answer, or when it has ``limits`` tokens. ``watch`` is called at every step with the
    token read, the states before and after it, and the logits; it may see some steps after all rows have ended.
    """
    xp = array_module(model.params["embed.weight"])
    rows, reading = len(prompts), np.array([len(p) for p in prompts])
    inputs = np.zeros((rows, reading.max()), np.int64)
    for row, prompt in zip(inputs, prompts, strict=True):
        row[: len(prompt)] = prompt
    feed, lengths = xp.asarray(inputs), xp.asarray(reading)
    stops = xp.asarray(reading - 1 + limits)  # the time at which a row has written enough
    ended = xp.zeros(rows, bool)
    state, token, written = model.initial_state(rows, memory_size), feed[:, 0], []
    for time in range(int((reading - 1 + limits).max())):
        if stop():
            raise Stopped
        if 0 < time < inputs.shape[1]:
            token = xp.where(time < lengths, feed[:, time], token)
        after, logits = model.step(state, token, options)
        watch(token, state, after, logits)
        state, token = after, xp.argmax(logits, axis=-1)
        if time >= reading.min() - 1:
            writes = (time >= lengths - 1) & ~ended
            written.append(xp.where(writes, token, -1))
            ended = ended | (time + 1 >= stops)
            if end is not None:
                ended = ended | (writes & (token == end))
            if len(written) % LOOK == 0 and bool(to_host(xp.all(ended))):
                break
    return _aligned(to_host(xp.stack(written, axis=1)), reading - reading.min(), limits)


def _aligned(written: np.ndarray, late: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Answers shifted to their first token: row ``i`` began ``late[i]`` steps after the earliest."""
    answers = np.full((len(written), int(limits.max())), -1)
    for answer, row, start in zip(answers, written, late, strict=True):
        tokens = row[start:][: len(answer)]
        answer[: len(tokens)] = tokens
    return answers
