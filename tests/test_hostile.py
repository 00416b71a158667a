"""Hostile files, names and places: one clear message and the right exit code, nothing executed, nothing written outside,
no traceback, no waiting; and the rest of the work goes on."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import cli
import pntm_np as pn
from pntm_np.experiments.report.build import report
from pntm_np.experiments.report.gather import Material, gather
from pntm_np.experiments.sweep.collect import collect
from pntm_np.experiments.sweep.grid import MOST_RUNS, grid, write_plan
from pntm_np.runtime.untrusted import CheckpointError, parse, printable
from pntm_np.training.run import Run
from tasks import TASKS
from tests.limits import limit
from tests.pntm_np.experiments.report.made import bench, fails_after, write_run
from tests.pntm_np.runtime.test_damage import TRAINING

SECONDS = 300  # far more than any of these takes, also on a machine that has other things to do
NAMES = [f"parity-check-pntm-{seed}" for seed in (1, 2, 3)]  # the first two are done
ESCAPES = "\x1b[2J\x1b]0;owned\x07\r\n\u202e"
DEEP = "[" * 100_000
EVIL = """
from pathlib import Path
Path(__file__).with_name("executed").touch()
from tasks.parity_check import ParityCheck
class X(ParityCheck):
    name = "evil"
"""


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    """A sweep with two runs that are done and one to do, what was collected of it, and what nobody may touch."""
    place = tmp_path_factory.mktemp("template")
    runs = grid([TASKS["parity-check"]], {"pntm": {"form": "chunked"}}, (1, 2, 3), {})
    for planned in runs[:2]:
        made = write_run(place / "made", "parity-check", "pntm", planned.config.seed, fails_after(120))
        shutil.move(made, place / "sweep" / planned.name)
    write_plan(place / "sweep", runs)
    collect(place / "sweep", place / "kept")
    (place / "evil.py").write_text(EVIL)
    (place / "canary").write_text("do not touch\n")
    model = pn.Model.new("pntm", 6, np.random.default_rng(0), width=4, heads=2, cell=4)
    model.training = TRAINING
    pn.save(place / "machine", model)
    shutil.rmtree(place / "made")
    return place


@pytest.fixture
def place(template, tmp_path, monkeypatch) -> Path:
    shutil.copytree(template, tmp_path / "place")
    monkeypatch.chdir(tmp_path / "place")
    return tmp_path / "place"


def listing(place: Path) -> dict[str, tuple[int, bytes]]:
    """All that is there, with the content of regular files."""
    found = {}
    for root, folders, files in os.walk(place.parent):
        for name in folders + files:
            path = Path(root) / name
            whole = path.is_file() and not path.is_symlink() and path.stat().st_size < 10**6
            found[os.fspath(path.relative_to(place)) if path.is_relative_to(place) else os.fspath(path)] = (
                path.lstat().st_mode,
                path.read_bytes() if whole else b"",
            )
    return found


def invoke(*args: object) -> Any:
    """A command; whatever it says is printable, and it ends in time and without a traceback."""
    with limit(SECONDS):
        done = CliRunner().invoke(cli.main, [str(arg) for arg in args], input="")
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    for stream in (done.stdout, done.stderr):
        assert all(printable(line) == line for line in stream.split("\n")), stream
        assert "Traceback" not in stream, stream
    return done


# how files are damaged
def written(name: str, content: str | bytes) -> Callable[[Path], None]:
    def damage(place: Path) -> None:
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode(errors="surrogatepass"))

    return damage


def fifo(name: str) -> Callable[[Path], None]:
    def damage(place: Path) -> None:
        (place / name).unlink(missing_ok=True)
        os.mkfifo(place / name)

    return damage


def folder(name: str) -> Callable[[Path], None]:
    def damage(place: Path) -> None:
        (place / name).unlink(missing_ok=True)
        (place / name).mkdir()

    return damage


def link(name: str, to: str) -> Callable[[Path], None]:
    def damage(place: Path) -> None:
        (place / name).unlink(missing_ok=True)
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).symlink_to(place / to)

    return damage


def changed(name: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    """A JSON file with another content."""

    def damage(place: Path) -> None:
        content = json.loads((place / name).read_text())
        (place / name).write_text(json.dumps(change(content)))

    return damage


def with_row(**more: Any) -> Callable[[Path], None]:
    """A plan whose first run is another; what is in ``config`` is changed in its configuration."""

    def change(content: Any) -> Any:
        first = content["runs"][0]
        config = first["config"] | more.pop("config", {})
        return {"runs": [first | {"config": config} | more, *content["runs"][1:]]}

    return lambda place: changed("sweep/sweep.json", change)(place)


def many_rows(place: Path) -> None:
    changed("sweep/sweep.json", lambda content: {"runs": content["runs"] + [{}] * (MOST_RUNS - 2)})(place)


def huge(name: str) -> Callable[[Path], None]:
    """A file with a hole in it, of a terabyte."""

    def damage(place: Path) -> None:
        with open(place / name, "wb") as file:
            file.truncate(2**40)

    return damage


def metrics_elsewhere(place: Path) -> None:
    """Of a run that has begun: they would be cut to nothing."""
    link("own/metrics.jsonl", "canary")(place)
    shutil.copy(place / "sweep" / NAMES[1] / "config.json", place / "own")


PLAN, RESULT, METRICS = "sweep/sweep.json", f"sweep/{NAMES[0]}/result.json", f"sweep/{NAMES[0]}/metrics.jsonl"
DRY, STATUS = ("sweep", "--out", "sweep", "--dry-run"), ("sweep", "status", "sweep")
COLLECT, GRID = (
    ("sweep", "collect", "sweep", "--out", "new"),
    ("sweep", "--grid", "grid.toml", "--out", "x", "--dry-run"),
)
EVIL_ROW = {"variant": "a", "source": "evil.py:X", "task": "evil", "config": {"task": "evil"}}


@dataclass
class Case:
    name: str
    damage: Callable[[Path], None]
    command: tuple[str, ...]
    code: int
    said: str
    written: tuple[str, ...] = field(default=())  # what a command that goes on leaves


def plan(name: str, damage: Callable[[Path], None], said: str, code: int = 4, command: tuple[str, ...] = DRY) -> Case:
    return Case(f"plan: {name}", damage, command, code, said)


def run(name: str, damage: Callable[[Path], None], said: str = "") -> list[Case]:
    """A run that has ended and is damaged: its status is told, and the others are collected."""
    return [
        Case(f"run, status: {name}", damage, STATUS, 0, ""),
        Case(f"run, collect: {name}", damage, COLLECT, 4, said or f"left out: sweep/{NAMES[0]}/", (f"new/{NAMES[1]}.json",)),
    ]  # fmt: skip


def toml(name: str, text: str | bytes, said: str) -> Case:
    return Case(f"grid: {name}", written("grid.toml", text), GRID, 2, said)


SEEDS = ",".join(map(str, range(20_000)))
CASES = [
    # plans: read on every command, named by none
    plan("a source to be executed", with_row(**EVIL_ROW), "its task 'evil' is in a file of yours: name it again", 2),
    plan("the same, and its status", with_row(**EVIL_ROW), "", 0, STATUS),
    plan("a task that there is not", with_row(config={"task": "nothing"}), "'nothing' is in a file of yours", 2),
    plan("a task that is a path", with_row(config={"task": "../x"}), "not the plan of a sweep: task is '../x'"),
    plan("a variant that leads outside", with_row(variant="x/../../../escape"), "variant 'x/../../../escape'; expected"),
    plan("a variant that is the directory above", with_row(variant=".."), "variant '..'"),
    plan("a variant with escapes", with_row(variant="a" + ESCAPES), "variant 'a\\x1b"),
    plan("a variant with a lone surrogate", with_row(variant="\ud800"), "variant '\\ud800'"),
    plan("a variant that is a number", with_row(variant=5), "variant 5"),
    plan("symbols of another task", with_row(config={"symbols": "xyz"}), "has other symbols than parity-check"),
    plan("a billion layers", with_row(config={"sizes": {"depth": 10**9}}), "not the plan of a sweep: sizes"),
    plan("a rate that is no number", with_row(config={"lr": float("nan")}), "NaN is not a finite number"),
    plan("a rate beyond all numbers", written(PLAN, '{"runs": [1e999]}'), "1e999 is not a finite number"),
    plan("an integer of 400 digits", written(PLAN, f'{{"runs": [{10**400}]}}'), "has more than 64 bits"),
    plan("a model that is a list", with_row(config={"model": []}), "not the plan of a sweep"),
    plan("a run twice", changed(PLAN, lambda c: {"runs": c["runs"] * 2}), "a run is listed twice"),
    plan("too many runs", many_rows, "10,001 runs; a sweep has at most 10,000"),
    plan("nested", written(PLAN, DEEP), "nested more than 32 deep"),
    plan("nested and whole", written(PLAN, "[" * 200 + "]" * 200), "nested more than 32 deep"),
    plan("empty", written(PLAN, ""), "not readable as JSON"),
    plan("a number", written(PLAN, "5"), "not the plan of a sweep"),
    plan("a number of runs", written(PLAN, '{"runs": 5}'), "not the plan of a sweep"),
    plan("not UTF-8", written(PLAN, b"\xff\xfe{}"), "not readable as JSON"),
    plan("a FIFO", fifo(PLAN), "sweep.json: not a regular file"),
    plan("a FIFO, and its status", fifo(PLAN), "sweep.json: not a regular file", 4, STATUS),
    plan("a directory", folder(PLAN), "sweep.json: not a regular file"),
    plan("a link without an end", link(PLAN, "../../../../../../dev/zero"), "not a regular file"),
    plan("a terabyte", huge(PLAN), "expected at most 268,435,456"),
    # directories of runs
    Case("a run's directory that is a link", link(f"sweep/{NAMES[2]}", "kept"), ("sweep", "--out", "sweep"), 2, "it is a link; a sweep writes only below --out"),
    Case("a log that is a link", link(f"sweep/{NAMES[2]}/log.txt", "canary"), ("sweep", "--out", "sweep"), 1, "log.txt is a link; expected a regular file", (f"sweep/{NAMES[2]}/config.json",)),
    Case("a lock that is a link", link(f"sweep/{NAMES[2]}/.lock", "canary"), ("sweep", "--out", "sweep"), 1, ".lock is a link; expected a regular file"),
    Case("metrics that are a link", metrics_elsewhere, ("train", "--resume", "--out", "own"), 4, "metrics.jsonl is a link; expected a regular file", ("own/config.json",)),
    *run("a result that is a FIFO", fifo(RESULT), f"left out: {RESULT}: not a regular file"),
    *run("a result that is a directory", folder(RESULT), f"left out: {RESULT}: not a regular file"),
    *run("a score that is no number", changed(RESULT, lambda r: r | {"score": float("nan")}), "NaN is not a finite number"),
    *run("a score of 5", changed(RESULT, lambda r: r | {"score": 5}), "not the result of a run"),
    *run("a step that is a text", changed(RESULT, lambda r: r | {"step": ESCAPES}), "not the result of a run"),
    *run("a result of one length", changed(RESULT, lambda r: r | {"by_length": r["by_length"][:1]}), "not the result of a run"),
    *run("a nested result", written(RESULT, DEEP), "nested more than 32 deep"),
    *run("metrics that are a FIFO", fifo(METRICS), f"left out: {METRICS}: not a regular file"),
    *run("metrics that are a directory", folder(METRICS), f"left out: {METRICS}: not a regular file"),
    *run("metrics that are no numbers", written(METRICS, '{"step": 1, "loss": NaN}\n'), "expected the metrics of a run"),
    *run("metrics that are texts", written(METRICS, '"loss"\n'), "expected the metrics of a run"),
    *run("nested metrics", written(METRICS, DEEP + "\n"), "expected the metrics of a run"),
    *run("metrics that lack something", written(METRICS, '{"step": 1, "loss": 1}\n{"loss": 2}\n'), "expected the metrics of a run"),
    *run("a configuration that leads outside", changed(f"sweep/{NAMES[0]}/config.json", lambda c: c | {"task": "../x"}), "not a usable configuration"),
    Case("collected before, and damaged since", written(f"kept/{NAMES[0]}.json", "{"), ("sweep", "collect", "sweep", "--out", "kept"), 4, f"left out: kept/{NAMES[0]}.json", (f"kept/{NAMES[1]}.json",)),
    Case("a name with escapes", lambda place: written(f"sweep/x{ESCAPES}/result.json", "{")(place), COLLECT, 4, "left out: sweep/x\\x1b[2J", (f"new/{NAMES[0]}.json",)),
    Case("timing that is a FIFO", fifo(f"sweep/{NAMES[0]}/timing.jsonl"), COLLECT, 0, "", (f"new/{NAMES[0]}.json",)),
    Case("timing that is no number", written(f"sweep/{NAMES[0]}/timing.jsonl", '{"training_cpu_seconds": "x", "evaluation_cpu_seconds": NaN}\n'), COLLECT, 0, "", (f"new/{NAMES[0]}.json",)),
    Case("a failure that is a FIFO", lambda place: (os.mkdir(place / "sweep" / NAMES[2]), fifo(f"sweep/{NAMES[2]}/failure.json")(place)), STATUS, 0, ""),
    Case("a failure with escapes", written(f"sweep/{NAMES[2]}/failure.json", json.dumps({"state": "crashed", "cause": ESCAPES, "attempts": 1})), STATUS, 0, ""),
    Case("a nested failure", written(f"sweep/{NAMES[2]}/failure.json", DEEP), STATUS, 0, ""),
    Case("a failure that was tried infinitely often", written(f"sweep/{NAMES[2]}/failure.json", '{"state": "hung", "cause": "", "attempts": 1e999}'), STATUS, 0, ""),
    # grids: named by the command line, and still read with care
    toml("arrays in arrays", "seeds = " + "[" * 5_000 + "]" * 5_000, "nested more than 8 deep"),
    toml("tables in tables", "[variants.a]\nsteps." + "a." * 1_500 + "a = 1", "nested more than 8 deep"),
    toml("a key of 100,000 parts", "[variants.a]\n" + "a." * 100_000 + "a = 1", "a grid has at most 2,000"),
    toml("20,000 seeds", f"seeds = [{SEEDS}]\n[variants.pntm]", "20,000 runs; a sweep has at most 10,000"),
    toml("a megabyte", "#" * 2**20 + "\n[variants.pntm]", "a grid has at most 1,048,576"),
    toml("a variant with escapes", '[variants."a\\u001b[2J"]', "variant 'a\\x1b[2J'; expected letters"),
    toml("not UTF-8", b"\xff\xfe", "not readable as TOML"),
    Case("grid: a FIFO", fifo("grid.toml"), GRID, 2, "expected a TOML file"),
    Case("20,000 seeds on the command line", lambda place: None, ("sweep", "--tasks", "parity", "--seeds", SEEDS, "--out", "x", "--dry-run"), 2, "20,000 runs; a sweep has at most 10,000"),
    Case("a nested option", lambda place: None, ("sweep", "--tasks", "parity", "--option", "steps=" + "[" * 5_000, "--out", "x"), 2, "--option"),
    # places
    Case("a bench that is a FIFO", fifo("bench.json"), ("bench", "--lengths", "8", "--out", "bench.json", "--resume"), 4, "expected a benchmark that can be resumed"),
    Case("a bench of texts", written("bench.json", json.dumps({"machine": {}, "settings": {}, "rows": [{"model": "ntm", "form": "fused", "length": 8, "mean": "x"}]})), ("bench", "--lengths", "8", "--out", "bench.json", "--resume"), 4, "expected a benchmark that can be resumed"),
    Case("a machine that is a FIFO", fifo("machine"), ("solve", "machine", "ab"), 4, "machine: not a regular file"),
    Case("a directory with escapes", written(f"own{ESCAPES}/config.json", "{"), ("train", "--resume", "--out", f"own{ESCAPES}"), 4, "own\\x1b[2J"),
    Case("a report of nothing but harm", written("bad/result.json/x.json", DEEP), ("report", "bad"), 2, "there is nothing to report"),
]  # fmt: skip


def test_there_are_enough_cases():
    assert len({case.name for case in CASES}) == len(CASES) >= 40


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_hostile(case: Case, place: Path):
    case.damage(place)
    before = listing(place)
    done = invoke(*case.command)
    assert done.exit_code == case.code and case.said in done.stderr, (done.exit_code, done.stderr)
    if case.code == 0:
        assert case.command != STATUS or NAMES[1].rsplit("-", 2)[0] in done.stdout
    elif not case.written:
        assert len(done.stderr.strip().splitlines()) <= 4, "one message"
    after = listing(place)
    allowed = {"new", "kept"} if "collect" in case.command else {"own"} if "train" in case.command else set()
    allowed |= {"sweep"} if case.command[-2:] == ("--out", "sweep") else set()
    moved = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert {Path(name).parts[0] for name in moved} <= allowed, moved
    assert all((place / name).exists() for name in case.written), "the rest of the work goes on"
    assert not (place / "executed").exists() and (place / "canary").read_text() == "do not touch\n"


def test_a_task_in_a_file_is_imported_if_the_command_line_names_it(place):
    """By its name, and from the file that was named: where the plan says it is does not matter."""
    with_row(**EVIL_ROW)(place)
    (place / "good.py").write_text(EVIL.replace("executed", "as it was meant"))
    done = invoke(
        "sweep",
        "--out",
        "sweep",
        "--tasks",
        "good.py:X",
        "--option",
        "steps=1",
        "--option",
        "form=chunked",
        "--shard",
        "1/4",
        "--dry-run",
    )
    assert done.exit_code == 0 and "1 of 1 runs to do" in done.stdout, (done.stdout, done.stderr)
    assert (place / "as it was meant").exists() and not (place / "executed").exists()


def test_a_bad_run_is_named_in_the_status_and_the_others_are_counted(place):
    fifo(RESULT)(place)
    written(f"sweep/{NAMES[2]}/failure.json", json.dumps({"state": "crashed", "cause": "a\nb", "attempts": 1}))(place)
    found = json.loads(invoke(*STATUS, "--json").stdout)
    assert [run["state"] for run in found["runs"]] == ["failed", "done", "failed"]
    assert found["runs"][0]["cause"].endswith("result.json: not a regular file")
    assert found["runs"][2]["cause"] == "crashed: a\\nb"


def test_ten_thousand_runs_are_planned_in_time(place):
    """As many as there may be: the time grows with their number, not with its square."""
    text = f"tasks = ['parity']\nseeds = [{','.join(map(str, range(MOST_RUNS)))}]\n[variants.pntm]\nform = 'chunked'\nsteps = 1\ncool-down = 0"
    (place / "grid.toml").write_text(text)
    done = invoke(*GRID)
    assert done.exit_code == 0 and "10000 of 10000 runs to do" in done.stdout, done.stderr


# reports: whatever is found below a directory
def evaluation(**more: Any) -> str:
    row = {"length": 1000, "samples": 128, "exact_match": 0.5, "token_accuracy": 0.75}
    found = {"task": "reverse-string", "model": "pntm", "exact_match": 0.5, "token_accuracy": 0.75, "tau": 0.1}
    return json.dumps(found | {"gate_tau": 0.01, "memory_size": 2016, "seed": 7, "by_length": [row]} | more)


def timed(**more: Any) -> str:
    made = bench()
    return json.dumps(made | {"rows": [made["rows"][0] | more, *made["rows"][1:]]})


def kept(**more: Any) -> Callable[[Path], None]:
    return changed(f"kept/{NAMES[0]}.json", lambda content: content | more)


REPORTS: dict[str, Callable[[Path], None]] = {
    "a score that is no number": changed(f"kept/{NAMES[0]}.json", lambda c: c | {"result": c["result"] | {"score": float("nan")}}),
    "a cost that is a text": kept(cost={"training_cpu_seconds": "x", "evaluation_cpu_seconds": 1}),
    "losses that are a number": kept(losses=5),
    "a failure without a cause": kept(result=None, failure={}),
    "a failure that is a text": kept(result=None, failure="x"),
    "a collected run that is a FIFO": fifo(f"kept/{NAMES[0]}.json"),
    "an evaluation of half a length": written("kept/e.json", evaluation(by_length=[{"length": 1.5, "samples": 1, "exact_match": 1}])),
    "an evaluation of texts": written("kept/e.json", evaluation(gate_tau="x")),
    "an evaluation beyond all measure": written("kept/e.json", evaluation(tau=10**400)),
    "an evaluation of 5": written("kept/e.json", evaluation(exact_match=5)),
    "an evaluation with a name of a megabyte": written("kept/e.json", evaluation(model="x" * 2**20)),
    "a bench without time": written("kept/b.json", timed(mean=0)),
    "a bench of negative time": written("kept/b.json", timed(mean=-1.0)),
    "a bench of texts": written("kept/b.json", timed(std="x")),
    "a bench of infinite time": written("kept/b.json", timed(mean=float("inf"))),
    "a bench of a length of 0": written("kept/b.json", timed(length=0)),
    "a bench that was run 1e300 times": written("kept/b.json", json.dumps(bench() | {"settings": {"batch": 1e300, "runs": 1, "threads": 1, "backend": "cpu"}})),
    "a bench by a list": written("kept/b.json", json.dumps(bench() | {"machine": {"processor": [1]}})),
    "a FIFO": fifo("kept/f.json"),
    "a nested file": written("kept/n.json", DEEP),
    "a terabyte": huge("kept/h.json"),
    "a link without an end": link("kept/l.json", "../../../../../../dev/zero"),
    "a configuration that is a FIFO": lambda place: ((place / "kept" / "run").mkdir(), fifo("kept/run/config.json")(place)),
    "a result that is a FIFO": lambda place: (shutil.copytree(place / "sweep" / NAMES[0], place / "kept" / "run"), fifo("kept/run/result.json")(place)),
}  # fmt: skip


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_leaves_it_out_and_says_so(name: str, place: Path):
    REPORTS[name](place)
    with limit(SECONDS):
        found: Material = gather(place / "kept")
    assert len(found.left_out) == 1 and not found.benches and not found.evaluations, found.left_out
    assert len(found.left_out[0]) < 500
    hurt = f"kept/{NAMES[0]}.json" in found.left_out[0]
    assert [run.config.seed for run in found.runs] == ([2] if hurt else [1, 2]), "the others stay"


def test_a_bad_run_does_not_displace_a_good_one_like_it(place):
    """It is found first."""
    shutil.copytree(place / "sweep" / NAMES[0], place / "kept" / "a")
    changed("kept/a/result.json", lambda result: result | {"score": float("nan")})(place)
    found = gather(place / "kept")
    assert [run.config.seed for run in found.runs] == [1, 2] and len(found.left_out) == 1


def test_names_are_shown_as_they_are_and_do_nothing(place, monkeypatch):
    """On the terminal, in tables and pages, and in pictures."""
    harm = f"<script>alert(1)</script>|{ESCAPES}$\\frac{{"
    (place / "kept" / f"e{ESCAPES}.json").write_text(evaluation(model=harm, task=harm))
    (place / "kept" / os.fsdecode(b"\xff.json")).write_text(evaluation(model="\ud800"))
    (place / "kept" / "b.json").write_text(json.dumps(bench() | {"machine": {"processor": harm}}))
    kept(result=None, failure={"state": "crashed", "cause": harm, "attempts": 1})(place)
    done = invoke("report", "kept")
    assert done.exit_code == 0, done.stderr
    for path in (place / "kept" / "report").iterdir():
        if path.suffix != ".png":
            text = path.read_bytes().decode()
            assert not {c for c in text if not c.isprintable()} - {"\n"}, path.name
            assert path.suffix == ".csv" or "<script" not in text, path.name
    rows = (place / "kept" / "report" / "checkpoints.md").read_text().splitlines()
    assert {row.replace("\\|", "").count("|") for row in rows[:4]} == {12}, "eleven columns each"


# machines
@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
def test_a_machine_that_is_not_finite_does_not_answer(value: float, place):
    """Neither one whose parameters are not, nor one whose outputs are not."""
    model = pn.load(place / "machine")
    for name in model.params if value == 3e38 else ["decoder.bias"]:
        model.params[name] = np.full_like(model.params[name], value)
    pn.save(place / "machine", model)
    said = "the model's output is not finite" if value == 3e38 else "decoder.bias is not finite"
    for command in (("eval", "machine", "--lengths", "1:3", "--samples", "2"), ("solve", "machine", "ab")):
        done = invoke(*command)
        assert done.exit_code == 4 and said in done.stderr and done.stdout == "", done.stderr
        assert len(done.stderr.splitlines()) <= 2


# the parts
@pytest.mark.parametrize(
    "text",
    [
        "NaN",
        "-Infinity",
        "1e999",
        str(2**63),
        str(10**400),
        DEEP,
        '{"a":' * 10**5,
        "[" * 40 + "]" * 40,
        "",
        "\ufeff1",
        b"\xff",
    ],
)
def test_what_is_not_read_as_json(text):
    with pytest.raises(ValueError):
        parse(text)


def test_what_is_read_as_json():
    for content in (None, 0, -(2**63), 2**63 - 1, 1.5, "é\ud800", [[1]], {"a": {"b": [None, True]}}):
        assert parse(json.dumps(content)) == content


def test_nothing_is_written_through_a_link(place):
    """Neither in place of it nor beside it."""
    run = Run(place / "own")
    run.directory.mkdir()
    for name in (".config.json.partial", "config.json", "metrics.jsonl"):
        run.path(name).symlink_to(place / "canary")
    config = Run(place / "sweep" / NAMES[0]).read_config()
    run.write_config(config)
    assert run.read_config() == config and not run.path("config.json").is_symlink()
    with pytest.raises(CheckpointError, match="is a link; expected a regular file"):
        run.append("metrics.jsonl", {"step": 1})
    with pytest.raises(CheckpointError, match="is a link; expected a regular file"):
        run.cut_metrics(1)
    assert (place / "canary").read_text() == "do not touch\n"


def test_a_report_goes_nowhere_but_there(place):
    """A table's file that is a link is replaced, not followed."""
    (place / "out").mkdir()
    for name in ("best.csv", "report.html", ".report.html.partial"):
        (place / "out" / name).symlink_to(place / "canary")
    with limit(SECONDS):
        report(place / "kept", place / "out", lambda line: None)
    assert (place / "canary").read_text() == "do not touch\n" and not (place / "out" / "best.csv").is_symlink()


def test_a_header_that_promises_a_terabyte_costs_nothing(place):
    (place / "machine").write_bytes(struct.pack("<Q", 2**40) + b"{}")
    assert invoke("solve", "machine", "ab").exit_code == 4
