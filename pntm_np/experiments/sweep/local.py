"""Runs on this machine, some at a time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

from pntm_np.experiments.sweep.grid import Planned
from pntm_np.experiments.sweep.supervise import POLL, Care, Outcome, outcome_of

Finished = Callable[[Planned, Outcome], None]


def run_here(
    directory: Path,
    runs: list[Planned],
    jobs: int,
    care: Care,
    finished: Finished,
    look: Callable[[], None],
    stop: Callable[[], bool],
) -> None:
    """``finished`` hears of every run that ends, ``look`` is called all the time."""

    def one(planned: Planned) -> Outcome:
        return Outcome("stopped") if stop() else outcome_of(directory / planned.name, planned, care, stop)

    with ThreadPoolExecutor(jobs) as pool:
        waiting = {pool.submit(one, planned): planned for planned in runs}
        while waiting:
            done, _ = wait(waiting, timeout=POLL, return_when=FIRST_COMPLETED)
            for future in done:
                planned, outcome = waiting.pop(future), future.result()
                if outcome.state == "busy":  # another sweep has it: first those that nobody has
                    waiting[pool.submit(one, planned)] = planned
                else:
                    finished(planned, outcome)
            look()
