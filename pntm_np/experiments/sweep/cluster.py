"""Make runs on the workers of an existing Dask scheduler, in a directory that all of them share.

Each run is one task of the scheduler. If its worker dies, another one continues from the last checkpoint; the run's
lock keeps a second process out until the first has ended. If the sweep dies, its tasks are cancelled, and each of them
notices and ends its process.
"""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path
from typing import Any

from pntm_np.experiments.sweep.grid import GridError, Planned
from pntm_np.experiments.sweep.supervise import LONGEST, POLL, Care, Finished, Look, Outcome, Stop, outcome_of
from pntm_np.runtime.errors import NOT_AVAILABLE, PntmError
from pntm_np.runtime.untrusted import printable
from pntm_np.training.config import Config

DEATHS = 50  # workers that may die during one run before it is given up
CONNECTING, GONE = 15.0, 60.0  # seconds to wait for a scheduler, at first and later
ADDRESS = re.compile(r"(\w+://)?[^/\s]+:\d+")


class ClusterError(PntmError, RuntimeError):
    exit_code = NOT_AVAILABLE


def connect(address: str) -> Any:
    if not ADDRESS.fullmatch(address):
        raise GridError(f"--cluster {address!r:.60}; expected the address of a scheduler, such as tcp://host:8786")
    try:
        from distributed import Client
    except ImportError:
        raise ClusterError("--cluster needs dask.distributed: pip install 'pntm[cluster]'") from None
    import logging

    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # errors are reported here, in one line
    try:
        return Client(address, timeout=CONNECTING, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise ClusterError(f"--cluster {address}: no scheduler answers there ({type(error).__name__})") from None


def run_there(
    client: Any, directory: Path, runs: list[Planned], care: Care, finished: Finished, look: Look, stop: Stop
) -> None:
    from distributed.scheduler import KilledWorker

    def submit(planned: Planned) -> Any:
        facts = (planned.variant, planned.config.as_json(), planned.source)
        return client.submit(_on_worker, str(directory.absolute()), facts, vars(care), pure=False, retries=0)

    futures = {submit(planned): planned for planned in runs}
    deaths: dict[str, int] = {}
    connected = time.monotonic()
    try:
        while futures and not stop():
            time.sleep(POLL)
            connected = time.monotonic() if client.status == "running" else connected
            if time.monotonic() - connected > GONE:
                raise ClusterError("lost the scheduler; all runs are saved, and the same command continues them")
            for future in [f for f in futures if f.done()]:
                planned = futures.pop(future)
                error = future.exception() if future.status == "error" else None
                if isinstance(error, KilledWorker) or future.status in ("cancelled", "lost"):
                    deaths[planned.name] = deaths.get(planned.name, 0) + 1
                    if deaths[planned.name] <= DEATHS:
                        futures[submit(planned)] = planned
                        continue
                    outcome = Outcome("crashed", f"its worker died {DEATHS} times")
                elif error is not None:
                    outcome = Outcome("crashed", printable(f"{type(error).__name__}: {error}")[:LONGEST])
                else:
                    outcome = Outcome(*future.result())
                    if outcome.state in ("stopped", "busy"):  # its worker was shut down: another one continues
                        futures[submit(planned)] = planned
                        continue
                finished(planned, outcome)
            look()
    finally:
        with contextlib.suppress(Exception):  # a client without a scheduler cannot cancel, and need not
            client.cancel(list(futures))
    for planned in futures.values():
        finished(planned, Outcome("stopped"))


def _on_worker(directory: str, facts: tuple, care: dict[str, Any]) -> tuple[str, str, int]:
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()
    variant, config, source = facts
    planned = Planned(variant, Config.from_json(config), source)

    def cancelled() -> bool:
        """Whether the run is no longer wanted, because the sweep was stopped or died."""
        state = worker.state.tasks.get(key)
        return worker.status.name != "running" or state is None or state.state not in ("executing", "long-running")

    outcome = outcome_of(Path(directory) / planned.name, planned, Care(**care), cancelled)
    return outcome.state, outcome.cause, outcome.attempts
