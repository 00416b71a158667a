"""Run a sweep: find which runs are left, make them here or on a cluster, and show the progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from autodiff import backend
from pntm_np.evaluation.report import share
from pntm_np.experiments.sweep import cluster
from pntm_np.experiments.sweep.grid import GridError, Planned
from pntm_np.experiments.sweep.status import Standing, standing
from pntm_np.experiments.sweep.supervise import FAILURE, Care, Outcome, run_here
from pntm_np.runtime.files import unusable
from pntm_np.runtime.progress import Display, clock_time
from pntm_np.runtime.untrusted import printable
from pntm_np.training import session as training
from tasks import TASKS, find

LOOK = 2.0  # seconds between two updates of the display
PLAIN = 30.0  # seconds between two lines without a terminal


def left(directory: Path, runs: list[Planned], again: bool, done: Path | None) -> list[Planned]:
    """The runs that are neither done (here or collected in ``done``) nor failed; ``again`` includes failed ones."""
    if why := unusable(directory):
        raise GridError(f"--out {directory}: {why}")

    def to_do(planned: Planned) -> bool:
        place, state = directory / planned.name, standing(directory, planned, done).state
        if why := "it is a link; a sweep writes only below --out" if place.is_symlink() else unusable(place):
            raise GridError(f"{place}: {why}")
        return state not in ("done", "failed") or (again and state == "failed" and (place / FAILURE).exists())

    return [planned for planned in runs if to_do(planned)]


def require_tasks(runs: list[Planned]) -> None:
    """Refuse runs whose tasks the command did not name: the plan in a directory does not say where their files are."""
    for run in runs:
        if run.task not in TASKS and not run.source:
            raise GridError(
                f"{run.name}: its task {run.task!r} is in a file of yours: name it again with --grid or --tasks"
            )


def require_fit(runs: list[Planned], threads: int) -> None:
    """Refuse runs that do not fit on this computer, before anything is written."""
    kinds = {repr(vars(run.config) | {"seed": 0}): run for run in runs}
    for run in kinds.values():
        backend.load(run.config.backend)
        training.require_fit(run.config, find(run.source) if run.source else TASKS[run.task], threads)


def forget_failures(directory: Path, runs: list[Planned]) -> None:
    for planned in runs:
        (directory / planned.name / FAILURE).unlink(missing_ok=True)


def sweep(
    directory: Path,
    runs: list[Planned],
    todo: list[Planned],
    jobs: int,
    care: Care,
    client: Any,
    done: Path | None,
    stop: Callable[[], bool],
) -> list[Outcome]:
    """Make the runs in ``todo``, here or through a cluster's client, and return their outcomes."""
    with Overview(directory, runs, done, stop) as overview, client or nullcontext():
        if client is not None:
            cluster.run_there(client, directory, todo, care, overview.finished, overview.look, stop)
        else:
            run_here(directory, todo, jobs, care, overview.finished, overview.look, stop)
    return overview.outcomes


class Overview(Display):
    every = PLAIN

    def __init__(self, directory: Path, runs: list[Planned], done: Path | None, stop: Callable[[], bool]) -> None:
        super().__init__()
        self.directory, self.runs, self.stop, self.looked = directory, runs, stop, 0.0
        self.standings = {run.name: standing(directory, run, done) for run in runs}
        self.work_before = self._work()
        self.outcomes: list[Outcome] = []

    def finished(self, planned: Planned, outcome: Outcome) -> None:
        now = self.standings[planned.name] = standing(self.directory, planned)
        self.outcomes.append(outcome)
        if outcome.failed or outcome.state == "unavailable":
            self.say(printable(f"{planned.name}: {outcome.state}: {outcome.cause}"))
        elif outcome.state == "done":
            score = (
                "" if now.score is None else f", exact match {share(now.score, 4)} on longer inputs than in training"
            )
            self.say(printable(f"{planned.name}: done at step {now.step:,}{score}"))

    def look(self) -> None:
        if time.monotonic() - self.looked < LOOK:
            return
        self.looked = time.monotonic()
        for run in self.runs:
            if self.standings[run.name].state not in ("done", "failed"):
                self.standings[run.name] = standing(self.directory, run)
        if self.due():
            self.say(self.line())

    def line(self) -> str:
        states = [run.state for run in self.standings.values()]
        done, running, failed = (states.count(state) for state in ("done", "running", "failed"))
        elapsed = time.perf_counter() - self.start
        text = f"{done} of {len(states)} done, {running} running, {failed} failed; {clock_time(elapsed)} elapsed"
        worked, whole = self._work() - self.work_before, len(self.runs) - self.work_before
        return f"{text}, at most {clock_time(elapsed * (whole - worked) / worked)} left" if worked > 0.01 else text

    def _work(self) -> float:
        """Work that is done, counted in runs; a failed run counts as done."""
        over = ("done", "failed")
        return sum(1.0 if s.state in over else s.step / s.steps for s in self.standings.values())

    def panel(self) -> Any:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, show_header=False)
        running: list[Standing] = [s for s in self.standings.values() if s.state == "running"]
        for now in running[:20]:
            table.add_row(now.name, f"step {now.step:,} of at most {now.steps:,}")
        more = [Text(f"and {len(running) - 20} more runs")] if len(running) > 20 else []
        line = "stopping: each run finishes its step and saves" if self.stop() else self.line()
        return Group(Text(line, style="bold"), table, *more)
