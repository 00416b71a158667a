"""The commands that time: what they print, what they keep, and what they refuse."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import cli
from pntm_np.commands.types import Lengths
from pntm_np.experiments.bench import forward, train_step
from pntm_np.experiments.bench.clock import Ahead, duration, summary
from pntm_np.experiments.bench.machine import PeakMemory
from pntm_np.experiments.bench.record import crossovers, with_speedup
from pntm_np.models import BENCH_MODELS, MODELS
from pntm_np.runtime import ram
from pntm_np.runtime.progress import clock_time
from pntm_np.runtime.workers import Workers
from pntm_np.scans import usable_forms
from tests.limits import LIMIT

SMALL = ["bench", "--lengths", "3,20", "--runs", "2", "--warmup", "1", "--batch", "2", "--threads", "2"]
KEYS = {"model", "form", "length", "mean", "std", "best", "runs", "speedup_over_ntm", "peak_bytes", "agrees"}


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def invoke(*args: str, code: int = 0):
    done = CliRunner().invoke(cli.main, list(args))
    assert done.exit_code == code, done.output + done.stderr
    return done


def every(model: str) -> tuple[str, ...]:
    return usable_forms(BENCH_MODELS[f"bench-{model}"].forms, "cpu")


def test_the_experiment_and_its_record(directory: Path):
    done = invoke(*SMALL, "--json", "--plot", "curves.png")
    report = json.loads(done.stdout)
    assert report == json.loads(Path("runs/bench.json").read_text())
    assert report["settings"]["lengths"] == [3, 20] and report["machine"]["cores"] >= 1
    rows = report["rows"]
    assert all(set(row) >= KEYS for row in rows)
    contestants = {("ntm", f) for f in every("ntm")} | {("pntm", f) for f in every("pntm")}
    assert {(r["model"], r["form"], r["length"]) for r in rows} == {(*c, n) for c in contestants for n in (3, 20)}
    for row in rows:
        assert row["agrees"] and row["runs"] == 2 and 0 < row["best"] <= row["mean"]
        beside = "fused" if row["form"] == "fused" else "sequential"  # like for like
        (ntm,) = (r["mean"] for r in rows if (r["model"], r["form"], r["length"]) == ("ntm", beside, row["length"]))
        assert row["speedup_over_ntm"] == ntm / row["mean"] and row["ntm_form"] == beside
    assert Path("curves.png").read_bytes()[:4] == b"\x89PNG"
    assert sorted(p.name for p in directory.rglob("*") if p.is_file()) == ["bench.json", "curves.png"]

    # again: refused; resumed: the same rows, nothing timed anew
    assert "give --resume to continue it" in invoke(*SMALL, code=2).stderr
    assert json.loads(invoke(*SMALL, "--resume", "--json").stdout) == report
    shown = invoke(*SMALL, "--resume").stdout
    assert (
        "pntm" in shown and "er than NTM, sequential," in shown and all(len(line) <= 120 for line in shown.splitlines())
    )
    assert "was made with batch 2, not 3" in invoke(*SMALL, "--batch", "3", "--resume", code=2).stderr

    # half of it: the rest is timed, what is there stays
    report["rows"] = rows[:3]
    Path("runs/bench.json").write_text(json.dumps(report))
    resumed = json.loads(invoke(*SMALL, "--resume", "--json").stdout)["rows"]
    assert len(resumed) == len(rows)
    assert [r["mean"] for r in resumed[:3]] == [r["mean"] for r in rows[:3]]
    for damage in (b"", b"[1]", b'{"settings": {}}', b"\xff\xfe", b'{"settings": 3, "rows": [{}]}'):
        Path("runs/bench.json").write_bytes(damage)
        assert "expected a benchmark that can be resumed" in invoke(*SMALL, "--resume", code=4).stderr


def test_forms_that_disagree_are_not_timed(monkeypatch, directory: Path):
    right = forward.Contestant.run

    def wrong(self, x, y, stop=None):
        right(self, x, y)
        if self.form == "chunked":
            y *= 1.01

    monkeypatch.setattr(forward.Contestant, "run", wrong)
    done = invoke(*SMALL, "--models", "pntm", code=1)
    assert "form chunked are 1.0e-02 away from the loop" in done.stderr and not done.stdout
    assert not Path("runs").exists()


def test_what_cannot_fit_is_reported_with_the_number(monkeypatch):
    need = forward.need("paper", 2, 20)
    monkeypatch.setattr(ram, "available", lambda device="cpu": int(1.2 * need))
    rows = json.loads(invoke(*SMALL, "--models", "pntm", "--json").stdout)["rows"]
    (row,) = (r for r in rows if r.get("skipped"))
    assert (row["form"], row["length"], row["need_bytes"], row["mean"], row["runs"]) == ("paper", 20, need, None, 0)
    assert ram.size(need) in row["skipped"]
    assert "skipped: needs about" in invoke(*SMALL, "--models", "pntm", "--resume").stdout
    monkeypatch.setattr(ram, "available", lambda device="cpu": 1000)
    refused = invoke(*SMALL, "--out", "other.json", code=5)
    assert "a batch of 2 needs about" in refused.stderr and "--batch or --lengths" in refused.stderr


def test_a_row_is_compared_with_the_reference_even_if_that_is_not_timed_now(monkeypatch):
    """Resumed in the middle of a length, or asked for one form alone: no form is its own witness."""
    right, calls, factor = forward.Contestant.run, [], np.float32(1.01)

    def wrong_from_the_second_call_on(self, x, y, stop=None):
        right(self, x, y)
        calls.append(self.form)
        if self.form == "sequential" and len(calls) > 1:  # the comparison before anything is timed is right
            y *= factor

    monkeypatch.setattr(forward.Contestant, "run", wrong_from_the_second_call_on)
    alone = [*SMALL[:2], "20", *SMALL[3:], "--models", "pntm", "--forms", "sequential", "--json"]
    (row,) = json.loads(invoke(*alone).stdout)["rows"]
    assert not row["agrees"] and row["difference"] == pytest.approx(0.01, rel=1e-2)
    calls, factor = [], np.float32(np.nan)
    text = invoke(*alone, "--out", "other.json").stdout
    (row,) = json.loads(text)["rows"]
    assert not row["agrees"] and row["difference"] is None and "NaN" not in text and "Infinity" not in text


def test_patience(monkeypatch):
    clock = iter(np.arange(0.0, 10**6, 40.0))
    monkeypatch.setattr(forward, "time_once", lambda run: (run(), next(clock))[1])
    rows = json.loads(invoke(*SMALL, "--models", "pntm", "--forms", "sequential", "--json").stdout)["rows"]
    assert rows[0]["mean"] > 30 and "a run of length 3 took" in rows[1]["skipped"]


def test_the_need_of_the_paper_form_is_what_it_takes():
    settings = forward.Settings(models=("pntm",), forms=("paper",), lengths=(256,), batch=4, runs=1, warmup=1)
    with Workers(1) as workers:
        (row,) = forward.run(settings, workers, {}, lambda *_: None, lambda: False)
    assert 0.7 < forward.need("paper", 4, 256) / row["peak_bytes"] < 1.4


@pytest.mark.parametrize("form", ["chunked", "fused"])
def test_without_a_way_back_memory_does_not_grow(form: str):
    if form not in every("pntm"):
        pytest.skip("Numba is not installed")
    lengths = (1024, 8192)
    settings = forward.Settings(models=("pntm",), forms=(form,), lengths=lengths, batch=2, runs=1, warmup=1)
    with Workers(1) as workers:
        short, long = forward.run(settings, workers, {}, lambda *_: None, lambda: False)
    ends = 2 * 2 * 128 * 4 * (lengths[1] - lengths[0])  # input and output
    assert long["peak_bytes"] - short["peak_bytes"] < 1.5 * ends


def test_stopped_and_resumed(directory: Path):
    command = [sys.executable, "-c", "import cli; cli.main()", "bench", "--lengths", "4,32,128", "--runs", "50"]
    command += ["--models", "pntm", "--forms", "sequential,chunked"]
    environment = os.environ | {"PYTHONPATH": str(Path(cli.__file__).parent)}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    began = time.monotonic()
    while not Path("runs/bench.json").exists() and time.monotonic() - began < 60:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "--resume" in errors and "Traceback" not in errors, errors
    kept = json.loads(Path("runs/bench.json").read_text())["rows"]
    resumed = [*command, "--resume", "--json"]
    done = subprocess.run(resumed, env=environment, capture_output=True, text=True, timeout=LIMIT)
    rows = json.loads(done.stdout)["rows"]
    assert len(rows) == 6 > len(kept) and [r["mean"] for r in rows[: len(kept)]] == [r["mean"] for r in kept]


def row(model: str, form: str, length: int, mean: float | None) -> dict:
    return {"model": model, "form": form, "length": length, "mean": mean}


def test_speedup_and_crossover():
    rows = [row("ntm", "fused", 8, 4.0), row("ntm", "sequential", 8, 9.0), row("pntm", "fused", 8, 1.0)]
    rows += [row("pntm", "paper", 8, None), row("pntm", "fused", 16, 1.0), row("pntm", "chunked", 8, 3.0)]
    found = with_speedup(rows)
    assert [r["speedup_over_ntm"] for r in found] == [1.0, 1.0, 4.0, None, None, 3.0], "like for like"
    assert [r["ntm_form"] for r in found[2:]] == ["fused", "sequential", "fused", "sequential"]
    times = {("ntm", "sequential"): [3.0, 3.0, 3.0, 3.0], ("pntm", "paper"): [1.0, 2.0, 9.0, 9.0]}
    times |= {("pntm", "chunked"): [4.0, 1.0, 2.0, 2.0], ("pntm", "fused"): [1.0, 1.0, 1.0, 1.0]}
    rows = [row(*name, 2**k, t) for name, seconds in times.items() for k, t in enumerate(seconds)]
    assert crossovers(rows) == [
        "P-NTM, paper, is slower than NTM, sequential, from 4 time steps on",
        "P-NTM, chunked, is faster than NTM, sequential, from 2 time steps on",
    ], "the compiled form has no partner here"
    assert crossovers(rows[:1] + rows[4:5]) == ["P-NTM, paper, is faster than NTM, sequential, at every length"]
    assert crossovers(rows[:4]) == []


def test_times_for_people():
    assert [duration(s) for s in (12.34, 0.5, 0.0123, 1e-5, 2e-8)] == [
        "12.3 s",
        "500 ms",
        "12.3 ms",
        "10.0 us",
        "0.02 us",
    ]
    assert [clock_time(s) for s in (0, 61.2, 3723)] == ["0:00", "1:01", "1:02:03"]
    assert summary([3.0]) == (3.0, 0.0, 3.0, 1) and summary([1.0, 3.0]).std == pytest.approx(2**0.5)
    ahead = Ahead([("a", 10), ("a", 20), ("b", 10)], 2)
    ahead.timed("a", 10, 1.0)
    assert ahead.left(("a", 10), 1) == pytest.approx(2 * (1 + 2 + 1) - 1)
    ahead.finished("a", 10)
    ahead.skip("b")
    assert ahead.left(("a", 20), 0) == pytest.approx(4)
    impatient = Ahead([("a", 10), ("a", 20), ("a", 40)], 1, patience=1.5)
    impatient.timed("a", 10, 1.0)
    assert impatient.left(("a", 10), 0) == pytest.approx(1 + 2)  # the longest is not tried


def test_peak_memory():
    with PeakMemory() as peak:
        np.ones(50_000_000, np.uint8)
    if peak.bytes is None:
        pytest.skip("the system keeps no mark that can be set back")
    assert 45e6 < peak.bytes < 70e6


TRAIN = ["bench", "train", "--lengths", "5", "--batch", "4", "--runs", "2", "--warmup", "1", "--memory-size", "8"]


def test_training_steps():
    report = json.loads(invoke(*TRAIN, "--json", "--profile").stdout)
    assert {r["model"] for r in report["rows"]} == set(MODELS)
    for r in report["rows"]:
        assert r["batch"] == 4 and r["length"] == 5 and 0 < r["ms_best"] <= r["ms_mean"] and r["floor_ms"] > 0
        assert r["tokens_per_second"] == pytest.approx(20 / (1e-3 * r["ms_mean"]))
    assert len(report["profile"]) == 8 and all("products" in parts for parts in report["profile"].values())
    shown = invoke(*TRAIN, "--models", "pntm,lstm", "--forms", "sequential", "--profile").stdout
    assert "best / floor" in shown and "products" in shown and " cores; cpu: NumPy" in shown


def test_the_floor_counts_what_the_paper_model_multiplies():
    (config,) = train_step.TrainSettings(models=("pntm",)).contestants()
    matrices = config.architecture().parameter_count() - 5 * 104 - 5 - 8 * 104  # all but embedding, bias and norms
    assert train_step.product_flops(config, 128, 81) == 6 * 128 * 81 * matrices


def test_the_floor_counts_the_half_of_the_positions_that_attention_sees():
    (config,) = train_step.TrainSettings(models=("transformer-nope",)).contestants()
    shapes, rows, length = config.architecture().shapes(), 3, 50
    matrices = sum(s[0] * s[1] for name, s in shapes.items() if len(s) == 2 and name != "embed.weight")
    pairs = 5 * 2 * 64 * length / 2  # of a token, in five layers of width 64: q k and the weights times v
    assert train_step.product_flops(config, rows, length) == 6 * rows * length * (matrices + pairs)


def test_lengths_as_they_are_typed():
    convert = lambda text: Lengths().convert(text, None, None)  # noqa: E731
    assert convert("8:64") == convert("8:127") == (8, 16, 32, 64)
    assert convert("3:3") == (3,) and convert("9,4,9") == (4, 9)


BAD = [
    (["--lengths", "0:8"], "are not lengths"),
    (["--lengths", "8:4"], "are not lengths"),
    (["--lengths", "-4,8"], "are not lengths"),
    (["--lengths", "8,,9"], "are not lengths"),
    (["--lengths", "1:999999999"], "are not lengths"),
    (["--lengths", ""], "are not lengths"),
    (["--models", "lstm"], "lstm"),
    (["--models", ""], "model"),
    (["--forms", "fast"], "fast"),
    (["--forms", "paper", "--models", "ntm"], "none of --models has this form"),
    (["--batch", "0"], "from 1 to"),
    (["--runs", "x"], "from 1 to"),
    (["--warmup", "-1"], "from 1 to"),
    (["--patience", "0"], "from 1 to"),
    (["--threads", "0"], "from 1 to"),
    (["--backend", "tpu"], "tpu"),
    (["--plot", "x.txt"], ".png"),
    (["--plot", "no/such/x.png"], "cannot be written"),
    (["--out", "."], "cannot write a file"),
    (["trian"], "trian"),
]


@pytest.mark.parametrize(("args", "said"), BAD, ids=lambda x: " ".join(x) if isinstance(x, list) else "")
def test_bad_commands(args: list[str], said: str, directory: Path):
    done = invoke("bench", *args, code=2)
    assert said in done.stderr and not done.stdout and len(done.stderr.splitlines()) <= 3
    assert not list(directory.iterdir())
    if args[0] in ("--lengths", "--forms", "--batch", "--runs", "--threads", "--backend") and "ntm" not in args:
        assert said in invoke("bench", "train", *args, code=2).stderr


def test_a_batch_that_cannot_fit(directory: Path):
    for command in (["bench"], ["bench", "train"]):
        done = invoke(*command, "--batch", "1000000", "--lengths", "65536", code=5)
        assert "needs about" in done.stderr and "--batch" in done.stderr and not done.stdout
    assert not list(directory.iterdir())


def test_a_device_that_is_not_there():
    done = invoke("bench", "--backend", "cuda", code=5)
    assert "--backend cuda" in done.stderr


def test_where_the_profile_looks_for_the_parts_of_a_step():
    """Every file that it knows by name is there: a file that was moved would be counted as the rest."""
    places = {
        f"{path.parent.name}/{path.name}"
        for name in ("autodiff", "pntm_np")
        for path in (Path(cli.__file__).parent / name).rglob("*.py")
    }
    assert {*train_step.PARTS, *train_step.ELEMENT_BY_ELEMENT} <= places
