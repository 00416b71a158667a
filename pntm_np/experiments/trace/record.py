"""Record a trace: all that happens while a model answers a text, step by step.

Step t reads a token, writes, reads, and predicts the next token. The step that reads the separator predicts the first
symbol of the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from autodiff import Array, Value, array_module, to_host
from pntm_np.evaluation.answer import Answer, answer
from pntm_np.models import Options
from pntm_np.models.checkpoint import Model
from pntm_np.models.stack import States
from pntm_np.models.titles import TITLES
from pntm_np.runtime.signals import Stopped
from pntm_np.runtime.untrusted import CheckpointError
from tasks import Task

WRITE, READ, ATTEND = "write", "read", "attention"


@dataclass(frozen=True)
class Head:
    """A head over all steps. It addresses cells of the memory or, in attention, positions of tokens."""

    kind: str
    name: str
    addresses: np.ndarray  # (T, m): the addresses with which step t reads or writes
    shifts: np.ndarray | None = None  # (T, 3): left, stay, right
    vectors: np.ndarray | None = None  # (T, k): the vectors that it reads or writes
    erase: np.ndarray | None = None  # (T, k): erase vectors, for an NTM's write head

    @property
    def path(self) -> np.ndarray:
        """The cell of the head at each step: where the address is largest."""
        return self.addresses.argmax(axis=1)

    @property
    def moves(self) -> np.ndarray:
        """How far the head moves from each step to the next, the short way round."""
        m = self.addresses.shape[1]
        return (np.diff(self.path) + m // 2) % m - m // 2

    @property
    def unrolled(self) -> np.ndarray:
        """The path on an endless memory: a head that keeps moving right reaches ever higher cells."""
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
    tokens: np.ndarray  # (T,): the tokens that are read
    probabilities: np.ndarray  # (T, V)
    heads: list[Head]
    memory: np.ndarray | None = None  # (T, m, n): after step t has written
    states: dict[str, np.ndarray] = field(default_factory=dict)  # (T, units) each
    thresholds: tuple[str, ...] = ()  # the thresholds that have an effect on the model
    moves_first: bool = False  # whether heads move at the beginning of a step instead of its end

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def separator(self) -> int:
        """The step that reads the separator; from here on, the model writes its answer."""
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
        end = "" if self.task.end is None else self.symbol(self.task.end)
        return (self.answer.expected + end)[: len(self) - self.separator]

    @property
    def first_error(self) -> int | None:
        if self.expected is None:
            return None
        pairs = zip(self.predicted[self.separator :], self.task.encode(self.expected), strict=False)
        return next((self.separator + k for k, (given, right) in enumerate(pairs) if given != right), None)

    def of(self, kind: str) -> list[Head]:
        return [head for head in self.heads if head.kind == kind]

    @property
    def title(self) -> str:
        return f"{TITLES.get(self.model, self.model)} on {self.task.name}"

    @property
    def settings(self) -> str:
        parts = [self.title]
        if self.memory is not None:
            parts.append(f"{self.cells} cells")
        if "tau" in self.thresholds:
            parts.append(f"tau {self.options.tau:g}")
        if "gate_tau" in self.thresholds and self.options.gate_tau:
            parts.append(f"gate-tau {self.options.gate_tau:g}")
        return ", ".join(parts)


def record(
    model: Model, task: Task, text: str, cells: int, options: Options, stop: Callable[[], bool] = lambda: False
) -> Trace:
    """Record the steps in which ``pntm solve`` answers the text."""
    recorder = Recorder(model)
    options = replace(options, observer=recorder.see)
    (given,) = answer(model, task, [text], cells, options, None, stop, recorder.watch)
    written = len(given.answer) + (task.end_token and given.ended)
    return recorder.trace(task, given, cells, options, len(text) + written)


def follow(model: Model, trace: Trace, options: Options, stop: Callable[[], bool] = lambda: False) -> Trace:
    """Record another model, or the same with other options, reading the tokens of this trace instead of its own."""
    recorder, state = Recorder(model), model.initial_state(1, trace.cells)
    options = replace(options, observer=recorder.see)
    xp = array_module(model.params["embed.weight"])
    for token in xp.asarray(trace.tokens):
        if stop():
            raise Stopped
        after, logits = model.step(state, token[None], options)
        recorder.watch(token[None], state, after, logits)
        state = after
    return recorder.trace(trace.task, trace.answer, trace.cells, options, len(trace))


class Recorder:
    """Records each step: its token and logits, and what the layers report."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.steps: dict[str, list[np.ndarray]] = {"tokens": [], "logits": []}
        self.layers: dict[tuple[str, int], list[np.ndarray]] = {}  # by name and layer

    def see(self, block: int, name: str, value: Value) -> None:
        self.layers.setdefault((name, block), []).append(np.array(to_host(value))[0])  # the batch has one row

    def watch(self, token: Array, before: States, after: States, logits: Array) -> None:
        for name, value in (("tokens", token), ("logits", logits)):
            self.steps[name].append(np.array(to_host(value))[0])

    def trace(self, task: Task, given: Answer, cells: int, options: Options, steps: int) -> Trace:
        """The recorded steps, up to the end of the answer, as arrays."""
        tokens, logits = (np.stack(rows[:steps]) for rows in self.steps.values())
        logits = logits.astype(np.float64)
        if not np.isfinite(logits).all():
            raise CheckpointError(
                "the model's outputs are not finite: its parameters are damaged, or training diverged"
            )
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        architecture, memory = self.model.architecture, None
        states, heads, found = {}, [], {}
        for (name, block), rows in self.layers.items():
            number = "" if architecture.names else f" {block + 1}"
            if name == "attention":
                heads += _attention_heads(f"layer{number}", rows[:steps])
            elif name.startswith("state "):
                states[name.removeprefix("state ") + number] = np.stack(rows[:steps])
            else:
                found[name] = np.stack(rows[:steps])
        if found:
            heads, memory = _memory_heads(found), _cells(found["memory"])
        probabilities = weights / weights.sum(axis=1, keepdims=True)
        moves_first = any(mixer.moves_first for mixer in architecture.mixers)
        run = (self.model.name, task, given, cells, replace(options, observer=None))
        return Trace(*run, tokens, probabilities, heads, memory, states, architecture.thresholds, moves_first)


def _cells(memory: np.ndarray) -> np.ndarray:
    """The memory as (T, m, n); P-NTM keeps the share of each write head apart, as (T, W, m, n / W)."""
    if memory.ndim == 3:
        return memory
    steps, writers, cells, size = memory.shape
    return memory.transpose(0, 2, 1, 3).reshape(steps, cells, writers * size)


def _memory_heads(found: dict[str, np.ndarray]) -> list[Head]:
    reads, writes, shifts = found["read address"], found["write address"], found["shifts"]
    readers, steps = reads.shape[1], len(reads)
    vectors = found["reads"].reshape(steps, readers, -1)
    erase = found.get("erase")
    heads = []
    for h in range(writes.shape[1]):
        erased = None if erase is None else erase[:, h]
        heads.append(Head(WRITE, f"write {h + 1}", writes[:, h], shifts[:, readers + h], found["values"][:, h], erased))
    return heads + [Head(READ, f"read {h + 1}", reads[:, h], shifts[:, h], vectors[:, h]) for h in range(readers)]


def _attention_heads(layer: str, rows: list[np.ndarray]) -> list[Head]:
    """Heads of a layer; the row (H, 1, t) of a step covers the positions up to its own."""
    full = np.zeros((len(rows[0]), len(rows), len(rows)), rows[0].dtype)
    for t, row in enumerate(rows):
        full[:, t, : t + 1] = row[:, 0]
    return [Head(ATTEND, f"{layer}, head {h + 1}", w) for h, w in enumerate(full)]
