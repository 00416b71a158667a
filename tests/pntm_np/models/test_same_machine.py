"""Whole sequence and step by step are the same machine, for every model."""

from __future__ import annotations

import numpy as np
import pytest

import autodiff as ad
from autodiff.tree import map_leaves
from pntm_np.models import BENCH_MODELS, MODELS, Options, build
from pntm_np.scans import FORMS, usable_forms
from tests import standin
from tests.naming import raises_naming

SMALL = {
    "pntm": {"width": 12, "heads": 2, "cell": 6},
    "ntm": {"width": 10, "heads": 2, "cell": 5},
    "lstm": {"width": 9},
    "mingru": {"width": 8, "depth": 2},
    **{f"transformer-{p}": {"width": 8, "depth": 2, "heads": 2} for p in ("nope", "rope", "alibi", "fire")},
}
COUNTS = {
    "pntm": 260_198, "ntm": 224_478, "lstm": 297_990, "mingru": 288_774, "transformer-nope": 247_814,
    "transformer-rope": 247_814, "transformer-alibi": 247_814, "transformer-fire": 249_464,
}  # fmt: skip
LENGTHS = (1, 2, 7, 40, 121)
names = pytest.mark.parametrize("name", MODELS)


def machine(name: str, small: bool = True, dtype=np.float64):
    model = build(name, 6, **(SMALL.get(name, {}) if small else {}))
    params = model.init(np.random.default_rng(3), dtype)
    rng = np.random.default_rng(4)
    # away from the start of training, where biases are 0 and norms are 1: nothing may depend on that
    return model, {k: (v + 0.1 * rng.standard_normal(v.shape)).astype(dtype) for k, v in params.items()}


def draw_tokens(batch: int, length: int) -> np.ndarray:
    return np.random.default_rng(length).integers(0, 6, (batch, length))


def by_steps(model, params, tokens, state, options=Options()):
    logits = []
    for t in range(tokens.shape[1]):
        state, y = model.step(params, state, tokens[:, t], options)
        logits.append(y)
    return np.stack(logits, axis=1), state


def test_parameter_counts_are_the_papers():
    assert {name: build(name, 6).parameter_count() for name in COUNTS} == COUNTS
    assert BENCH_MODELS["bench-pntm"].parameter_count() == 152_576
    assert BENCH_MODELS["bench-ntm"].parameter_count() == 168_140
    for name in MODELS:
        model = build(name, 6)
        assert sum(v.size for v in model.init(np.random.default_rng(0)).values()) == model.parameter_count()


def forms_of(model) -> tuple[str, ...]:
    """Those that run here; attention, too, has a compiled pass beside its products."""
    return usable_forms(model.forms or ("chunked", "fused"), "cpu")


@names
@pytest.mark.parametrize("small", [True, False], ids=["small", "paper"])
def test_forward_equals_step_by_step(name: str, small: bool):
    model, params = machine(name, small)
    for length in LENGTHS:
        tokens = draw_tokens(2, length)
        start = model.initial_state(2, 20, dtype=np.float64)
        expected, _ = by_steps(model, params, tokens, start)
        for form in forms_of(model):
            found = model.forward(params, tokens, 20, Options(form=form))
            # the paper forms: growth by EPS = 1e-6 a step in the addresses, through the rest of the network
            bound = 1e-9 if form != "paper" or name != "pntm" else 2e-5 * (length + 1)
            assert found.shape == (2, length, 6) and np.abs(found - expected).max() <= bound, (length, form)


@names
@pytest.mark.skipif("fused" not in usable_forms(FORMS, "cpu"), reason="Numba is not installed")
def test_compiled_steps_are_the_same_machine(name: str):
    """An evaluation decodes by them."""
    model, params = machine(name)
    start, found = model.initial_state(2, 7, dtype=np.float64), {}
    for form in ("fused", "sequential"):
        logits, state = by_steps(model, params, draw_tokens(2, 12), start, Options(form))
        found[form] = [logits]
        map_leaves(found[form].append, state)
    for compiled, defined in zip(*found.values(), strict=True):
        assert compiled.shape == defined.shape
        assert np.abs(compiled - defined).max(initial=0) <= 1e-11  # float64, some thousand roundings of 1e-16


@names
@pytest.mark.parametrize("options", [Options(tau=0.2), Options(gate_tau=0.45), Options(tau=0.1, gate_tau=0.45)])
def test_thresholds_are_the_same_in_both(name: str, options: Options):
    model, params = machine(name)
    tokens = draw_tokens(2, 15)
    expected, _ = by_steps(model, params, tokens, model.initial_state(2, 20, dtype=np.float64), options)
    assert np.abs(model.forward(params, tokens, 20, options) - expected).max() <= 1e-9
    if name in ("pntm", "mingru"):
        plain = model.forward(params, tokens, 20)
        changed = np.abs(model.forward(params, tokens, 20, options) - plain).max() > 1e-6
        assert changed == (name == "pntm" or options.gate_tau > 0)


sizes = pytest.mark.parametrize("small", [True, False], ids=["small", "paper"])


@names
@sizes
def test_prefix_and_continue_equals_whole(name: str, small: bool):
    model, params = machine(name, small)
    start = model.initial_state(2, 20, dtype=np.float64)
    for length in LENGTHS[1:]:
        tokens = draw_tokens(2, length)
        for form in forms_of(model):
            # the paper form clamps at a cut, which hides what its epsilon added so far
            bound = 1e-9 if form != "paper" or name != "pntm" else 2e-5 * (length + 1)
            options = Options(form=form)
            whole, _ = model.run(params, tokens, start, options)
            for cut in {1, length // 2, length - 1}:
                first, middle = model.run(params, tokens[:, :cut], start, options)
                second, _ = model.run(params, tokens[:, cut:], middle, options)
                assert np.abs(np.concatenate([first, second], axis=1) - whole).max() <= bound, (length, form, cut)
        stepped, _ = by_steps(model, params, tokens[:, cut:], middle)
        assert np.abs(stepped - whole[:, cut:]).max() <= 1e-9


@names
@sizes
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_past_does_not_depend_on_the_future_nor_rows_on_each_other(name: str, small: bool, dtype):
    model, params = machine(name, small, dtype)
    for length in LENGTHS:
        tokens = draw_tokens(3, length)
        for form in forms_of(model):
            run = lambda t: model.forward(params, t, 20, Options(form=form))  # noqa: E731
            before = run(tokens)
            for t in {0, length // 3, length // 2, length - 1}:
                changed = tokens.copy()
                changed[:, t] = (changed[:, t] + 1) % 6
                after = run(changed)
                assert after[:, :t].tobytes() == before[:, :t].tobytes(), (length, form, t)
                assert not np.array_equal(after[:, t], before[:, t])
            changed = tokens.copy()
            changed[1:] = (changed[1:] + 1) % 6
            assert run(changed)[0].tobytes() == before[0].tobytes(), (length, form)


@names
def test_whole_model_gradient(name: str):
    model, params = machine(name)
    tokens = draw_tokens(2, 4)

    def loss(*arrays):
        logits = model.forward(dict(zip(params, arrays, strict=True)), tokens, 5)
        return ad.softmax_cross_entropy(logits, tokens)

    # a small step, for g and relu have a kink at 0; what rounding makes of it is allowed for by the checker
    ad.check_gradients(loss, *params.values(), tolerance=1e-6, step=3e-6)


@names
@pytest.mark.parametrize("small", [True, False], ids=["small", "paper"])
def test_every_parameter_gets_a_gradient(name: str, small: bool):
    model, params = machine(name, small)
    tokens = draw_tokens(2, 6)
    _, gradient = ad.value_and_grad(lambda p: ad.softmax_cross_entropy(model.forward(p, tokens, 9), tokens))(params)
    for key, g in gradient.items():
        assert np.isfinite(g).all(), key
        assert np.abs(g).max() > 1e-9 or key.endswith("b_2"), key  # FIRE's b_2 is cancelled by softmax


@names
def test_on_the_device(name: str):
    model, params = machine(name, dtype=np.float32)
    tokens = draw_tokens(2, 9)
    placed = {k: ad.to_device(v, "standin") for k, v in params.items()}
    on_device = ad.to_device(tokens, "standin")
    for form in usable_forms(model.forms, "standin") or ("chunked",):
        with standin.no_synchronisation():
            found = model.forward(placed, on_device, 12, Options(form=form))
        expected = model.forward(params, tokens, 12, Options(form=form))
        assert np.abs(ad.to_host(found) - expected).max() <= 1e-5

        def loss(p, t, form=form):
            return ad.softmax_cross_entropy(model.forward(p, t, 12, Options(form=form)), t)

        with standin.no_synchronisation():
            _, there = ad.value_and_grad(loss)(placed, on_device)
        _, here = ad.value_and_grad(loss)(params, tokens)
        assert max(np.abs(ad.to_host(there[k]) - here[k]).max() for k in here) <= 1e-5
    state = model.initial_state(2, 12, xp=standin.xp)
    for t in range(3):
        state, logits = model.step(placed, state, on_device[:, t])
    assert np.abs(ad.to_host(logits) - model.forward(params, tokens, 12)[:, 2]).max() <= 1e-5


def test_a_training_step_on_the_device_synchronises_once():
    """Loss and the gradient's infinity norm are read together, and nothing else is; the update stays on the device."""
    model, params = machine("pntm", small=False, dtype=np.float32)
    placed = {k: ad.to_device(v, "standin") for k, v in params.items()}
    tokens = ad.to_device(draw_tokens(2, 9), "standin")
    before = standin.synchronisations

    def loss(p):
        return ad.softmax_cross_entropy(model.forward(p, tokens, 12), tokens)

    value, gradient = ad.value_and_grad(loss)(placed)
    xp = ad.array_module(value)
    norms = xp.stack([xp.max(abs(g)) for g in gradient.values()])
    report = xp.stack([value, xp.max(norms)])
    for name, g in gradient.items():
        placed[name] -= xp.where(xp.isfinite(report).all(), 1e-3 * g, 0.0)
    numbers = ad.to_host(report)
    assert standin.synchronisations == before + 1
    assert np.isfinite(numbers).all() and numbers[1] > 0


def test_an_observer_is_shown_what_the_layers_do():
    model, params = machine("pntm")
    shown: dict = {}
    state = model.initial_state(2, 12, dtype=np.float64)
    options = Options(observer=lambda block, name, value: shown.setdefault((block, name), []).append(value))
    model.step(params, state, draw_tokens(2, 1)[:, 0], options)
    heads = {"read address", "write address", "memory", "shifts", "values", "reads"}
    assert set(shown) == {(0, "state minGRU"), *((1, name) for name in heads)}
    (shifts,) = shown[1, "shifts"]
    assert shifts.shape[-1] == 3 and np.allclose(shifts.sum(-1), 1)


@pytest.mark.parametrize("name", BENCH_MODELS)
def test_bench_models(name: str):
    model = BENCH_MODELS[name]
    params = model.init(np.random.default_rng(0), np.float64)
    x = np.random.default_rng(1).standard_normal((2, 9, 128))
    start = model.initial_state(2, 16, dtype=np.float64)
    expected, state = [], start
    for t in range(9):
        state, y = model.step(params, state, x[:, t])
        expected.append(y)
    for form in forms_of(model):
        found, _ = model.run(params, x, start, Options(form=form))
        assert np.abs(found - np.stack(expected, 1)).max() <= (1e-9 if form != "paper" else 1e-4)


BAD = {
    "vocabulary": (lambda: build("pntm", 0), ["vocabulary is 0"]),
    "name": (lambda: build("pntn", 6), ["'pntn'", "did you mean 'pntm'?"]),
    "transformer": (lambda: build("transformer", 6), ["did you mean 'transformer-"]),
    "batch": (lambda: build("pntm", 6).initial_state(-1), ["batch is -1"]),
    "upper case": (lambda: build("PNTM", 6), ["did you mean 'pntm'?"]),
    "no name": (lambda: build(None, 6), ["unknown model None"]),
    "no heads": (lambda: build("transformer-nope", 6, heads=0), ["heads is 0", "from 1"]),
    "form": (lambda: Options(form="fft"), ["'fft'", "sequential, paper, chunked, fused"]),
    "gate_tau": (lambda: Options(gate_tau=0.7), ["gate_tau is 0.7", "0 to 0.5"]),
    "tau": (lambda: Options(tau=-1), ["tau is -1"]),
    "heads": (lambda: build("pntm", 6, heads=3), ["heads = 3", "cell = 32"]),
    "attention heads": (lambda: build("transformer-nope", 6, heads=7), ["heads = 7", "width = 64"]),
    "too large a token": (lambda: forward(np.array([[0, 6]])), ["0 to 6", "0 to 5"]),
    "a negative token": (lambda: forward(np.array([[-1]])), ["-1 to -1"]),
    "no tokens": (lambda: forward(np.zeros((2, 0), int)), ["(2, 0)", "T >= 1"]),
    "float tokens": (lambda: forward(np.zeros((2, 3))), ["float64", "integers"]),
    "one axis": (lambda: forward(np.zeros(3, int)), ["(3,)", "(B, T)"]),
    "a list": (lambda: forward([[1, 2]]), ["expected integers"]),
    "memory": (lambda: build("pntm", 6).initial_state(1, 0), ["memory_size is 0", "at least 1"]),
    "step with a sequence": (lambda: step(np.zeros((1, 2), int)), ["(1, 2)", "(B,)"]),
}


def forward(tokens):
    model = build("pntm", 6, **SMALL["pntm"])
    return model.forward(model.init(np.random.default_rng(0)), tokens)


def step(tokens):
    model = build("pntm", 6, **SMALL["pntm"])
    return model.step(model.init(np.random.default_rng(0)), model.initial_state(1), tokens)


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(name: str):
    call, words = BAD[name]
    raises_naming(call, ValueError, words)


def test_an_empty_batch():
    for name in MODELS:
        model, params = machine(name)
        assert model.forward(params, np.zeros((0, 3), int), 9).shape == (0, 3, 6)
