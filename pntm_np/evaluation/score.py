"""Exact match and token accuracy by length."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from autodiff import array_module
from pntm_np.evaluation.decode import decode
from pntm_np.models import Architecture, Options
from pntm_np.models.checkpoint import Model
from pntm_np.models.footprint import decoding_need
from pntm_np.runtime import ram
from pntm_np.runtime.randomness import EVALUATION, generator
from pntm_np.runtime.workers import Workers
from tasks import NOTHING, Task, batch

ROWS = 64  # decoded together on a CPU: their states stay in cache; short lengths share the cost of a step
DEVICE_ROWS = 4096
DRAWN = 200  # symbols of the longest input that is drawn to see how many tokens there are


def ample_cells(tokens: int) -> int:
    """So many cells that no two heads of a P-NTM can meet by going round: each moves by at most one cell a token.

    In the paper's they can, for an answer makes a sequence longer than its input.
    """
    return 2 * tokens + 1


def ample_memory(task: Task, lengths: Iterable[int], samples: int, seed: int) -> int:
    """The cells that are ample for all of an evaluation's problems."""
    every = (p for n in lengths for p in problems(task, n, samples, seed))
    return ample_cells(max(len(p.prompt) + len(p.answer) for p in every))


@dataclass(frozen=True)
class LengthScore:
    length: int
    samples: int
    exact_match: float
    token_accuracy: float
    chance: float  # of an answer made of random output symbols


@dataclass(frozen=True)
class Evaluation:
    by_length: list[LengthScore]

    def mean(self, figure: str, first: int = 1, last: float = math.inf) -> float:
        """The mean over lengths: each counts the same."""
        found = [getattr(score, figure) for score in self.by_length if first <= score.length <= last]
        return float(np.mean(found)) if found else float("nan")

    def as_json(self, max_length: int) -> dict[str, Any]:
        """Means over all lengths, and the score: the mean exact match on lengths longer than those of training."""
        longer = [score.length for score in self.by_length if score.length > max_length]
        return {
            "score": self.mean("exact_match", max_length + 1) if longer else None,
            "score_lengths": [min(longer), max(longer)] if longer else None,
            **{figure: self.mean(figure) for figure in ("exact_match", "token_accuracy", "chance")},
            "by_length": [asdict(score) for score in self.by_length],
        }


class Problem(NamedTuple):
    length: int
    prompt: np.ndarray  # x |
    answer: np.ndarray  # y, and the end token if there is one


def problems(task: Task, length: int, samples: int, seed: int) -> list[Problem]:
    """Samples of one length; they depend on the seed, the length and their number alone."""
    x, y = task.sample(generator(EVALUATION, seed, length), length, samples)
    end = [task.end] if task.end_token else []
    prompts = np.concatenate([x, np.full((len(x), 1), task.separator)], axis=1)
    answers = [np.concatenate([row[row != NOTHING], np.array(end, np.int64)]) for row in y]
    return [Problem(length, *pair) for pair in zip(prompts, answers, strict=True)]


def groups(every: Iterable[Problem], rows: int) -> Iterator[list[Problem]]:
    """Neighbours in length together; each group is made when it is asked for."""
    every = iter(every)
    while group := list(itertools.islice(every, rows)):
        yield group


def tokens_of(task: Task, length: int, longest: int = DRAWN) -> int:
    """The tokens of a sample with an input of that length, at most, on a straight line beyond ``longest``.

    Drawing long inputs takes time; and before its final evaluation a run draws none beyond its training lengths.
    """

    def drawn(n: int) -> int:
        return batch(task, np.random.default_rng(0), n, 16).tokens.shape[1]

    longest = min(longest, DRAWN)
    if length <= longest:
        return drawn(length)
    near = (longest + 1) // 2
    rise = (drawn(longest) - drawn(near)) / (longest - near) if longest > near else drawn(longest)
    return drawn(longest) + math.ceil(rise * (length - longest))


def require_memory(
    architecture: Architecture,
    task: Task,
    lengths: tuple[int, int],
    samples: int,
    cells: int,
    device: str,
    threads: int,
    lower: str,
    longest: int = DRAWN,
) -> None:
    """Refuse an evaluation that cannot fit, before anything is made; no input beyond ``longest`` is drawn for that."""
    at_once = ROWS if device == "cpu" else DEVICE_ROWS
    total = samples * (lengths[1] - lengths[0] + 1)
    rows, together = min(at_once, total), min(threads, -(-total // at_once)) if device == "cpu" else 1
    need = decoding_need(architecture, rows, tokens_of(task, lengths[1], longest), cells) * together
    ram.require(need, f"evaluating inputs of {lengths[1]:,} symbols with {cells:,} cells", lower, device)


def evaluate(
    model: Model,
    task: Task,
    lengths: Sequence[int],
    samples: int,
    seed: int,
    memory_size: int,
    options: Options,
    workers: Workers,
    watch: Callable[[LengthScore], None] = lambda score: None,
    stop: Callable[[], bool] = lambda: False,
) -> Evaluation:
    """``samples`` problems of each length, answered by greedy decoding; ``watch`` sees each length when it is done."""
    every = (p for n in lengths for p in problems(task, n, samples, seed))
    rows = ROWS if array_module(model.params["embed.weight"]) is np else DEVICE_ROWS

    def right(group: list[Problem]) -> list[tuple[int, bool, float, float]]:
        limits = np.array([len(p.answer) for p in group])
        answers = decode(model, [p.prompt for p in group], limits, task.end, memory_size, options, stop)
        found = []
        for problem, answer in zip(group, answers, strict=True):
            same = answer[: len(problem.answer)] == problem.answer
            chance = len(task.outputs) ** -float(len(problem.answer) - task.end_token)
            found.append((problem.length, bool(same.all()), float(same.mean()), chance))
        return found

    scores, pending = [], {length: [] for length in lengths}
    for found in workers.map(right, groups(every, rows)):
        for length, *figures in found:
            pending[length].append(figures)
        for length in [n for n in pending if len(pending[n]) == samples]:
            exact, tokens, chance = (float(np.mean(column)) for column in zip(*pending.pop(length), strict=True))
            scores.append(LengthScore(length, samples, exact, tokens, chance))
            watch(scores[-1])
    return Evaluation(scores)
