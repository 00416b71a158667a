"""Checkpoints: same bits back, readable by anyone, and nothing believed that does not fit."""

from __future__ import annotations

import hashlib
import json
import os

import numpy as np
import pytest
import safetensors
import safetensors.numpy

import pntm_np as pn
from pntm_np.runtime import sealed
from pntm_np.runtime.files import write_atomically
from pntm_np.training.config import Config
from tasks import TASKS

SIZES = {"width": 12, "heads": 2, "cell": 6}


def small(name: str = "pntm", **sizes: int) -> pn.Model:
    return pn.Model.new(name, 6, np.random.default_rng(0), **(sizes or (SIZES if name == "pntm" else {})))


@pytest.mark.parametrize("name", pn.MODELS)
def test_save_load_same_bits(name: str, tmp_path):
    model = small(name)
    pn.save(tmp_path / "model.safetensors", model)
    loaded = pn.load(tmp_path / "model.safetensors")
    assert (loaded.name, loaded.vocabulary, loaded.sizes) == (model.name, 6, model.sizes)
    assert list(loaded.params) == list(model.params)
    assert all(loaded.params[k].tobytes() == v.tobytes() for k, v in model.params.items())
    tokens = np.array([[0, 1, 2, 5]])
    assert loaded.forward(tokens).tobytes() == model.forward(tokens).tobytes()
    state = loaded.initial_state(1, memory_size=9)
    state, logits = loaded.step(state, tokens[:, 0])
    assert logits.shape == (1, 6) and logits.dtype == np.float32


def test_any_layout_survives_and_the_library_alone_reads_it(tmp_path):
    model = small()
    plain = {k: v.copy() for k, v in model.params.items()}
    for k, v in model.params.items():
        if v.ndim == 2:
            model.params[k] = np.asfortranarray(v)
        elif v.ndim == 1:
            model.params[k] = np.repeat(v, 2)[::2]
        else:
            model.params[k] = np.ascontiguousarray(v[..., ::-1])[..., ::-1]
    pn.save(tmp_path / "m.safetensors", model)
    arrays = safetensors.numpy.load_file(tmp_path / "m.safetensors")
    assert set(arrays) == set(plain)
    for k, v in arrays.items():
        assert v.dtype == np.float32 and v.flags.c_contiguous and np.array_equal(v, plain[k]), k
    assert arrays["blocks.1.mixer.W_r"].shape == (2, 3, 12) and arrays["blocks.0.mixer.W_z"].shape == (24, 12)


@pytest.mark.parametrize("text", ["", "a", "ab", "abc", "abcd", "abcde", "abcdef", "abcdefg"])
def test_arrays_begin_at_a_multiple_of_eight_bytes(text: str):
    packed = sealed.pack({"x": np.arange(3)}, "kind", {"text": text})
    header = int.from_bytes(packed[:8], "little")
    assert header % 8 == 0 and packed[8 + header :] == np.arange(3, dtype=np.float32).tobytes()
    assert packed[8 : 8 + header].rstrip(b" ").endswith(b"}")


def test_the_bytes_of_a_file_are_those_of_its_version():
    """Whoever changes them gives the kind another number, and says so to the readers of older files."""
    packed = sealed.pack({"b": np.arange(3), "a": np.ones((2, 1))}, "kind-1", {"y": 2, "x": [1.5, None]})
    assert len(packed) == 476 and hashlib.sha256(packed).hexdigest()[:16] == "164d255f77afdd12"


def test_one_flipped_bit_in_a_number_is_noticed(tmp_path):
    path = tmp_path / "m.safetensors"
    pn.save(path, small())
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(pn.CheckpointError, match="is damaged: its SHA-256 differs"):
        pn.load(path)


def test_names_that_do_not_fit_are_told_up_to_the_third():
    expected = {name: (1,) for name in "abcd"}
    with pytest.raises(pn.CheckpointError, match=r"configuration: missing a, b, c; unknown x, y$"):
        sealed.check_shapes(expected, {name: (1,) for name in "xy"})


@pytest.mark.parametrize("size", [60, 61])
def test_a_name_from_a_file_is_shown_up_to_its_sixtieth_character(size: int):
    assert sealed.short("a" * size) == ("a" * 60 if size == 60 else "'" + "a" * 59)


def test_the_order_of_keys_does_not_matter(tmp_path):
    sizes = {"width": 12, "heads": 2, "cell": 8}
    for name, order in (("a", list(sizes)), ("b", list(sizes)[::-1])):
        model = pn.Model.new("pntm", 6, np.random.default_rng(0), **{key: sizes[key] for key in order})
        pn.save(tmp_path / name, model)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    configs = [
        Config.of(TASKS["parity-check"], "paper", sizes={k: sizes[k] for k in o}) for o in (sizes, [*sizes][::-1])
    ]
    assert json.dumps(configs[0].as_json()) == json.dumps(configs[1].as_json())
    assert list(configs[0].sizes) == sorted(sizes)


def test_the_metadata_say_what_it_is_to_others_and_to_us(tmp_path):
    """transformers and others refuse a file whose format they do not know."""
    pn.save(tmp_path / "m.safetensors", small())
    with safetensors.safe_open(tmp_path / "m.safetensors", framework="numpy") as file:
        metadata = file.metadata()
    assert metadata["format"] == "pt" and metadata["pntm"] == "machine-2"


def test_a_machine_keeps_its_thresholds_and_runs_with_them(tmp_path):
    model, tokens = small(), np.array([[0, 1, 2, 5, 3]])
    plain = model.forward(tokens)
    model.thresholds = pn.Thresholds(0.4, 0.3)
    pn.save(tmp_path / "m", model)
    loaded = pn.load(tmp_path / "m")
    assert loaded.thresholds == (0.4, 0.3) and loaded.options == pn.Options(tau=0.4, gate_tau=0.3)
    own = loaded.forward(tokens)
    assert np.array_equal(own, model.forward(tokens, options=pn.Options(tau=0.4, gate_tau=0.3)))
    assert not np.array_equal(own, plain) and np.array_equal(loaded.forward(tokens, options=pn.Options()), plain)
    _, first = loaded.step(loaded.initial_state(1), tokens[:, 0])
    np.testing.assert_allclose(first, own[:, 0], atol=1e-5)  # float32, another form
    assert loaded.to("cpu").thresholds == loaded.thresholds and small().thresholds is None


def test_the_names_are_those_of_the_design():
    names = set(pn.build("pntm", 6).shapes())
    assert {"embed.weight", "decoder.weight", "decoder.bias", "blocks.0.norm1.scale", "blocks.1.ffn.W_out"} <= names
    assert {f"blocks.1.mixer.{w}" for w in ("W_r", "W_w", "W_u", "W_m", "W_o")} <= names
    assert {"mixer.W_x", "mixer.W_h", "mixer.b"} <= set(pn.build("lstm", 6).shapes())
    ntm = pn.build("ntm", 6).shapes()
    assert ntm["mixer.controller.W_x"] == (416, 232) and ntm["mixer.read.W_s"] == (12, 104)
    assert ntm["mixer.write.W_d"] == (128, 104) and ntm["mixer.W_or"] == (104, 128)
    fire = pn.build("transformer-fire", 6).shapes()
    assert fire["blocks.4.mixer.c"] == () and fire["blocks.4.mixer.W_2"] == (8, 32)


def tampered(tmp_path, change) -> str:
    """A checkpoint whose arrays and metadata were changed before it was written."""
    model = small()
    arrays = dict(model.params)
    config = {"model": "pntm", "vocabulary": 6, "sizes": SIZES}
    metadata = {"format": "pt", "pntm": "machine-2", "config": json.dumps(config)}
    sums = {name: hashlib.sha256(a.tobytes()).hexdigest() for name, a in arrays.items()}
    metadata["sha256"] = json.dumps(sums)
    arrays, metadata = change(arrays, metadata) or (arrays, metadata)
    if metadata and metadata.keys() >= set(sealed.SEALED):
        metadata["seal"] = sealed.seal(metadata)  # damage is another test: this file is whole, and wrong
    path = tmp_path / "bad.safetensors"
    path.write_bytes(safetensors.numpy.save(arrays, metadata))
    return str(path)


def with_config(**config):
    def change(arrays, metadata):
        metadata["config"] = json.dumps({"model": "pntm", "vocabulary": 6, "sizes": SIZES} | config)

    return change


BAD = {
    "no metadata": (lambda a, m: (a, None), "says that it is None; expected 'machine-2'"),
    "another version": (lambda a, m: m.update(pntm="machine-3"), "says that it is 'machine-3'"),
    "the first version": (lambda a, m: m.update(format="pntm-1") or (m.pop("pntm") and None), "pntm 0.1 made it (format pntm-1)"),
    "thresholds that are none": (with_config(thresholds={"tau": 0.5}), "thresholds are {'tau': 0.5}"),
    "a threshold too large": (with_config(thresholds={"tau": 0.5, "gate_tau": 0.6}), "thresholds are"),
    "a threshold in words": (with_config(thresholds={"tau": "auto", "gate_tau": 0}), "thresholds are"),
    "no configuration": (lambda a, m: m.pop("config") and None, "metadata are damaged"),
    "not JSON": (lambda a, m: m.update(config="{"), "configuration is not readable"),
    "deep JSON": (lambda a, m: m.update(config="[" * 100_000), "configuration is not readable"),
    "a list": (lambda a, m: m.update(config="[]"), "configuration is not readable"),
    "unknown model": (with_config(model="pntn"), "did you mean 'pntm'"),
    "unknown size": (with_config(sizes={"wings": 2}), "no size 'wings'"),
    "huge size": (with_config(sizes={"width": 10**12}), "width is 1000000000000"),
    "negative size": (with_config(sizes={"width": -1}), "width is -1"),
    "code for a size": (with_config(sizes={"width": "__import__('os')"}), "configuration is not readable"),
    "many layers": (with_config(model="mingru", sizes={"depth": 60_000}), "more layers"),
    "other sizes": (with_config(sizes=SIZES | {"width": 14}), "embed.weight has shape (6, 12)"),
    "other vocabulary": (with_config(vocabulary=7), "embed.weight has shape (6, 12)"),
    "true as vocabulary": (with_config(vocabulary=True), "configuration is not readable"),
    "a name with an escape": (lambda a, m: a.update({"a\nb\x1b[31m": a["embed.weight"]}), "unknown 'a\\nb\\x1b[31m'"),
    "an endless name": (with_config(model="x" * 10**6), "unknown model 'xxx"),
    "missing": (lambda a, m: a.pop("blocks.1.mixer.W_m") is None, "missing blocks.1.mixer.W_m"),
    "unknown name": (lambda a, m: a.update(extra=a["embed.weight"]), "unknown extra"),
    "another dtype": (lambda a, m: a.update({"embed.weight": a["embed.weight"].astype(np.float64)}), "dtype F64"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_fit_is_refused(name: str, tmp_path):
    change, words = BAD[name]
    path = tampered(tmp_path, lambda a, m: change(a, m) or None)
    with pytest.raises(pn.CheckpointError) as caught:
        pn.load(path)
    message = str(caught.value)
    assert path in message and words in message and "\n" not in message and len(message) < 500, message


def test_files_that_are_no_checkpoint(tmp_path):
    with pytest.raises(FileNotFoundError):
        pn.load(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe")
    for special in (tmp_path / "pipe", tmp_path, "/dev/null"):
        with pytest.raises(pn.CheckpointError, match="not a regular file"):
            pn.load(special)
    for content in (b"", b"hello", b"\xff" * 100, (10**18).to_bytes(8, "little") + b"{}"):
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(pn.CheckpointError, match="not a usable checkpoint"):
            pn.load(tmp_path / "x")


def test_a_model_whose_parameters_do_not_fit_is_not_written(tmp_path):
    model = small()
    model.params["decoder.bias"] = np.zeros(7, np.float32)
    with pytest.raises(pn.CheckpointError, match=r"decoder.bias has shape \(7,\); the configuration asks for \(6,\)"):
        pn.save(tmp_path / "m", model)
    assert not list(tmp_path.iterdir())


def test_parameters_that_are_no_floating_point_numbers_are_not_written(tmp_path):
    for dtype in (np.int64, np.complex64):
        model = small()
        model.params["decoder.bias"] = np.zeros(6, dtype)
        with pytest.raises(pn.CheckpointError, match=f"decoder.bias has dtype {dtype.__name__}"):
            pn.save(tmp_path / "m", model)
    assert not list(tmp_path.iterdir())


def test_sizes_by_numpy_and_limits_are_the_same_for_saving_and_loading(tmp_path):
    model = pn.Model.new("lstm", np.int64(6), np.random.default_rng(0), width=np.int64(4))
    pn.save(tmp_path / "m", model)
    assert pn.load(tmp_path / "m").sizes == {"width": 4}
    for bad in ({"depth": 0}, {"depth": 10**6}, {"expansion": -1}, {"width": 2.5}, {"width": True}, {"wings": 1}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            pn.Model.new("mingru", 6, np.random.default_rng(0), **bad)


def test_the_old_file_stays_until_the_new_one_is_complete(tmp_path, monkeypatch):
    path = tmp_path / "f"
    write_atomically(path, b"old")

    def fail(*args):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["f"]
