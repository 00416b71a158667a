"""The command itself, run as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys

from click.testing import CliRunner

import cli
from pntm_np import selftest
from tests import standin
from tests.autodiff.table import ROWS


def pntm(*args: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "cli", *args], capture_output=True, text=True)


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
    assert rows["pntm"]["forms"] == ["sequential", "paper", "chunked"] and len(rows) == 10
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
            "ntm",
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
