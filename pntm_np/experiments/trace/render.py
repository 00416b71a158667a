"""Trace one model or two on a text, and render the requested files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pntm_np.evaluation import Asked, Context
from pntm_np.evaluation.answer import symbols_only
from pntm_np.evaluation.trained import TaskNeeded, Trained, load_trained, ready, task_of
from pntm_np.experiments.trace.document import as_json
from pntm_np.experiments.trace.explain import explain
from pntm_np.experiments.trace.figure import drawn
from pntm_np.experiments.trace.page import first_head, page
from pntm_np.experiments.trace.record import Trace, record
from pntm_np.experiments.trace.variants import effect_of_reads, source_of_reads
from pntm_np.models.checkpoint import Model
from pntm_np.models.footprint import decoding_need
from pntm_np.protocol import evaluation_memory, memory_for
from pntm_np.runtime import ram
from pntm_np.runtime.errors import USAGE, PntmError
from pntm_np.runtime.files import write_atomically
from pntm_np.runtime.workers import Workers
from tasks import Task


class TraceError(PntmError, ValueError):
    exit_code = USAGE


class Question(NamedTuple):
    text: str
    task: Task | None  # None: the task that the model was trained on
    cells: int | None  # None: as many as an evaluation has
    device: str
    kinds: set[str]


class Traced(NamedTuple):
    model: Model
    trace: Trace


def load(place: Path, asked: Asked, named: Task | None) -> tuple[Trained, Task]:
    """The model and its task; if the task's file was not named, the right answer is unknown."""
    trained = load_trained(place)
    try:
        return trained, task_of(trained, named)
    except TaskNeeded:
        if asked.auto or not trained.end_token:  # the length of the answer would be unknown
            raise
        return trained, symbols_only(trained)


def check(text: str, task: Task, cells: int | None, say: Callable[[str], None]) -> int:
    """The number of cells for this text; refuses a text that is not of the task, and too few cells."""
    task.check(text)
    wanted = evaluation_memory(len(text))
    if cells is not None and cells < len(text):
        raise TraceError(
            f"the text has {len(text):,} symbols, but the memory only {cells:,} cells, so heads would come round to "
            f"where they began; --memory-size {wanted} is enough"
        )
    if cells is not None and cells < memory_for(len(text)):
        say(f"heads may come round in {cells:,} cells; --memory-size {memory_for(len(text))} is the paper's rule")
    return cells or wanted


def require_room(trained: Trained, text: str, cells: int, kinds: set[str], traces: int, device: str) -> None:
    """Refuse a trace that does not fit into RAM: the numbers of all steps are kept, for JSON also as text."""
    architecture, steps = trained.model.architecture, 4 * len(text) + 16
    kept = sum(mixer.traced_numbers(cells, steps) for mixer in architecture.mixers)
    need = decoding_need(architecture, 1, steps, cells) + traces * steps * kept * (90 if ".json" in kinds else 16)
    lower = "--memory-size, or shorten the text" if architecture.has_memory else "the length of the text"
    ram.require(need, f"a trace of {len(text):,} symbols", lower, device)


def trace(
    machines: list[tuple[Path, Asked]], question: Question, say: Callable[[str], None], stop: Callable[[], bool]
) -> list[Traced]:
    text, named, cells, device, kinds = question
    loaded = [load(place, asked, named) for place, asked in machines]
    tasks = {f"{task.name} with {task.symbols}" for _, task in loaded}
    if len(tasks) > 1:
        raise TraceError(f"--compare: the two models were trained on different tasks: {' and '.join(sorted(tasks))}")
    models = [trained.model for trained, _ in loaded]
    if len({place for place, _ in machines}) < len(machines) and not models[0].architecture.thresholds:
        raise TraceError(f"--compare-tau: {models[0].name} has no shifts or gates to round: nothing to compare")
    has_memory = any(model.architecture.has_memory for model in models)
    room = check(text, loaded[0][1], cells if has_memory else None, say)
    for trained, _ in loaded:
        require_room(trained, text, room, kinds, len(loaded) + 1, device)  # explaining them needs one more
    found = []
    with Workers(1) as workers:
        context = Context(workers, stop=stop)
        for (trained, task), (_, asked) in zip(loaded, machines, strict=True):
            model, options = ready(trained, task, asked, device, context, say)
            found.append(Traced(model, record(model, task, text, room, options, stop)))
    return found


def titles(traces: list[Trace], places: list[Path]) -> list[str]:
    """Titles that tell two traces apart, by their thresholds or by the names of their files."""
    same = len({t.settings for t in traces}) < len(traces)
    names = [place.stem if place.suffix else place.name for place in places]
    return [f"{t.settings}{f' ({name})' if same else ''}" for t, name in zip(traces, names, strict=True)]


def rendered(traced: list[Traced], places: list[Path], kind: str, stop: Callable[[], bool]) -> bytes:
    """The content of a file of this kind; a page shows all traces, other files show the first."""
    first = traced[0].trace
    if kind == ".json":
        return as_json(first, stop).encode()
    if kind == ".html":
        of_memory = [one.trace.memory is not None for one in traced]
        effects = [effect_of_reads(*one, stop) if has else {} for one, has in zip(traced, of_memory, strict=True)]
        sources = [source_of_reads(*one) if has else {} for one, has in zip(traced, of_memory, strict=True)]
        traces = [one.trace for one in traced]
        chosen = [first_head(t, e) for t, e in zip(traces, effects, strict=True)]
        return page(traces, titles(traces, places), chosen, sources).encode()
    return drawn(first, kind)


def write(contents: dict[Path, bytes], say: Callable[[str], None]) -> None:
    for out, content in contents.items():
        write_atomically(out, content)
        say(f"written: {out}")


def told(traced: list[Traced], stop: Callable[[], bool]) -> list[str]:
    """The explanations of all traces, with an empty line between two."""
    return "\n\n".join("\n".join(explain(*one, stop)) for one in traced).split("\n")
