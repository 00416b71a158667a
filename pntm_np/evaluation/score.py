"""Exact match and token accuracy by length."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from pntm_np.evaluation.context import Context
from pntm_np.evaluation.decode import decode
from pntm_np.evaluation.report import Evaluation, LengthScore
from pntm_np.evaluation.settings import Settings
from pntm_np.models import Architecture
from pntm_np.models.checkpoint import Model
from pntm_np.models.footprint import decoding_need
from pntm_np.runtime import ram
from pntm_np.runtime.randomness import EVALUATION, generator
from tasks import NOTHING, Task, batch

DRAWN = 200  # longest input that is drawn to count its tokens


def ample_cells(tokens: int) -> int:
    """Enough cells that no two heads of a P-NTM meet by going round: each moves by at most one cell per token.

    In the paper's memory they can meet, because the answer makes a sequence longer than its input.
    """
    return 2 * tokens + 1


def ample_memory(task: Task, settings: Settings) -> int:
    return ample_cells(max(len(p.prompt) + len(p.answer) for p in all_problems(task, settings)))


class Problem(NamedTuple):
    length: int
    prompt: np.ndarray  # x |
    answer: np.ndarray  # y, and the end token, if any


def problems(task: Task, length: int, samples: int, seed: int) -> list[Problem]:
    """Samples of one length; they depend only on seed, length and number of samples."""
    x, y = task.sample(generator(EVALUATION, seed, length), length, samples)
    end = [task.end] if task.end_token else []
    prompts = np.concatenate([x, np.full((len(x), 1), task.separator)], axis=1)
    answers = [np.concatenate([row[row != NOTHING], np.array(end, np.int64)]) for row in y]
    return [Problem(length, *pair) for pair in zip(prompts, answers, strict=True)]


def all_problems(task: Task, settings: Settings) -> Iterator[Problem]:
    return (p for n in settings.lengths for p in problems(task, n, settings.samples, settings.seed))


def groups(every: Iterable[Problem], rows: int) -> Iterator[list[Problem]]:
    """Groups of consecutive problems, made lazily."""
    every = iter(every)
    while group := list(itertools.islice(every, rows)):
        yield group


def tokens_of(task: Task, length: int, longest: int = DRAWN) -> int:
    """The largest number of tokens in a sample with an input of ``length``, extrapolated linearly beyond ``longest``.

    Drawing long inputs takes time, and a run must not draw any beyond its training lengths before the final evaluation.
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
    architecture: Architecture, task: Task, settings: Settings, threads: int, lower: str, longest: int = DRAWN
) -> None:
    """Refuse an evaluation that does not fit into memory; no input beyond ``longest`` is drawn to find out."""
    last, cells, at_once = max(settings.lengths), settings.memory_size, settings.rows
    total = settings.samples * len(settings.lengths)
    rows, together = min(at_once, total), min(threads, -(-total // at_once)) if settings.device == "cpu" else 1
    need = decoding_need(architecture, rows, tokens_of(task, last, longest), cells) * together
    ram.require(need, f"evaluating inputs of {last:,} symbols with {cells:,} cells", lower, settings.device)


def evaluate(model: Model, task: Task, settings: Settings, context: Context) -> Evaluation:
    """Evaluate problems of every length by greedy decoding; the observer hears of each length once it is done."""

    def right(group: list[Problem]) -> list[tuple[int, bool, float, float]]:
        prompts, limits = [p.prompt for p in group], np.array([len(p.answer) for p in group])
        answers = decode(model, prompts, limits, task.end, settings.memory_size, settings.options, context.stop)
        found = []
        for problem, answer in zip(group, answers, strict=True):
            same = answer[: len(problem.answer)] == problem.answer
            chance = len(task.outputs) ** -float(len(problem.answer) - task.end_token)
            found.append((problem.length, bool(same.all()), float(same.mean()), chance))
        return found

    scores: list[LengthScore] = []
    pending: dict[int, list] = {length: [] for length in settings.lengths}
    for found in context.workers.map(right, groups(all_problems(task, settings), settings.rows)):
        for length, *figures in found:
            pending[length].append(figures)
        for length in [n for n in pending if len(pending[n]) == settings.samples]:
            exact, tokens, chance = (float(np.mean(column)) for column in zip(*pending.pop(length), strict=True))
            scores.append(LengthScore(length, settings.samples, exact, tokens, chance))
            context.watcher.evaluated(scores[-1])
    return Evaluation(task.name, model.name, task.end_token, settings, scores)
