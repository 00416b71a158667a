"""A trace: all that happens while a machine answers one text, recorded step by step as it is decoded.

Step t reads a token, writes, reads, and predicts the next token. The step that reads the separator predicts the first
symbol of the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from autodiff import array_module, to_host
from pntm_np.evaluation.answer import Answer, answer
from pntm_np.models import Options
from pntm_np.models.attention.layer import Attention
from pntm_np.models.checkpoint import Model
from pntm_np.models.mingru import MinGRU
from pntm_np.models.ntm.layer import NTM
from pntm_np.models.pntm import PNTM
from pntm_np.runtime.signals import Stopped
from pntm_np.runtime.untrusted import CheckpointError
from tasks import Task

WRITE, READ, ATTEND = "write", "read", "attention"
ASKED = ("shifts", "values", "reads", "attention")  # of Options.measures


@dataclass(frozen=True)
class Head:
    """One head over all steps. What it looks at are cells, or for attention the positions of the tokens."""

    kind: str
    name: str
    addresses: np.ndarray  # (T, m): those with which step t reads or writes
    shifts: np.ndarray | None = None  # (T, 3): left, stay, right
    vectors: np.ndarray | None = None  # (T, k): what it reads, or what it writes
    erase: np.ndarray | None = None  # (T, k): of an NTM's write head

    @property
    def path(self) -> np.ndarray:
        """Its cell at every step: where the address is largest."""
        return self.addresses.argmax(axis=1)

    @property
    def moves(self) -> np.ndarray:
        """How far its cell moves from each step to the next, the short way round."""
        m = self.addresses.shape[1]
        return (np.diff(self.path) + m // 2) % m - m // 2

    @property
    def unrolled(self) -> np.ndarray:
        """Its path as if the memory had no end: a head that keeps moving right is on ever larger cells."""
        m, first = self.addresses.shape[1], int(self.path[0])
        first = (first + m // 2) % m - m // 2
        return first + np.concatenate([[0], np.cumsum(self.moves)])

    @property
    def came_round(self) -> bool:
        return bool(np.ptp(self.unrolled) >= self.addresses.shape[1])


@dataclass(frozen=True)
class Trace:
    model: str
    task: Task
    answer: Answer
    cells: int
    options: Options
    tokens: np.ndarray  # (T,): what is read
    probabilities: np.ndarray  # (T, V)
    heads: list[Head]
    memory: np.ndarray | None = None  # (T, m, n): after step t has written
    states: dict[str, np.ndarray] = field(default_factory=dict)  # (T, units) each

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def separator(self) -> int:
        """The step that reads the separator; from here on the machine writes its answer."""
        return len(self.answer.text)

    @property
    def predicted(self) -> np.ndarray:
        return self.probabilities.argmax(axis=1)

    def symbol(self, token: int) -> str:
        return self.task.decode([token])

    @property
    def expected(self) -> str | None:
        """What the steps from the separator on have to predict, with the end token if there is one; None if the task
        is not known."""
        if self.answer.expected is None:
            return None
        end = self.symbol(self.task.end) if self.task.end_token else ""
        return (self.answer.expected + end)[: len(self) - self.separator]

    @property
    def first_error(self) -> int | None:
        """The first step that predicts a wrong token."""
        if self.expected is None:
            return None
        pairs = zip(self.predicted[self.separator :], self.task.encode(self.expected), strict=False)
        return next((self.separator + k for k, (given, right) in enumerate(pairs) if given != right), None)

    def of(self, kind: str) -> list[Head]:
        return [head for head in self.heads if head.kind == kind]


def record(
    model: Model,
    task: Task,
    text: str,
    cells: int,
    options: Options,
    stop: Callable[[], bool] = lambda: False,
) -> Trace:
    """The trace of one text: the steps by which ``pntm solve`` answers it."""
    options = replace(options, measures={name: [] for name in ASKED})
    recorder = Recorder(model, options.measures)
    (given,) = answer(model, task, [text], cells, options, None, stop, recorder.watch)
    written = len(given.answer) + (task.end_token and given.ended)
    return recorder.trace(task, given, cells, replace(options, measures={}), len(text) + written)


def follow(model: Model, trace: Trace, options: Options, stop: Callable[[], bool] = lambda: False) -> Trace:
    """Another machine, or another way to run it, reading the tokens of this trace: whatever it would write itself."""
    options = replace(options, measures={name: [] for name in ASKED})
    recorder, state = Recorder(model, options.measures), model.initial_state(1, trace.cells)
    xp = array_module(model.params["embed.weight"])
    for token in xp.asarray(trace.tokens):
        if stop():
            raise Stopped
        after, logits = model.step(state, token[None], options)
        recorder.watch(token[None], state, after, logits)
        state = after
    return recorder.trace(trace.task, trace.answer, trace.cells, replace(options, measures={}), len(trace))


class Recorder:
    """Takes what every step shows: states from before and after it, and what the layers measured."""

    def __init__(self, model: Model, measures: dict[str, list]) -> None:
        self.model, self.measures = model, measures
        self.rows: dict[str, list[np.ndarray]] = {}

    def add(self, name: str, value: Any) -> None:
        self.rows.setdefault(name, []).append(np.array(to_host(value))[0])  # a copy: the only row of the batch

    def watch(self, token: Any, before: Any, after: Any, logits: Any) -> None:
        self.add("tokens", token)
        self.add("logits", logits)
        architecture = self.model.architecture
        if layer := getattr(architecture, "layer", None):
            self._ntm(layer, after)
        elif mixers := getattr(architecture, "mixers", ()):
            for k, mixer in enumerate(mixers):
                self._mixer(k, mixer, before[k], after[k])
        else:
            for name, state in zip(("h", "c"), after, strict=True):
                self.add(f"state LSTM {name}", state)
        for taken in self.measures.values():
            taken.clear()

    def _mixer(self, k: int, mixer: Any, before: Any, after: Any) -> None:
        if isinstance(mixer, MinGRU):
            self.add(f"state minGRU {k + 1}", after)
        elif isinstance(mixer, Attention):
            self.add(f"attention {k + 1}", self.measures["attention"][k][:, :, 0])
        elif isinstance(mixer, PNTM):
            self.add("read address", before.read_address)  # the shift is the last thing a step does
            self.add("write address", before.write_address)
            self.add("memory", after.memory)
            for name in ("shifts", "values", "reads"):
                self.add(name, self.measures[name][0])

    def _ntm(self, layer: NTM, after: Any) -> None:
        weights = {k.removeprefix("mixer."): w for k, w in self.model.params.items() if k.startswith("mixer.")}
        controls = layer.controls(weights, self.model.architecture.width, after.h)
        self.add("read address", after.read_address)
        self.add("write address", after.write_address)
        self.add("memory", after.memory)
        self.add("state LSTM h", after.h)
        self.add("state LSTM c", after.c)
        self.add("shifts", controls.shift)
        self.add("values", controls.add)
        self.add("erase", controls.erase)
        self.add("reads", to_host(after.read).reshape(1, layer.heads, layer.cell))

    def trace(self, task: Task, given: Answer, cells: int, options: Options, steps: int) -> Trace:
        """Everything as arrays, over the steps up to the end of the answer."""
        found = {k: rows[:steps] for k, rows in self.rows.items()}
        found = {k: rows if k.startswith("attention") else np.stack(rows) for k, rows in found.items()}
        logits = found["logits"].astype(np.float64)
        if not np.isfinite(logits).all():
            raise CheckpointError("what the machine computes is not finite: its parameters are damaged, or it diverged")
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return Trace(
            self.model.name,
            task,
            given,
            cells,
            options,
            found["tokens"],
            weights / weights.sum(axis=1, keepdims=True),
            _memory_heads(found) if "memory" in found else _attention_heads(found),
            _cells(found["memory"]) if "memory" in found else None,
            {k.removeprefix("state "): rows for k, rows in found.items() if k.startswith("state ")},
        )


def _cells(memory: np.ndarray) -> np.ndarray:
    """(T, m, n): P-NTM keeps the share of every write head apart, (T, W, m, n / W); together they are a cell."""
    if memory.ndim == 3:
        return memory
    steps, writers, cells, size = memory.shape
    return memory.transpose(0, 2, 1, 3).reshape(steps, cells, writers * size)


def _memory_heads(found: dict[str, np.ndarray]) -> list[Head]:
    reads, writes, shifts = found["read address"], found["write address"], found["shifts"]
    readers, steps = reads.shape[1], len(reads)
    vectors = found["reads"].reshape(steps, readers, -1)
    erase = found.get("erase")
    heads = [
        Head(
            WRITE,
            f"write {h + 1}",
            writes[:, h],
            shifts[:, readers + h],
            found["values"][:, h],
            None if erase is None else erase[:, h],
        )
        for h in range(writes.shape[1])
    ]
    return heads + [Head(READ, f"read {h + 1}", reads[:, h], shifts[:, h], vectors[:, h]) for h in range(readers)]


def _attention_heads(found: dict[str, Any]) -> list[Head]:
    heads = []
    for name in (k for k in found if k.startswith("attention ")):
        rows = found[name]  # (H, 1), (H, 2), ..: a step sees itself and those before it
        full = np.zeros((rows[0].shape[0], len(rows), len(rows)), rows[0].dtype)
        for t, row in enumerate(rows):
            full[:, t, : t + 1] = row
        heads += [Head(ATTEND, f"layer {name.split()[1]}, head {h + 1}", w) for h, w in enumerate(full)]
    return heads
