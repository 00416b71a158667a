"""Bad command lines: no traceback, the right exit code, at most three lines, nothing written, within a second."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from click.testing import CliRunner, Result

import cli
import pntm_np as pn
from tests.pntm_np.runtime.test_damage import TRAINING

BAD_COUNTS = ("0", "-1", "-5", "1.5", "x", "", "1e3", "99999999999999999999", "nan", "٣x")
BAD_RANGES = ("", ":", "5:1", "0:3", "-1:3", "a:b", "1:2:3", "1-3", "1,2", "3:", ":3", "1.5:2", "9999999999:9999999999")
BAD_NUMBERS = ("x", "", "nan", "inf", "-inf", "-1", "0x10")
BAD_TASKS = ("", "prity", "reverse-strings", "d2", "none.py:X", "none.py:", "a b", "--", "../x", "x" * 500, "\x1b[31m")
BAD_MODELS = ("", "pntn", "gpt", "transformer", "lstm2", "transformer-", "x" * 500)


def train(flag: str, values: tuple[str, ...], name: str | None = None) -> list[tuple[list[str], int, str]]:
    return [(["train", "parity", flag, value], 2, name or flag) for value in values]


def rare(name: str, values: tuple[str, ...]) -> list[tuple[list[str], int, str]]:
    return [(["train", "parity", "--option", f"{name}={value}"], 2, name) for value in values]


CASES: list[tuple[list[str], int, str]] = [
    *[c for f in ("--steps", "--batch-size", "--max-length", "--memory-size", "--checkpoint-every", "--eval-every", "--samples") for c in train(f, BAD_COUNTS)],
    *train("--seed", ("-1", "x", "", "1.5", "9223372036854775808", "1e3")),
    *train("--threads", BAD_COUNTS),
    *train("--lr", (*BAD_NUMBERS, "0", "11", "1e-400")),
    *rare("clip", (*BAD_NUMBERS, "1001")),
    *rare("warm-up", (*BAD_NUMBERS, "1.5", "1000000001")),
    *rare("restart-after", (*BAD_NUMBERS, "1.5", "1000000001")),
    *rare("cool-down", (*BAD_NUMBERS, "1.5", "20001", "1000000001")),
    *train("--noise", (*BAD_NUMBERS, "101")),
    *rare("start", ("", "flaxen", "normal")),
    *rare("head-gain", (*BAD_NUMBERS, "0", "101")),
    (["train", "parity", "--model", "ntm", "--option", "head-gain=4"], 2, "--option head-gain=4: expected 1: ntm has no heads"),
    *train("--memory-size", ("256:96", "0:5", "5:", ":5", "5:x", "1:2:3", "1:99999999999")),
    *rare("learnt-memory-size", (*BAD_COUNTS, "256:96", "5:")),
    (["train", "parity", "--model", "lstm", "--memory-size", "64:96"], 2, "--memory-size 64:96: expected none: lstm has no memory"),
    (["train", "parity", "--model", "mingru", "--option", "learnt-memory-size=96"], 2, "mingru has no memory"),
    *train("--option", ("", "=", "cool-down", "cool-down:5", "cooldown=5", "steps=5", "=5", "x" * 500, "\x1b[31m=1")),
    *train("--lengths", BAD_RANGES),
    *train("--model", BAD_MODELS),
    *train("--form", ("", "fast", "x", "parallel", "seq uential")),
    *train("--preset", ("", "slow", "x")),
    *train("--size", ("", "width", "width=", "width=x", "=3", "width=0", "width=-1", "wings=2", "heads=3", "width=99999999", "cell=1.5")),
    *train("--backend", ("", "tpu", "gpu", "CUDA", "cpu ")),
    (["train", "parity", "--backend", "cuda"], 5, "--backend cuda"),
    *[(["train", task], 2, "TASK") for task in BAD_TASKS],
    (["train"], 2, "TASK is missing"),
    (["train", "--resume"], 2, "TASK is missing"),
    (["train", "--resume", "--out", "nowhere"], 2, "no run to resume"),
    (["train", "parity", "reverse"], 2, "unexpected extra argument"),
    (["train", "parity", "--out", "file"], 2, "is not a directory"),
    (["train", "parity", "--out", "file/deeper"], 2, "is not a directory"),
    *train("--out", ("", "\0", "a\0b")),
    (["train", "parity", "--out", "old"], 2, "has a run already"),
    (["train", "parity", "--nonsense"], 2, "--nonsense"),
    (["train", "parity", "--step"], 2, "--step"),
    (["train", "parity", "--steps"], 2, "--steps"),
    (["train", "parity", "--model", "lstm", "--noise", "0.1"], 2, "lstm takes none"),
    (["train", "parity", "--option", "blur=0.1"], 2, "--option blur=0.1: expected 0: pntm could not undo it"),
    (["train", "parity", "--model", "ntm", "--option", "blur=0.5"], 2, "--option blur=0.5: expected a number from 0 to 0.4"),
    (["train", "parity", "--model", "lstm", "--tau", "0.7"], 2, "lstm has no shifts to cut off"),
    (["train", "parity", "--model", "ntm", "--tau", "auto"], 2, "ntm has no shifts to cut off"),
    *train("--tau", (*BAD_NUMBERS, "1.1", "often")),
    (["solve", "mine", "ab", "--answer-length", "3"], 2, "this model ends its answers itself"),
    (["solve", "open", "ab", "--answer-length", "3"], 2, "the rule of parity-check gives the length of an answer"),
    (["solve", "open-mine", "ab"], 2, "or give the length of an answer: --answer-length N"),
    *[(["solve", "open-mine", "ab", "--answer-length", v], 2, "--answer-length") for v in BAD_COUNTS],
    *[([c, "old-version", *(["ab"] if c == "solve" else [])], 4, "pntm 0.1 made it (format pntm-1), which this version does not read") for c in ("eval", "solve")],
    (["trace", "open-mine", "ab", "-o", "t.html"], 2, "--task path/to/file.py:Name"),
    (["train", "parity", "--batch-size", "1000000", "--max-length", "100000"], 5, "lower --batch-size"),
    *[(["train", task, "--lengths", "1000000"], 5, "lower --lengths") for task in ("parity", "modular", "binary")],
    (["train", "parity", "--model", "transformer-nope", "--max-length", "100000"], 5, "lower --batch-size"),
    *[([c, "good", "--lengths", r], 2, "--lengths") for c, r in itertools.product(("eval",), BAD_RANGES)],
    *[(["eval", "good", f, v], 2, f) for f, v in itertools.product(("--samples", "--memory-size", "--threads"), BAD_COUNTS)],
    *[([c, "good", f, v], 2, f) for c, f, v in itertools.product(("eval", "solve"), ("--tau", "--gate-tau"), (*BAD_NUMBERS, "1.01", "automatic"))],
    *[(["eval", "good", "--seed", v], 2, "--seed") for v in ("-1", "x", "", "9223372036854775808")],
    *[(["eval", "good", "--plot", v], 2, "--plot") for v in ("", "x", "x.gif", "x.png/", "no/such/dir.png", ".png")],
    *[([c, "good", "--backend", v], 2, "--backend") for c, v in itertools.product(("eval", "solve"), ("tpu", ""))],
    *[([c, "good", "--backend", "cuda"], 5, "--backend cuda") for c in ("eval", "solve")],
    *[([c, p], 2, "RUN_OR_FILE") for c, p in itertools.product(("eval", "solve"), ("nowhere", "", "good/x", "\0"))],
    *[([c], 2, "RUN_OR_FILE") for c in ("eval", "solve")],
    *[([c, p, "ab"][: 3 if c == "solve" else 2], 4, "") for c, p in itertools.product(("eval", "solve"), ("file", "text", "cut", "untrained", "other-version", "."))],
    *[([c, "good", "--task", "reverse"] + ["ab"] * (c == "solve"), 4, "not on 'reverse-string'") for c in ("eval", "solve")],
    *[([c, "good", "--task", t], 2, "--task") for c, t in itertools.product(("eval", "solve"), BAD_TASKS[:5])],
    (["eval", "mine"], 2, "--task path/to/file.py:Name"),
    (["eval", "good", "extra"], 2, "unexpected extra argument"),
    (["eval", "heads", "--lengths", "1000000", "--memory-size", "10000000"], 5, "lower --lengths"),
    (["eval", "heads", "--lengths", "1000000", "--memory-size", "ample"], 5, "lower --lengths"),
    (["eval", "heads", "--memory-size", "amp"], 2, "or ample"),
    *[(["solve", "good", text], 2, "parity-check") for text in ("", "x", "ab|", "$", "a b", "AB", "01", "ab\n", "é", "\x1b[2J")],
    (["solve", "good", "ab", "x"], 2, "'x' at position 1"),
    (["solve", "good"], 2, "no text"),
    *[(["trace", "heads", text, "-o", "t.html"], 2, "parity-check") for text in ("", "x", "ab|", "$", "AB", "é")],
    *[(["trace", "heads", "ab", "-o", v], 2, "--out") for v in ("", "t", "t.gif", "t.html/", "no/such/dir.html", ".html", "t.jsonl")],
    *[(["trace", "heads", "ab", "-o", "t.html", f, v], 2, f) for f, v in itertools.product(("--tau", "--gate-tau", "--compare-tau", "--compare-gate-tau"), BAD_NUMBERS)],
    *[(["trace", "heads", "ab", "-o", "t.html", "--memory-size", v], 2, "--memory-size") for v in BAD_COUNTS],
    (["trace", "heads", "abababab", "-o", "t.html", "--memory-size", "7"], 2, "--memory-size 256 is enough"),
    (["trace", "heads", "ab"], 2, "-o FILE"),
    (["trace", "heads"], 2, "TEXT"),
    (["trace", "heads", "ab", "-o", "t.png", "--compare-tau", "0.1"], 2, "-o FILE.html"),
    (["trace", "heads", "ab", "-o", "t.html", "--compare", "nowhere"], 2, "--compare"),
    (["trace", "heads", "ab", "-o", "t.html", "--compare", "reverse"], 2, "trained on different tasks"),
    (["trace", "heads", "ab", "-o", "t.html", "--memory-size", "10000000"], 5, "--memory-size"),
    (["trace", "good", "ab", "-o", "t.html", "--compare-tau", "0.1"], 2, "lstm has no shifts or gates"),
    (["trace", "broken", "ab", "-o", "t.html", "-o", "t.json"], 4, "not finite"),
    *[(["trace", p, "ab", "-o", "t.html"], 4, "") for p in ("file", "text", "cut", "untrained", "other-version", ".")],
    (["trace", "mine", "ab", "-o", "t.html", "--tau", "auto"], 2, "--task path/to/file.py:Name"),
    (["trace", "heads", "ab", "-o", "t.html", "--backend", "cuda"], 5, "--backend cuda"),
    *[(["tasks", task], 2, "TASK") for task in BAD_TASKS if task != "--"],
    *[(["tasks", "parity", f, v], 2, f) for f, v in itertools.product(("--length", "--count"), BAD_COUNTS)],
    (["tasks", "parity", "--seed", "-1"], 2, "--seed"),
    (["tasks", "parity", "more"], 2, "unexpected extra argument"),
    *[(["selftest", "--backend", v], 2, "--backend") for v in ("tpu", "")],
    *[([c, "extra"], 2, "unexpected extra argument") for c in ("info", "models", "selftest")],
    *[([c, "--nonsense"], 2, "--nonsense") for c in ("info", "models", "selftest", "tasks", "eval", "solve")],
    *[([c], 2, "No such command") for c in ("trian", "evaluate", "", "-", "TRAIN")],
    (["--nonsense"], 2, "--nonsense"),
]  # fmt: skip


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    """A place with files of all kinds."""
    place = tmp_path_factory.mktemp("place")
    model = pn.Model.new("lstm", 6, np.random.default_rng(0), width=1)
    pn.save(place / "untrained", model)
    model.training = TRAINING
    pn.save(place / "good", model)
    content = (place / "good").read_bytes()
    (place / "cut").write_bytes(content[:-1])
    (place / "other-version").write_bytes(content.replace(b"machine-2", b"machine-9"))
    old = {k: v for k, v in metadata(place / "good").items() if k != "pntm"} | {"format": "pntm-1"}
    (place / "old-version").write_bytes(safetensors.numpy.save(model.params, old))
    model.training = TRAINING | {"task": "mine"}
    pn.save(place / "mine", model)
    model = pn.Model.new("lstm", 5, np.random.default_rng(0), width=1)
    model.training = TRAINING | {"end_token": False}
    pn.save(place / "open", model)
    model.training = TRAINING | {"task": "mine", "end_token": False}
    pn.save(place / "open-mine", model)
    model = pn.Model.new("pntm", 6, np.random.default_rng(0), width=4, heads=2, cell=4)
    model.training = TRAINING
    pn.save(place / "heads", model)
    model = pn.Model.new("pntm", 4, np.random.default_rng(0), width=4, heads=2, cell=4)
    model.training = TRAINING | {"task": "reverse-string", "symbols": "ab"}
    pn.save(place / "reverse", model)
    model = pn.Model.new("lstm", 6, np.random.default_rng(0), width=1)
    model.params["decoder.bias"][:] = np.nan
    model.training = TRAINING
    pn.save(place / "broken", model)
    (place / "file").write_bytes(b"")
    (place / "text").write_text("hello")
    (place / "old").mkdir()
    (place / "old" / "config.json").write_text("{}")
    return place


def metadata(path: Path) -> dict[str, str]:
    with safetensors.safe_open(path, framework="numpy") as file:
        return file.metadata()


def run(directory: Path, args: list[str], monkeypatch) -> tuple[Result, float]:
    monkeypatch.chdir(directory)
    before = listing(directory)
    start = time.perf_counter()
    done = CliRunner().invoke(cli.main, args, input="")
    seconds = time.perf_counter() - start
    assert listing(directory) == before, f"{args} wrote something"
    return done, seconds


def listing(directory: Path) -> list[tuple[str, int, int]]:
    found = [Path(root) / f for root, folders, files in os.walk(directory) for f in folders + files]
    return sorted((str(p), p.stat().st_size, p.stat().st_mtime_ns) for p in found)


def check(args: list[str], done: Result, seconds: float) -> None:
    assert isinstance(done.exception, SystemExit), f"{args}: {done.exception!r}"
    assert done.stdout == "" and done.stderr.strip(), args
    assert len(done.stderr.strip().splitlines()) <= 3 and len(done.stderr) < 1500, done.stderr
    assert "Traceback" not in done.stderr and "\x1b" not in done.stderr, done.stderr
    assert seconds < 1, (args, seconds)


def test_there_are_enough_cases():
    assert len({tuple(args) for args, _, _ in CASES}) >= 300


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(case[0])[:60].encode("unicode_escape").decode())
def test_bad_command(case, directory: Path, monkeypatch):
    args, code, words = case
    done, seconds = run(directory, args, monkeypatch)
    check(args, done, seconds)
    assert done.exit_code == code and words in done.stderr, (args, done.exit_code, done.stderr)


# values that are wrong for every option they are given to
JUNK = (
    "",
    "x",
    "-1",
    "--",
    "nan",
    "1:",
    "é",
    "\x00",
    "0x1",
    "1 2",
    "None",
    "9" * 40,
    "[]",
    "{}",
    "*",
    "%s",
    "$HOME",
    "\n",
    "a" * 300,
)
OPTIONS = {
    "train": ("--steps", "--batch-size", "--max-length", "--memory-size", "--seed", "--threads", "--lr", "--noise", "--lengths", "--model",
              "--form", "--preset", "--size", "--backend", "--checkpoint-every", "--eval-every", "--samples"),
    "eval": ("--samples", "--memory-size", "--threads", "--tau", "--gate-tau", "--seed", "--lengths", "--backend", "--task"),
    "solve": ("--memory-size", "--tau", "--gate-tau", "--backend", "--task", "--answer-length"),
    "tasks": ("--length", "--count", "--seed"),
    "trace": ("--memory-size", "--tau", "--gate-tau", "--backend", "--task", "--out", "--compare", "--compare-tau"),
}  # fmt: skip
FIRST = {"train": "parity", "eval": "good", "solve": "good", "tasks": "parity", "trace": "heads"}


def test_five_thousand_generated_commands(directory: Path, monkeypatch):
    """Good and bad parts mixed at random, at least one of them bad: never a traceback, never anything written."""
    rng, slowest = np.random.default_rng(11), 0.0
    for _ in range(5000):
        command = str(rng.choice(list(OPTIONS)))
        args = [command, FIRST[command]]
        for _ in range(int(rng.integers(1, 4))):
            args += [str(rng.choice(OPTIONS[command])), JUNK[rng.integers(len(JUNK))]]
        if rng.random() < 0.3:
            args = [args[0], *[str(a) for a in rng.permutation(np.array(args[1:], object))]]
        if rng.random() < 0.2:
            args[1] = JUNK[rng.integers(len(JUNK))]
        if rng.random() < 0.2:
            args.append(JUNK[rng.integers(len(JUNK))])
        done, seconds = run(directory, args, monkeypatch)
        check(args, done, seconds)
        assert done.exit_code in (2, 4, 5), (args, done.exit_code, done.stderr)
        slowest = max(slowest, seconds)
