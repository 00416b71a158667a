"""Damaged and hostile checkpoints: refused with one message, at the cost of reading them."""

from __future__ import annotations

import json
import struct
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

import cli
import pntm_np as pn
from tests.limits import LIMIT

TRAINING = {"task": "parity-check", "symbols": "ab01", "max_length": 4, "end_token": True, "seed": 0, "step": 1}
TRAINING |= {"lengths": [1, 12], "samples": 128}


def checkpoint(path, name: str = "lstm", **sizes: int) -> bytes:
    model = pn.Model.new(name, 6, np.random.default_rng(0), **(sizes or {"width": 1}))
    model.training = TRAINING
    pn.save(path, model)
    return path.read_bytes()


def refused(path) -> None:
    done = CliRunner().invoke(cli.main, ["solve", str(path), "ab"])
    assert done.exit_code == 4, (done.exit_code, done.output)
    assert done.output.count("\n") == 1 and str(path) in done.output and len(done.output) < 600, done.output


def test_the_whole_file_is_accepted(tmp_path):
    checkpoint(tmp_path / "m")
    assert CliRunner().invoke(cli.main, ["solve", str(tmp_path / "m"), "ab"]).exit_code == 0


def test_every_truncation(tmp_path):
    content, path = checkpoint(tmp_path / "m"), tmp_path / "short"
    for length in range(len(content)):
        path.write_bytes(content[:length])
        refused(path)
    path.write_bytes(content + b"\0")
    refused(path)


def test_five_thousand_flipped_bits(tmp_path, rng):
    content, path = checkpoint(tmp_path / "m", "pntm", width=6, heads=2, cell=4), tmp_path / "flipped"
    header = 8 + struct.unpack("<Q", content[:8])[0]
    bits = np.concatenate([np.arange(64), rng.choice(header * 8, 2500, replace=False)])
    bits = np.union1d(bits, rng.choice(len(content) * 8, 2600, replace=False))
    assert len(bits) >= 5000
    for bit in bits:
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << (bit % 8)
        path.write_bytes(flipped)
        refused(path)


def with_header(header: object, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(shape, offsets, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


META = {"__metadata__": {"format": "pt", "pntm": "machine-2", "config": "{}", "sha256": "{}", "seal": "0"}}
HOSTILE = {
    "a length beyond the file": with_header({}, length=10**6),
    "a length beyond memory": with_header({}, length=2**63),
    "the largest length": with_header({}, length=2**64 - 1),
    "overlapping offsets": with_header({"a": entry([2], [0, 8]), "b": entry([2], [4, 12])}, bytes(12)),
    "a hole": with_header({"a": entry([1], [0, 4]), "b": entry([1], [8, 12])}, bytes(12)),
    "offsets beyond the file": with_header({"a": entry([2**28], [0, 2**30])}, bytes(12)),
    "a huge shape": with_header({"a": entry([2**40, 2**20], [0, 4])}, bytes(4)),
    "a shape that overflows": with_header({"a": entry([2**62, 4], [0, 0])}),
    "a negative shape": with_header({"a": entry([-1], [0, 4])}, bytes(4)),
    "an empty huge shape": with_header({"a": entry([0, 2**62], [0, 0])}),
    "reversed offsets": with_header({"a": entry([1], [4, 0])}, bytes(4)),
    "an unknown dtype": with_header({"a": entry([1], [0, 4], "X")}, bytes(4)),
    "deep nesting": with_header(b"[" * 200_000),
    "deep nesting in an object": with_header(b'{"a":' * 100_000),
    "deep nesting in the configuration": with_header(
        {"__metadata__": META["__metadata__"] | {"config": "[" * 10**6}, "a": entry([1], [0, 4])}, bytes(4)
    ),
    "a million names": with_header({str(k): entry([0], [0, 0]) for k in range(50_000)}),
    "no object": with_header([1, 2]),
    "not UTF-8": with_header(b"\xff\xfe{}"),
    "a double key": with_header(b'{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"a":1}'),
    "an empty file": b"",
    "zeros": bytes(100),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_headers(name: str, tmp_path):
    (tmp_path / "bad").write_bytes(HOSTILE[name])
    refused(tmp_path / "bad")


PROBE = """
import sys
import pntm_np as pn

def peak():
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))

try:
    pn.load(sys.argv[1])
except pn.CheckpointError:
    pass
for path in sys.argv[2:]:
    before = peak()
    try:
        pn.load(path)
    except pn.CheckpointError:
        pass
    print(peak() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_hostile_headers_cost_no_more_memory_than_the_file(tmp_path):
    paths = []
    for k, content in enumerate(HOSTILE.values()):
        paths.append(tmp_path / str(k))
        paths[-1].write_bytes(content)
    checkpoint(tmp_path / "good")
    command = [sys.executable, "-c", PROBE, tmp_path / "good", *paths]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    for (name, content), grown in zip(HOSTILE.items(), map(int, done.stdout.split()), strict=True):
        # a parsed header takes some times its text; pages come in lots
        assert grown <= 20 * len(content) + 2**21, (name, grown, len(content))
