"""Runs in processes of their own, some at a time, watched: started again if they break, stopped if they hang."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from pathlib import Path

from pntm_np.experiments.sweep.grid import Planned
from pntm_np.runtime.files import FULL, json_bytes, open_own, write_atomically
from pntm_np.runtime.untrusted import CheckpointError, Json, is_count, parse, printable, read_end, read_json
from pntm_np.training.run import Run, RunBusy

LOG, FAILURE = "log.txt", "failure.json"
POLL = 0.2  # seconds
SAVING = 20.0  # seconds to save after SIGTERM
BUSY = "another process is at work on this run"
USAGE, DIVERGED, BAD_FILE, NOT_AVAILABLE = 2, 3, 4, 5  # exit codes of pntm train that trying again does not change
GIVEN_UP = ("diverged", "crashed", "hung", "refused")
LONGEST = 300  # characters of a cause
GRACE = 3.0  # seconds that a run whose sweep has died has to finish a step and save


@dataclass(frozen=True)
class Outcome:
    """``state`` is done, stopped, busy (another process has the run), one of GIVEN_UP, or unavailable: there was no
    room on the disk, no memory or no device. That says nothing of the run, and the next sweep takes it up."""

    state: str
    cause: str = ""
    attempts: int = 0

    @property
    def failed(self) -> bool:
        return self.state in GIVEN_UP


@dataclass(frozen=True)
class Care:
    threads: int = 1
    retries: int = 2  # of a run that breaks without having got any further
    stall: float = 900.0  # seconds without a sign of life


Finished = Callable[[Planned, Outcome], None]
Look = Callable[[], None]
Stop = Callable[[], bool]


def run_here(
    directory: Path, runs: list[Planned], jobs: int, care: Care, finished: Finished, look: Look, stop: Stop
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


def outcome_of(directory: Path, planned: Planned, care: Care, stop: Stop) -> Outcome:
    """As ``supervise``; what goes wrong here and not in the run's process is an outcome as well: the others go on."""
    try:
        return supervise(directory, planned, care, stop)
    except CheckpointError as error:
        return Outcome("refused", printable(str(error))[:LONGEST])
    except OSError as error:
        cause = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        return Outcome("unavailable" if error.errno in FULL else "crashed", printable(cause)[:LONGEST])
    except Exception as error:
        return Outcome("crashed", printable(f"{type(error).__name__}: {error}")[:LONGEST])


def supervise(directory: Path, planned: Planned, care: Care, stop: Stop) -> Outcome:
    """Make the run in ``directory``, from wherever it stands, and write down why if it fails.

    One that another sweep has, or whose process is about to end, is left to it: it is to be asked for again, after
    others. One that has broken here is not: both sweeps would forget how often they have tried.
    """
    run = Run(directory)
    attempts, furthest = 0, -1
    while True:
        if run.at_work:
            if _wait_until(stop, 1.0):  # not at once: there may be nothing else to ask for
                return Outcome("stopped")
            if not attempts:
                return Outcome("busy")
            continue
        if run.complete:
            return Outcome("done")
        if given_up := failure(directory):  # by another sweep: what is to be tried again has none
            return given_up
        directory.mkdir(parents=True, exist_ok=True)
        if not run.exists:
            try:
                with run.locked():
                    run.write_config(planned.config)
            except RunBusy:  # another sweep was faster
                continue
        outcome = _attempt(run, _command(directory, planned, care), care, stop)
        if outcome.state == "busy":  # another sweep was faster
            continue
        step = last_step(run)
        attempts, furthest = (attempts + 1 if step <= furthest else 1), max(step, furthest)
        outcome = Outcome(outcome.state, outcome.cause, attempts)
        retried = outcome.state in ("crashed", "hung") and attempts <= care.retries
        if not retried:
            if outcome.failed:
                write_atomically(directory / FAILURE, json_bytes(asdict(outcome) | {"step": step}))
            return outcome
        if _wait_until(stop, min(10.0, 0.5 * 2**attempts)):
            return Outcome("stopped")


def _command(directory: Path, planned: Planned, care: Care) -> list[str]:
    task = [planned.source] if planned.source else []
    start = [sys.executable, "-P", "-m", "cli", "train", *task]  # -P: not a cli.py or random.py of the user's
    return [*start, "--resume", "--out", str(directory), "--threads", str(care.threads), "--end-with-parent"]


def _attempt(run: Run, command: list[str], care: Care, stop: Stop) -> Outcome:
    log = run.path(LOG)
    with os.fdopen(open_own(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab") as sink:
        began = sink.tell()
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=sink, start_new_session=True
        )
    with process:
        alive, seen = time.monotonic(), None
        while process.poll() is None:
            if stop():
                _end(process, SAVING)
                return Outcome("done" if run.complete else "stopped")
            signs = _signs_of_life(run)
            if signs != seen:
                alive, seen = time.monotonic(), signs
            elif time.monotonic() - alive > care.stall:
                _end(process, 5.0)
                return Outcome("hung", f"no sign of life for {care.stall:g} s")
            time.sleep(POLL)
    lines = _lines(log, began)
    said, code = lines[-1] if lines else "", process.returncode
    if code == 0 and run.complete:
        return Outcome("done")
    if code == USAGE and any(BUSY in line for line in lines):  # the one at work writes into the same log
        return Outcome("busy")
    if code == NOT_AVAILABLE:
        return Outcome("unavailable", said or "no room on the disk, no memory, or no device")
    if code in (USAGE, BAD_FILE):
        return Outcome("refused", said)
    if code == DIVERGED:
        return Outcome("diverged", said)
    how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return Outcome("crashed", f"{how}: {said}" if said else how)


def _signs_of_life(run: Run) -> list[tuple[str, int, int]]:
    """Whatever changes while a run is at work."""
    found = []
    for name in (LOG, "metrics.jsonl", "state.safetensors", "result.json"):
        with contextlib.suppress(OSError):
            status = run.path(name).stat()
            found.append((name, status.st_size, status.st_mtime_ns))
    return found


def _end(process: subprocess.Popen, patience: float) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait_until(stop: Stop, seconds: float) -> bool:
    """Whether it was stopped meanwhile."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if stop():
            return True
        time.sleep(min(POLL, seconds))
    return stop()


def _lines(log: Path, began: int) -> list[str]:
    try:
        text = read_end(log, 4096, began).decode(errors="replace")
    except (OSError, CheckpointError):
        return []
    return [printable(line.strip())[:LONGEST] for line in text.splitlines() if line.strip()]


def last_step(run: Run) -> int:
    """How far a run got; -1 if it has not begun."""
    row = last_row(run)
    return row.get("step", -1)


def last_row(run: Run) -> Json:
    with contextlib.suppress(OSError, CheckpointError):
        for line in reversed(read_end(run.path("metrics.jsonl"), 4096).splitlines()):
            with contextlib.suppress(ValueError):
                row = parse(line)
                if isinstance(row, dict) and is_count(row.get("step")):
                    return row
    return {}


def failure(directory: Path) -> Outcome | None:
    """Why the run there was given up, if it was."""
    path = directory / FAILURE
    try:
        content = read_json(path)
        found = Outcome(content["state"], printable(content["cause"])[:LONGEST], content["attempts"])
        if found.state in GIVEN_UP and is_count(found.attempts):
            return found
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return Outcome("failed", printable(f"{path} is not readable; --retry-failed tries again"))


def end_with_parent() -> None:
    """End this process with the one that started it, which holds the other end of its standard input."""
    threading.Thread(target=_wait_for_end, args=(os.dup(sys.stdin.fileno()),), daemon=True).start()


def _wait_for_end(pipe: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(pipe, 1024):
            pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(128 + signal.SIGTERM)  # files are put in place whole: nothing is half written
