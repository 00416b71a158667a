"""The command itself, run as a user runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import click
import pytest
from click.testing import CliRunner

import cli
import pntm_np as pn
from pntm_np.commands.rare_options import RARE, Rare
from pntm_np.experiments import selftest
from pntm_np.training import Config
from tasks import TASKS
from tests import standin
from tests.autodiff.table import ROWS
from tests.limits import LIMIT
from tests.pntm_np.training.small import command as small_command
from tests.pntm_np.training.small import pntm_train


def pntm(*args: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "cli", *args], capture_output=True, text=True, timeout=LIMIT)


def test_info_as_json_is_one_document():
    done = pntm("info", "--json")
    assert done.returncode == 0 and done.stderr == ""
    report = json.loads(done.stdout)
    assert report["backends"]["cpu"] == "available" and {"pntm", "numpy", "scipy"} <= set(report["versions"])


def test_info_says_why_a_device_is_not_there():
    done = pntm("info")
    assert done.returncode == 0 and "cuda" in done.stdout and "Traceback" not in done.stderr


def test_an_unknown_command_is_a_usage_error():
    done = pntm("fly")
    assert done.returncode == 2 and "No such command 'fly'" in done.stderr and done.stdout == ""


def test_models():
    done = pntm("models", "--json")
    assert done.returncode == 0 and done.stderr == ""
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert rows["pntm"]["parameters"] == 260_198 and rows["bench-ntm"]["parameters"] == 168_140
    assert rows["pntm"]["config"] == {"width": 104, "depth": 2, "expansion": 2, "heads": 4, "cell": 32}
    assert rows["pntm"]["forms"] == ["sequential", "paper", "chunked", "fused"] and len(rows) == 10
    # two addresses of 4 heads and a memory, of 96 cells each, and minGRU's 208
    assert rows["pntm"]["state"] == 2 * 4 * 96 + 96 * 32 + 208
    assert rows["transformer-rope"]["state_per_token"] == 5 * 2 * 64
    shown = pntm("models").stdout
    assert all(name in shown for name in rows) and "260,198" in shown
    assert max(len(line.rstrip()) for line in shown.splitlines()) <= 80


def test_selftest_passes_on_the_cpu_and_on_the_stand_in():
    for device in ("cpu", standin.DEVICE.name):
        done = CliRunner().invoke(cli.main, ["selftest", "--backend", device, "--json"])
        assert done.exit_code == 0, done.output
        report = json.loads(done.output)
        assert report["ok"] and report["backend"] == device and device in report["device"]
        names = {row["name"] for row in report["rows"]}
        assert {row.name for row in ROWS} <= names, "an op is not tested"
        assert {
            "memory chunked",
            "conv_shift paper",
            "gated sequential",
            "pntm paper",
            "ntm sequential",
            "transformer-fire",
        } <= names
        assert all(row["float64"] <= 1e-12 for row in report["rows"])


def test_selftest_finds_a_device_that_is_wrong(monkeypatch):
    right = selftest.outcome

    def wrong(case, device, dtype):
        found = right(case, device, dtype)
        return [x * 1.01 for x in found] if device == "standin" and case.name == "tanh" else found

    monkeypatch.setattr(selftest, "outcome", wrong)
    done = CliRunner().invoke(cli.main, ["selftest", "--backend", "standin"])
    assert done.exit_code == 1 and "OUT OF BOUNDS" in done.output and "75 of 76" in done.output


def test_selftest_reports_nan_and_what_the_device_refuses(monkeypatch):
    right = selftest.outcome

    def wrong(case, device, dtype):
        found = right(case, device, dtype)
        if device == "standin" and case.name == "exp":
            raise NotImplementedError("not on this device")
        if device == "standin" and case.name == "tanh":
            found[-1] = found[-1] * float("nan")  # a gradient, behind a right value
        if device == "standin" and case.name == "sum":
            found[0] = found[0][:1]
        return found

    monkeypatch.setattr(selftest, "outcome", wrong)
    done = CliRunner().invoke(cli.main, ["selftest", "--backend", "standin", "--json"])
    report = json.loads(done.output, parse_constant=lambda c: 1 / 0)  # no Infinity or NaN in JSON
    broken = {row["name"]: row for row in report["rows"] if not row["ok"]}
    assert done.exit_code == 1 and set(broken) == {"exp", "tanh", "sum"}
    assert broken["exp"]["error"] == "NotImplementedError: not on this device" and broken["tanh"]["float64"] is None
    assert {"python", "numpy", "scipy"} <= set(report["versions"])


def test_selftest_on_what_is_not_there():
    done = pntm("selftest", "--backend", "cuda")
    assert done.returncode == 5 and "--backend cuda" in done.stderr and done.stdout == ""
    done = pntm("selftest", "--backend", "tpu")
    assert done.returncode == 2 and "'tpu'" in done.stderr and "cpu, cuda" in done.stderr


@pytest.mark.parametrize("command", [[], *([name] for name in cli.main.commands)], ids=" ".join)
def test_help_fits_80_columns_and_tells_something(command: list[str]):
    done = CliRunner().invoke(cli.main, [*command, "--help"], terminal_width=80)
    assert done.exit_code == 0 and max(map(len, done.output.splitlines())) <= 80
    assert done.output.startswith(f"Usage: {' '.join(['main', *command])}") and len(done.output.splitlines()) >= 6
    for option in cli.main.commands[command[0]].params if command else []:
        assert isinstance(option, click.Argument) or option.help, f"{option.name} has no help"


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """A run of a second."""
    out = tmp_path_factory.mktemp("runs") / "run"
    assert pntm_train(out).returncode == 0
    return out


def test_solve_as_json_and_from_stdin(machine):
    done = pntm("solve", str(machine), "aab", "b", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [row["text"] for row in rows] == ["aab", "b"] and [row["expected"] for row in rows] == ["011", "1"]
    assert all(isinstance(row["right"], bool) and isinstance(row["ended"], bool) for row in rows)
    done = subprocess.run(
        [sys.executable, "-m", "cli", "solve", str(machine)], input=b"aab\r\nb\n\n", capture_output=True, timeout=LIMIT
    )
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 2
    for bad in (b"a\xff\n", "aé\n".encode("latin-1")):
        command = [sys.executable, "-m", "cli", "solve", str(machine)]
        done = subprocess.run(command, input=bad, capture_output=True, timeout=LIMIT)
        assert done.returncode == 2 and b"Traceback" not in done.stderr and b"at position 2" in done.stderr


def test_eval_as_json_and_as_a_picture(machine, tmp_path):
    done = pntm("eval", str(machine), "--lengths", "1:9", "--samples", "3", "--plot", str(tmp_path / "p.png"), "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout, parse_constant=lambda c: 1 / 0)
    keys = {"task", "model", "exact_match", "token_accuracy", "chance", "tau", "memory_size", "seed", "by_length"}
    own = pn.load(machine / "model.safetensors").thresholds
    assert keys <= set(report) and (report["tau"], report["gate_tau"]) == own and report["memory_size"] == 256
    assert [set(row) >= {"length", "samples", "exact_match", "token_accuracy"} for row in report["by_length"]] == [
        True
    ] * 9
    assert report["score_lengths"] == [5, 9] and (tmp_path / "p.png").stat().st_size > 1000
    shown = pntm("eval", str(machine), "--lengths", "1:9", "--samples", "3", "--tau", "auto")
    assert (
        shown.returncode == 0 and "score: exact match" in shown.stdout and "chosen on lengths up to 4" in shown.stderr
    )
    assert pntm("eval", str(machine / "model.safetensors"), "--lengths", "2", "--samples", "1").returncode == 0
    done = pntm("eval", str(machine), "--lengths", "3:7", "--samples", "2", "--memory-size", "ample", "--json")
    assert json.loads(done.stdout)["memory_size"] == 2 * (7 + 1 + 7) + 1
    done = pntm("eval", str(machine), "--lengths", "3", "--samples", "1", "--tau", "0.01", "--gate-tau", "0", "--json")
    assert (json.loads(done.stdout)["tau"], json.loads(done.stdout)["gate_tau"]) == (0.01, 0), "the paper's way"


@pytest.mark.parametrize("closed", ("<&-", ">&-", "2>&-", "2>/dev/full", ">/dev/full", "| true", "2>&1 | true"))
def test_streams_that_lead_nowhere(closed: str, machine, tmp_path):
    """No traceback; and as long as stdout is there, the work is done."""
    errors = tmp_path / "errors"
    for k, args in enumerate(
        ("tasks parity --count 20000", f"eval {machine} --lengths 1:3 --samples 2", f"solve {machine} ab")
    ):
        redirect = "" if "2>" in closed else f"2>{errors}"
        line = ["bash", "-c", f"{sys.executable} -m cli {args} {redirect} {closed}"]
        done = subprocess.run(line, capture_output=True, text=True, timeout=LIMIT)
        seen = done.stderr + (errors.read_text() if errors.exists() else "")
        assert "Traceback" not in seen, (k, seen)
        if ">&-" not in closed and "|" not in closed and closed != ">/dev/full":
            assert done.returncode == 0 and done.stdout, (k, seen)
    out = tmp_path / "run"
    command = " ".join(map(str, ["exec", *small_command(out)]))
    done = subprocess.run(["bash", "-c", f"{command} {closed}"], capture_output=True, text=True, timeout=LIMIT)
    assert (out / "result.json").exists(), "a run goes on, whoever reads"


def test_ctrl_c_ends_an_evaluation_at_once(machine):
    args = [
        sys.executable,
        "-m",
        "cli",
        "eval",
        str(machine),
        "--lengths",
        "3000",
        "--samples",
        "256",
        "--threads",
        "2",
    ]
    process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(3)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130 and time.monotonic() - began < 5 and "Traceback" not in errors


def test_ctrl_c_before_anything_is_loaded():
    for wait in (0.05, 0.15, 0.3):
        process = subprocess.Popen(
            [sys.executable, "-m", "cli", "tasks"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        time.sleep(wait)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        if "cli.py" in errors or process.returncode not in (0, 130, -signal.SIGINT):
            # before cli.py is reached the interpreter itself may complain; after that nothing does
            assert "cli.py" not in errors, errors


def test_info_tells_threads_and_blas():
    report = json.loads(pntm("info", "--json").stdout)
    assert report["cores"] >= 1 and report["blas"] and report["free_memory"] > 0


def test_the_help_of_train_fits_two_screens():
    """Options in groups, and those that are seldom needed in a listing of their own."""
    help_page = [sys.executable, "-m", "cli", "train", "--help"]
    done = subprocess.run(help_page, capture_output=True, text=True, env=os.environ | {"COLUMNS": "80"}, timeout=LIMIT)
    lines = done.stdout.splitlines()
    assert len(lines) <= 60 and max(map(len, lines)) <= 80
    headings = [line for line in lines if line and not line.startswith(" ")][1:]
    assert headings == [
        "Basics:",
        "Optimisation:",
        "Sharpening:",
        "Evaluation at the end:",
        "Running:",
        "Other:",
    ]
    assert not any(f"--{name}" in done.stdout for name in RARE)


@pytest.mark.parametrize("model", ["pntm", "ntm"])
def test_the_listing_of_rare_options_can_be_typed(model):
    """With the values of the preset; what it lists is what --option takes, and changes nothing."""
    listed = pntm("train", "--list-options", "--model", model).stdout
    found = {line.split()[0] for line in listed.splitlines()[1:] if "=" in line.split()[0]}
    assert {pair.partition("=")[0] for pair in found} == RARE.keys()
    options = dict(Rare().convert(pair, None, None) for pair in found if not pair.endswith("=-"))
    task = TASKS["parity-check"]
    assert Config.of(task, "recipe", model=model, **options) == Config.of(task, "recipe", model=model)
