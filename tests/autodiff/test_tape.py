"""The engine itself: recording, the backward pass, what is alive when, and what it says to bad input."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import autodiff as ad
from autodiff.backend import NUMPY
from autodiff.backward import fit, sweep
from autodiff.tape import Tape
from tests import standin

CHAIN = 100_000


@pytest.fixture
def no_garbage_collection():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@ad.differentiable
def watched(x, *, log: list):
    """Identity that leaves a weak reference to the arrays which its pullback saves."""
    y = x + 0.0
    log.append(weakref.ref(y))
    return y, lambda g: g + 0 * y


def test_a_chain_of_100_000_ops_leaves_nothing_behind(no_garbage_collection):
    alive: list[weakref.ref] = []

    def loss(p):
        y = p
        for k in range(CHAIN):
            y = watched(y, log=alive) if k % 10 == 0 else y * 1.0
        return ad.sum(y)

    x = np.ones(3)
    value, gradient = ad.value_and_grad(loss)(x)
    assert value == 3 and np.array_equal(gradient, np.ones(3))
    assert len(alive) == CHAIN // 10
    assert not any(ref() is not None for ref in alive)


def test_cotangents_and_saved_arrays_are_freed_as_the_sweep_goes(no_garbage_collection):
    """When the pullback of op k runs, what the later ops saved is gone, and so are their cotangents."""
    saved: list[weakref.ref] = []
    seen: list[weakref.ref] = []
    alive_at_pullback: list[tuple[int, int]] = []

    @ad.differentiable
    def spy(x):
        y = x + 1.0
        saved.append(weakref.ref(y))

        def pullback(g):
            alive_at_pullback.append((sum(r() is not None for r in saved), sum(r() is not None for r in seen)))
            c = g + 0 * y
            seen.append(weakref.ref(c))
            return c

        return y, pullback

    def loss(p):
        y = p
        for _ in range(20):
            y = spy(y)
        return ad.sum(y)

    ad.value_and_grad(loss)(np.ones(3))
    # saved: the op's own and those of the ops before it. Cotangents: the one it was given, made by the op after it.
    assert alive_at_pullback == [(20 - k, min(k, 1)) for k in range(20)]


def test_no_reference_cycles(no_garbage_collection):
    ad.value_and_grad(lambda p: ad.sum(ad.softmax(p["W"] @ p["W"], axis=0)[0] * 2.0))({"W": np.eye(3)})
    assert gc.collect() == 0


def test_threads_each_have_their_own_tape(device):
    """Eight threads, each differentiating its own function many times, get their own answers."""
    wrong: list[int] = []

    def work(k: int) -> None:
        x = ad.to_device(np.full(4, float(k)), device)
        for _ in range(50):
            _, g = ad.value_and_grad(lambda p: ad.sum(p * p * x))(x)
            if not np.array_equal(ad.to_host(g), np.full(4, 2.0 * k * k)):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not wrong and not any(t.is_alive() for t in threads)


def test_an_input_without_influence_does_not_hide_those_after_it():
    @ad.differentiable
    def second(x, y):
        return y + 0 * x, lambda g: (None, g)

    @ad.differentiable
    def first_of_each(x, y):
        return x[:1] + y[:1], lambda g: (ad.Part(slice(0, 1), g), ad.Part(slice(0, 1), g))

    for op, expected in ((second, ([0, 0], [1, 1])), (first_of_each, ([1, 0], [1, 0]))):
        _, gradients = ad.value_and_grad(lambda p, op=op: ad.sum(op(p["a"], p["b"])))({k: np.ones(2) for k in "ab"})
        assert [list(g) for g in gradients.values()] == [list(map(float, e)) for e in expected], op.__name__


def test_an_argument_that_was_left_out_may_have_a_cotangent_of_none():
    @ad.differentiable
    def scaled(x, factor=None):
        return (x if factor is None else x * factor), lambda g: (g, None)

    assert np.array_equal(ad.value_and_grad(lambda p: ad.sum(scaled(p)))(np.ones(2))[1], [1, 1])


@pytest.mark.parametrize("stretched", [2, 3])
def test_cotangents_come_back_from_broadcasting_and_promotion(stretched: int):
    c = np.arange(4.0 * stretched).reshape(4, 1, stretched) + 1j
    found = fit(c, (1, 1), np.dtype(np.complex64), "op", 0)
    assert found.dtype == np.complex64 and np.array_equal(found, c.sum().reshape(1, 1).astype(np.complex64))
    assert np.array_equal(fit(c, (1, stretched), np.dtype(np.float32), "op", 0), c.real.sum(axis=(0, 1))[None])
    with pytest.raises(ad.PullbackError, match="for input 0 of shape"):
        fit(np.ones(stretched), (stretched, stretched), np.dtype(np.float32), "op", 0)


# ---- value_and_grad ---------------------------------------------------------------------------


def test_nested_parameters_and_auxiliary_output(device):
    put = lambda x: ad.to_device(np.asarray(x, np.float32), device)  # noqa: E731
    params = {"a": put([1.0, 2.0]), "deep": {"b": put(3.0), "unused": put([[1.0]])}, "none": {}}

    def loss(p, factor):
        y = p["a"] * p["deep"]["b"]
        return factor * ad.sum(y), {"y": y, "list": [y[0], (1, "text")], "plain": factor}

    (value, aux), gradient = ad.value_and_grad(loss, has_aux=True)(params, 2.0)
    assert ad.to_host(value) == 18 and value.dtype == np.float32
    assert not any(isinstance(x, ad.Tensor) for x in (aux["y"], aux["list"][0]))
    assert ad.to_host(aux["y"]).tolist() == [3, 6] and aux["list"][1] == (1, "text") and aux["plain"] == 2.0
    assert gradient.keys() == params.keys() and gradient["none"] == {}
    assert ad.to_host(gradient["a"]).tolist() == [6, 6]
    assert ad.to_host(gradient["deep"]["b"]) == 6 and gradient["deep"]["b"].shape == ()
    assert ad.to_host(gradient["deep"]["unused"]).tolist() == [[0]]
    assert all(g.dtype == np.float32 for g in (gradient["a"], gradient["deep"]["b"], gradient["deep"]["unused"]))


def test_a_loss_that_depends_on_nothing_has_zero_gradient():
    value, gradient = ad.value_and_grad(lambda p: np.asarray(2.0))({"a": np.ones(3)})
    assert value == 2 and gradient["a"].tolist() == [0, 0, 0]


def test_a_value_used_many_times_collects_all_its_cotangents(device):
    """Accumulation adds in place only into buffers of its own: the shared cotangent stays what it was."""
    x = ad.to_device(np.array([1.0, 2.0, 3.0]), device)

    def loss(p):
        y = p["a"] + p["b"]  # hands the same cotangent array to both
        return ad.sum(y + y + y + p["a"] + p["a"][0])

    _, g = ad.value_and_grad(loss)({"a": x, "b": x})
    assert ad.to_host(g["a"]).tolist() == [7, 4, 4] and ad.to_host(g["b"]).tolist() == [3, 3, 3]


def test_the_cotangent_of_a_slice_leaves_alone_what_its_array_shares(device):
    """Way back: the sum hands its cotangent to both, then the slice adds to that of one of them."""
    x = ad.to_device(np.zeros(3), device)
    weights = ad.to_device(np.arange(3.0), device)

    def loss(p):
        part = p["a"][:1] * 10.0
        return ad.sum((p["a"] + p["b"]) * weights) + ad.sum(part)

    _, g = ad.value_and_grad(loss)({"a": x, "b": x})
    assert ad.to_host(g["a"]).tolist() == [10, 1, 2] and ad.to_host(g["b"]).tolist() == [0, 1, 2]


def test_gradients_are_the_callers_to_write_into(device):
    x = ad.to_device(np.ones((2, 2)), device)
    _, g = ad.value_and_grad(lambda p: ad.sum(p["a"] + p["b"] + ad.transpose(p["c"])))({"a": x, "b": x, "c": x})
    for name in g:
        g[name] *= 0.0
        g[name] += {"a": 1.0, "b": 2.0, "c": 3.0}[name]
    assert [ad.to_host(g[n])[0, 1] for n in "abc"] == [1, 2, 3]
    seed = ad.to_device(np.ones(2), device)
    _, pullback = ad.vjp(lambda a: a + 0.0, ad.to_device(np.ones(2), device))
    (g,) = pullback(seed)
    g *= 5.0
    assert ad.to_host(seed).tolist() == [1, 1]


def test_reading_rows_one_by_one_costs_as_much_as_the_rows():
    """Each x[t] adds into one buffer; zeros of the size of x for every t would need 2000 times the memory and time."""
    x = np.ones((2000, 100))

    def loss(p):
        return sum((ad.sum(p[t] * float(t)) for t in range(2000)), start=np.zeros(()))

    buffers = []

    class Counting:
        def __getattr__(self, name):
            if name == "zeros":
                return lambda shape, dtype: (buffers.append(shape), np.zeros(shape, dtype))[1]
            return getattr(np, name)

    tape = Tape(NUMPY)
    value = loss(tape.leaf(x))
    (g,) = sweep(tape, {value.slot: np.ones(())}, 1, Counting())
    assert np.array_equal(g, np.broadcast_to(np.arange(2000.0)[:, None], x.shape))
    assert buffers == [x.shape]


def test_several_values_and_unused_ones():
    @ad.differentiable
    def sum_and_product(x, y):
        return (x + y, x * y), lambda g: (g[0] + g[1] * y, g[0] + g[1] * x)

    x, y = np.array([1.0, 2.0]), np.array([3.0, 5.0])
    assert [v.tolist() for v in sum_and_product(x, y)] == [[4, 7], [3, 10]]
    for choose, expected in ((0, [1, 1]), (1, [3, 5])):
        _, g = ad.value_and_grad(lambda p: ad.sum(sum_and_product(p, y)[choose]))(x)
        assert g.tolist() == expected
    _, g = ad.value_and_grad(lambda p: ad.sum(sum_and_product(p, y)[0]) * 0.0 + ad.sum(p))(x)
    assert g.tolist() == [1, 1]
    ad.check_gradients(sum_and_product, x, y)
    _, pullback = ad.vjp(sum_and_product, x, y)
    assert [c.tolist() for c in pullback((np.ones(2), np.zeros(2)))] == [[1, 1], [1, 1]]


def test_an_op_may_return_a_tuple_of_one():
    @ad.differentiable
    def single(x):
        return (x * 2.0,), lambda g: g[0] * 2.0

    (value,), pullback = ad.vjp(single, np.ones(2))
    assert value.tolist() == [2, 2] and pullback((np.ones(2),))[0].tolist() == [2, 2]


def test_the_same_value_returned_twice_collects_both_cotangents():
    def twice(x):
        y = ad.exp(x)
        return y, y, x

    value, pullback = ad.vjp(twice, np.zeros(2))
    (g,) = pullback((np.ones(2), np.full(2, 10.0), np.full(2, 100.0)))
    assert g.tolist() == [111, 111] and len(value) == 3


def test_the_cotangent_of_a_constant_is_not_computed():
    computed = []

    @ad.differentiable
    def product(x, y):
        return x * y, lambda g: (lambda: (computed.append("x"), g * y)[1], lambda: (computed.append("y"), g * x)[1])

    x = np.ones(2)
    ad.value_and_grad(lambda p: ad.sum(product(p, x)))(x)
    assert computed == ["x"]


def test_no_warnings_from_the_way_back():
    """Infinite slopes at the edge of a domain are results; the suite turns any warning into an error."""
    _, g = ad.value_and_grad(lambda p: ad.sum(ad.sqrt(p)))(np.zeros(2))
    assert g.tolist() == [np.inf, np.inf]
    assert ad.vjp(ad.sqrt, np.zeros(1))[1](np.ones(1))[0] == np.inf


def test_an_op_keeps_nothing_that_its_gradient_does_not_need(no_garbage_collection):
    """The inputs of sums and rearrangements are freed when the caller lets go of them."""
    ops = [
        lambda x: ad.sum(x, axis=0), lambda x: ad.mean(x, axis=0), lambda x: x + 1.0, lambda x: ad.stack(x, x),
        lambda x: ad.concatenate(x, x), lambda x: ad.pad(x, widths=((1, 1),)), lambda x: ad.cumsum(x, axis=0),
        lambda x: ad.roll(x, shift=1, axis=0), ad.softmax, ad.exp, ad.tanh, ad.sigmoid, ad.rfft,
    ]  # fmt: skip
    for k, op in enumerate(ops):
        tape = Tape(NUMPY)
        x = tape.leaf(np.ones(4)) * 1.0
        ref, y = weakref.ref(x.value), op(x)
        tape.entries[1] = None  # the multiplication itself: not what is tested
        del x
        assert ref() is None, f"op {k}"
        del y


def test_the_value_is_not_a_window_on_a_parameter():
    p = np.ones(())
    value, _ = ad.value_and_grad(lambda q: q)(p)
    p -= 1
    assert value == 1
    for key in (0, (0, ...)):  # NumPy makes a number of the first, and a view of the second
        params = {"a": np.ones(3)}
        value, _ = ad.value_and_grad(lambda q: q["a"][key])(params)
        params["a"] -= 1
        assert value == 1


def test_what_the_loss_does_to_its_dicts_does_not_matter():
    params = {"a": np.array(1.0), "b": np.array(2.0)}

    def loss(p):
        value = p["a"] * 10.0 + p["b"]
        params["a"] = params.pop("a")  # now behind b
        p["c"] = p.pop("a")
        return value

    _, g = ad.value_and_grad(loss)(params)
    assert g == {"a": 10, "b": 1}


def test_stop_gradient_and_comparisons(device):
    x = ad.to_device(np.array([1.0, -2.0]), device)
    with standin.no_synchronisation():
        _, g = ad.value_and_grad(lambda p: ad.sum(ad.stop_gradient(p) * p + ad.where(p > 0, p, 3.0 * p)))(x)
    assert ad.to_host(g).tolist() == [2, 1]


def test_promotion_is_undone():
    x32, x64 = np.ones(3, np.float32), np.ones((2, 3))
    _, g = ad.value_and_grad(lambda p: ad.sum(p["a"] * p["b"]))({"a": x32, "b": x64})
    assert g["a"].dtype == np.float32 and g["a"].shape == (3,) and g["b"].dtype == np.float64


def test_operators_on_either_side(device):
    x = ad.to_device(np.array([2.0, 4.0]), device)
    two = ad.to_device(np.array([2.0, 2.0]), device)

    def function(p):
        mixed = 1.0 + p, p + two, two + p, 1.0 - p, two - p, 8.0 / p, two / p, 2.0 * p, two * p, p**2, -p, abs(-p)
        rows = [r for r in ad.reshape(p, shape=(2, 1))]
        return sum(mixed, start=0.0 * p), two @ p, p @ two, ad.concatenate(*rows)

    ad.check_gradients(function, x)
