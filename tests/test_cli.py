"""The command itself, run as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys


def pntm(*args: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "cli", *args], capture_output=True, text=True)


def test_info_as_json_is_one_document():
    done = pntm("info", "--json")
    assert done.returncode == 0 and done.stderr == ""
    report = json.loads(done.stdout)
    assert report["backends"]["cpu"] == "available" and set(report["versions"]) == {"pntm", "numpy", "scipy"}


def test_info_says_why_a_device_is_not_there():
    done = pntm("info")
    assert done.returncode == 0 and "cuda" in done.stdout and "Traceback" not in done.stderr


def test_an_unknown_command_is_a_usage_error():
    done = pntm("fly")
    assert done.returncode == 2 and "No such command 'fly'" in done.stderr and done.stdout == ""
