"""Make runs in processes of their own, several at a time; restart those that break, and stop those that hang."""

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
SAVING = 20.0  # seconds that a process has to save after SIGTERM
BUSY = "another process is at work on this run"
USAGE, DIVERGED, BAD_FILE, NOT_AVAILABLE = 2, 3, 4, 5  # exit codes of pntm train after which a retry is useless
GIVEN_UP = ("diverged", "crashed", "hung", "refused")
LONGEST = 300  # most characters of a cause
GRACE = 3.0  # seconds that a run whose sweep has died has to finish a step and save


@dataclass(frozen=True)
class Outcome:
    """``state`` is done, stopped, busy (another process has the run), one of GIVEN_UP, or unavailable: disk space,
    memory or a device was missing. This is not the run's fault, so the next sweep tries it again."""

    state: str
    cause: str = ""
    attempts: int = 0

    @property
    def failed(self) -> bool:
        return self.state in GIVEN_UP


@dataclass(frozen=True)
class Care:
    threads: int = 1
    retries: int = 2  # retries of a run that makes no progress in between
    stall: float = 900.0  # seconds without output after which a run counts as hung


Finished = Callable[[Planned, Outcome], None]
Look = Callable[[], None]
Stop = Callable[[], bool]


def run_here(
    directory: Path, runs: list[Planned], jobs: int, care: Care, finished: Finished, look: Look, stop: Stop
) -> None:
    """Make the runs, ``jobs`` at a time; call ``finished`` when a run ends, and ``look`` every now and then."""

    def one(planned: Planned) -> Outcome:
        return Outcome("stopped") if stop() else outcome_of(directory / planned.name, planned, care, stop)

    with ThreadPoolExecutor(jobs) as pool:
        waiting = {pool.submit(one, planned): planned for planned in runs}
        while waiting:
            done, _ = wait(waiting, timeout=POLL, return_when=FIRST_COMPLETED)
            for future in done:
                planned, outcome = waiting.pop(future), future.result()
                if outcome.state == "busy":  # another sweep has it: make the free ones first
                    waiting[pool.submit(one, planned)] = planned
                else:
                    finished(planned, outcome)
            look()


def outcome_of(directory: Path, planned: Planned, care: Care, stop: Stop) -> Outcome:
    """Like ``supervise``, but errors in this process are outcomes, too, so that the other runs continue."""
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
    """Make the run in ``directory``, continuing from its last checkpoint, and write down why if it fails.

    A run that another sweep has, or whose process is about to end, is left alone; the caller asks for it again after
    others. A run that broke here is waited for instead, so that neither sweep forgets how often it has tried.
    """
    run = Run(directory)
    attempts, furthest = 0, -1
    while True:
        if run.at_work:
            if _wait_until(stop, 1.0):  # the caller may have nothing else to ask for
                return Outcome("stopped")
            if not attempts:
                return Outcome("busy")
            continue
        if run.complete:
            return Outcome("done")
        if given_up := failure(directory):  # by another sweep; the file is removed before a retry
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
        step = last_row(run).get("step", -1)
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
    start = [sys.executable, "-P", "-m", "cli", "train", *task]  # -P: import no cli.py or random.py of the user's
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
                return Outcome("hung", f"no output for {care.stall:g} s")
            time.sleep(POLL)
    lines = _lines(log, began)
    said, code = lines[-1] if lines else "", process.returncode
    if code == 0 and run.complete:
        return Outcome("done")
    if code == USAGE and any(BUSY in line for line in lines):  # the other process writes to the same log
        return Outcome("busy")
    if code == NOT_AVAILABLE:
        return Outcome("unavailable", said or "disk space, memory or a device is missing")
    if code in (USAGE, BAD_FILE):
        return Outcome("refused", said)
    if code == DIVERGED:
        return Outcome("diverged", said)
    how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return Outcome("crashed", f"{how}: {said}" if said else how)


def _signs_of_life(run: Run) -> list[tuple[str, int, int]]:
    """What changes while a run makes progress: the sizes and times of its files."""
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
    """Wait; return whether it was stopped in the meantime."""
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


def last_row(run: Run) -> Json:
    """The last complete row of the metrics; empty if the run has not begun."""
    with contextlib.suppress(OSError, CheckpointError):
        for line in reversed(read_end(run.path("metrics.jsonl"), 4096).splitlines()):
            with contextlib.suppress(ValueError):
                row = parse(line)
                if isinstance(row, dict) and is_count(row.get("step")):
                    return row
    return {}


def failure(directory: Path) -> Outcome | None:
    """Why the run there failed; None if it did not."""
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
    return Outcome("failed", printable(f"{path} is not readable; --retry-failed makes the run again"))


def end_with_parent() -> None:
    """End this process when its parent ends, which holds the other end of its standard input."""
    threading.Thread(target=_wait_for_end, args=(os.dup(sys.stdin.fileno()),), daemon=True).start()


def _wait_for_end(pipe: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(pipe, 1024):
            pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(128 + signal.SIGTERM)  # files are replaced atomically, so none is half written
