"""``pntm trace`` as a whole: one text, one machine or two, and the files that were asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pntm_np import memory
from pntm_np.checkpoint import Model
from pntm_np.evaluation.answer import symbols_only
from pntm_np.evaluation.command import Evaluating, thresholds
from pntm_np.evaluation.score import evaluation_memory
from pntm_np.evaluation.trained import TaskNeeded, Trained, load_trained, task_of
from pntm_np.files import write_atomically
from pntm_np.trace.document import as_json
from pntm_np.trace.errors import TraceError
from pntm_np.trace.explain import explain
from pntm_np.trace.figure import draw
from pntm_np.trace.page import first_head, page
from pntm_np.trace.record import Trace, record
from pntm_np.trace.variants import effect_of_reads, source_of_reads
from pntm_np.trace.words import settings
from pntm_np.workers import Workers
from tasks import Task


class Asked(NamedTuple):
    """A machine and how to run it."""

    place: Path
    tau: float | str
    gate_tau: float | str | None


class Traced(NamedTuple):
    model: Model
    trace: Trace


def load(asked: Asked, named: Task | None) -> tuple[Trained, Task]:
    """The machine and its task; one whose task is in a file that was not named is shown without what would be right."""
    trained = load_trained(asked.place)
    try:
        return trained, task_of(trained, named)
    except TaskNeeded:
        if "auto" in (asked.tau, asked.gate_tau):
            raise
        return trained, symbols_only(trained)


def check(text: str, task: Task, cells: int | None) -> int:
    """The cells for this text, if it is one of the task's and they are enough."""
    task.check(text)
    wanted = evaluation_memory(len(text))
    if cells is not None and cells < len(text):
        raise TraceError(
            f"the text has {len(text):,} symbols and the memory {cells:,} cells: heads would come round to where they "
            f"began; --memory-size {wanted} has room"
        )
    return cells or wanted


def trace(
    asked: list[Asked],
    text: str,
    named: Task | None,
    cells: int | None,
    backend: str,
    say: Callable[[str], None],
    stop: Callable[[], bool],
) -> list[Traced]:
    """The traces of all machines that were asked for, in their order."""
    loaded = [load(each, named) for each in asked]
    tasks = {(task.name, task.symbols) for _, task in loaded}
    if len(tasks) > 1:
        raise TraceError(f"the two were trained on {' and '.join(sorted(name for name, _ in tasks))}: not on one task")
    room = check(text, loaded[0][1], cells)
    for trained, _ in loaded:
        need = memory.decoding_need(trained.model.architecture, 1, 6 * len(text) + 16, room)
        recorded = 8 * room * 64 * 6 * (len(text) + 3)  # every step's memory and addresses, as numbers and as text
        memory.require(
            need + recorded, f"a trace of {len(text):,} symbols with {room:,} cells", "--memory-size", backend
        )
    found = []
    with Workers(1) as workers:
        for (trained, task), each in zip(loaded, asked, strict=True):
            evaluating = Evaluating(trained, task, backend, workers, stop)
            options = thresholds(evaluating, each.tau, each.gate_tau, say)
            found.append(
                Traced(evaluating.model, record(evaluating.model, task, text, room, options, trained.end_token, stop))
            )
    return found


def titles(traces: list[Trace], places: list[Path]) -> list[str]:
    """What tells two traces apart: how the machine was run, or which it is."""
    same = len({settings(t) for t in traces}) < len(traces)
    names = [place.stem if place.suffix else place.name for place in places]
    return [f"{settings(t)}{f' ({name})' if same else ''}" for t, name in zip(traces, names, strict=True)]


def write(traced: list[Traced], places: list[Path], out: Path) -> None:
    """One file, in the form that its ending says; a page takes two traces, the others are of the first."""
    first = traced[0].trace
    kind = out.suffix.lower()
    if kind == ".json":
        write_atomically(out, as_json(first).encode())
    elif kind == ".html":
        of_memory = [one.trace.memory is not None for one in traced]
        effects = [effect_of_reads(*one) if has else {} for one, has in zip(traced, of_memory, strict=True)]
        sources = [source_of_reads(*one) if has else {} for one, has in zip(traced, of_memory, strict=True)]
        traces = [one.trace for one in traced]
        chosen = [first_head(t, e) for t, e in zip(traces, effects, strict=True)]
        write_atomically(out, page(traces, titles(traces, places), chosen, sources).encode())
    else:
        draw(first, out)


def told(traced: list[Traced], stop: Callable[[], bool]) -> list[str]:
    lines = []
    for one in traced:
        lines += [*([""] if lines else []), *explain(*one, stop)]
    return lines
