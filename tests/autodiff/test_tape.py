"""The engine itself: recording, the way back, what is alive when, and what it says to bad input."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import autodiff as ad
from autodiff.backend import NUMPY
from autodiff.sweep import sweep
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
        t.join()
    assert not wrong


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
    params = {"a": np.ones(3)}
    value, _ = ad.value_and_grad(lambda q: q["a"][0])(params)
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


# ---- bad input ----------------------------------------------------------------------------------

X = np.ones((3, 4), np.float32)
Y = np.ones((5, 6), np.float32)


def leaked() -> ad.Tensor:
    kept: list[ad.Tensor] = []
    ad.value_and_grad(lambda p: (kept.append(p), ad.sum(p))[1])(X)
    return kept[0]


BAD_CALLS = {
    "add": (lambda: ad.add(X, Y), ValueError, ["add", "(3, 4)", "(5, 6)", "broadcast"]),
    "matmul": (lambda: ad.matmul(X, Y), ValueError, ["matmul", "(3, 4)", "(5, 6)", "last axis of x (4)", "(5)"]),
    "matmul number": (lambda: ad.matmul(X, 2.0), ValueError, ["matmul", "at least one axis"]),
    "axis": (lambda: ad.sum(X, axis=2), ValueError, ["sum", "(3, 4)", "axis 2", "-2 to 1"]),
    "axis twice": (lambda: ad.sum(X, axis=(0, -2)), ValueError, ["sum", "twice"]),
    "axis type": (lambda: ad.cumsum(X, axis=None), TypeError, ["cumsum", "axis"]),
    "mean of nothing": (lambda: ad.mean(np.zeros((0, 3)), axis=0), ValueError, ["mean", "at least one"]),
    "max of nothing": (lambda: ad.max(np.zeros(0)), ValueError, ["max", "at least one"]),
    "reshape": (lambda: ad.reshape(X, shape=(5,)), ValueError, ["reshape", "(3, 4)", "(5,)"]),
    "concatenate": (lambda: ad.concatenate(X, Y), ValueError, ["concatenate", "(3, 4)", "(5, 6)", "axis 0"]),
    "stack": (lambda: ad.stack(X, Y), ValueError, ["stack", "same shape"]),
    "stack of none": (lambda: ad.stack(), ValueError, ["stack", "one or more"]),
    "split": (lambda: ad.split(X, sections=2), ValueError, ["split", "(3, 4)", "2 equal parts"]),
    "pad": (lambda: ad.pad(X, widths=((1, 1),)), ValueError, ["pad", "2 pairs"]),
    "index": (lambda: ad.index(X, key=7), IndexError, ["index", "(3, 4)", "7"]),
    "index by array": (lambda: ad.index(X, key=np.array([0])), TypeError, ["index", "ndarray", "take"]),
    "index by bool": (lambda: ad.index(X, key=True), TypeError, ["index", "bool"]),
    "take float": (lambda: ad.take(X, X), TypeError, ["take", "integers"]),
    "take too far": (lambda: ad.take(X, np.array([3])), IndexError, ["take", "3"]),
    "where": (lambda: ad.where(X, X, X), TypeError, ["where", "boolean"]),
    "clip": (lambda: ad.clip(X, low=1, high=0), ValueError, ["clip", "low <= high"]),
    "clip nothing": (lambda: ad.clip(X), ValueError, ["clip", "low, high"]),
    "power": (lambda: ad.power(X, exponent=X), TypeError, ["power", "exponent"]),
    "einsum": (lambda: ad.einsum(X, Y, subscripts="ij,jk->ik"), ValueError, ["einsum", "'j'", "4 and 5"]),
    "einsum term": (lambda: ad.einsum(X, subscripts="ii->i"), ValueError, ["einsum", "none twice"]),
    "einsum arrow": (lambda: ad.einsum(X, subscripts="ij"), ValueError, ["einsum", "->"]),
    "irfft": (lambda: ad.irfft(X, n=9), ValueError, ["irfft", "n = 9", "5 bins", "4"]),
    "rfft": (lambda: ad.rfft(np.ones(3, complex)), ValueError, ["rfft", "real"]),
    "layer_norm": (lambda: ad.layer_norm(X, X, X), ValueError, ["layer_norm", "last axis"]),
    "targets": (lambda: ad.softmax_cross_entropy(X, np.array([0, 1])), ValueError, ["cross_entropy", "(2,)", "shape"]),
    "target": (lambda: ad.softmax_cross_entropy(X, np.array([0, 1, 4])), IndexError, ["cross_entropy", "0 to 3"]),
    "float mask": (lambda: ad.softmax_cross_entropy(X, np.array([0, 1, 2]), X[:, 0]), ValueError, ["boolean mask"]),
    "real of real": (lambda: ad.real(X), TypeError, ["real", "complex"]),
    "logcumsumexp of int": (lambda: ad.logcumsumexp(np.arange(3), axis=0), TypeError, ["logcumsumexp", "floating"]),
    "list": (lambda: ad.exp([1.0, 2.0]), TypeError, ["exp", "argument 0", "list", "array"]),
    "text": (lambda: ad.add(X, "a"), TypeError, ["add", "argument 1", "str"]),
    "number where an array must be": (lambda: ad.reshape(2.0, shape=(1,)), TypeError, ["reshape", "arrays"]),
    "object dtype": (lambda: grad_of(lambda p: p * np.array([None, 2, 3, 4])), TypeError, ["multiply", "object"]),
    "too many arguments": (lambda: ad.exp(X, X), TypeError, ["exp", "positional"]),
    "non-scalar loss": (lambda: ad.value_and_grad(lambda p: p)(X), ValueError, ["float32 (3, 4)", "scalar", "sum"]),
    "loss of one element": (lambda: ad.value_and_grad(lambda p: p[:1, 0])(X), ValueError, ["(1,)", "scalar"]),
    "loss is a number": (lambda: ad.value_and_grad(lambda p: 1.0)(X), TypeError, ["1.0", "expected an array"]),
    "no aux": (lambda: ad.value_and_grad(ad.sum, has_aux=True)(X), TypeError, ["has_aux", "(value, aux)"]),
    "integer parameter": (lambda: grad_of(ad.sum, {"w": {"k": np.arange(3)}}), TypeError, ["params['w']['k']", "int64 (3,)", "float32"]),
    "number parameter": (lambda: grad_of(ad.sum, {"w": 2.0}), TypeError, ["params['w']", "2.0", "array"]),
    "list parameter": (lambda: grad_of(ad.sum, {"w": [X]}), TypeError, ["params['w']", "expected"]),
    "finished": (lambda: ad.exp(leaked()), ad.TapeError, ["exp", "finished backward"]),
    "finished and live": (lambda: grad_of(lambda p: p * leaked()), ad.TapeError, ["multiply", "finished backward"]),
    "two tapes": (lambda: nested(lambda p, q: ad.sum(p * q)), ad.TapeError, ["multiply", "different tapes"]),
    "loss of another tape": (lambda: nested(lambda p, q: ad.sum(p)), ad.TapeError, ["another tape"]),
    "nested parameter": (lambda: grad_of(lambda p: ad.value_and_grad(ad.sum)(p)[0]), ad.TapeError, ["nested"]),
    "numpy function": (lambda: grad_of(np.exp), TypeError, ["Tensor", "ufunc"]),
    "numpy reduction": (lambda: grad_of(np.sum), TypeError, ["Tensor", "ufunc"]),
    "numpy conversion": (lambda: grad_of(np.asarray), TypeError, ["autodiff", "stop_gradient"]),
    "float of a Tensor": (lambda: grad_of(float), TypeError, ["stop_gradient"]),
    "if of a Tensor": (lambda: grad_of(lambda p: ad.sum(p) if p else 0), TypeError, ["stop_gradient"]),
    "len of a scalar": (lambda: grad_of(lambda p: len(ad.sum(p))), TypeError, ["len"]),
    "array by keyword": (lambda: ad.layer_norm(X, scale=X[0], bias=X[0]), TypeError, ["layer_norm", "scale", "position"]),
    "number by keyword": (lambda: grad_of(lambda p: ad.add(p, y=2.0)), TypeError, ["add", "y", "position"]),
    "static Tensor": (lambda: grad_of(lambda p: ad.clip(p, low=ad.sum(p))), TypeError, ["clip", "low is a Tensor"]),
    "comparison": (lambda: grad_of(lambda p: p > Y), ValueError, ["gt", "(3, 4)", "(5, 6)"]),
    "roll by a fraction": (lambda: ad.roll(X, shift=1.5, axis=0), TypeError, ["roll", "shift is 1.5", "integer"]),
    "axis list of text": (lambda: ad.sum(X, axis="0"), TypeError, ["sum", "axis is '0'", "integer"]),
    "no axes": (lambda: ad.softmax(np.array(1.0)), ValueError, ["softmax", "no axes"]),
    "split sections": (lambda: ad.split(X, sections=1.5), TypeError, ["split", "sections is 1.5"]),
    "split list": (lambda: ad.split([1, 2], sections=2), TypeError, ["split", "array"]),
    "pad widths": (lambda: ad.pad(X, widths=1), ValueError, ["pad", "2 pairs"]),
    "einsum list": (lambda: ad.einsum(X, subscripts=["ij"]), TypeError, ["einsum", "text"]),
    "vjp of a Tensor": (lambda: grad_of(lambda p: ad.vjp(ad.exp, p)[0]), ad.TapeError, ["vjp", "another tape"]),
    "complex cotangent": (lambda: ad.vjp(ad.exp, X)[1](X + 1j), TypeError, ["vjp", "complex", "float32"]),
    "integer cotangent": (lambda: ad.vjp(ad.exp, X)[1](np.ones((3, 4), int)), TypeError, ["vjp", "int64"]),
    "no cotangent": (lambda: ad.vjp(lambda x: (x, x), X)[1](None), ValueError, ["vjp", "tuple of 2"]),
    "cotangent elsewhere": (lambda: ad.vjp(lambda x: x + 1.0, X)[1](ad.to_device(X, "standin")), TypeError, ["different devices"]),
    "cotangent shape": (lambda: ad.vjp(ad.exp, X)[1](Y), ValueError, ["vjp", "(5, 6)", "(3, 4)"]),
    "unknown backend": (lambda: ad.to_device(X, "tpu"), ValueError, ["'tpu'", "cpu", "cuda"]),
    "no cuda": (lambda: ad.to_device(X, "cuda"), ad.BackendUnavailable, ["CuPy"]),
    "matrix": (lambda: ad.exp(np.ma.masked_array(X)), TypeError, ["MaskedArray", "expected"]),
}  # fmt: skip


def grad_of(function, params=X):
    return ad.value_and_grad(function)(params)


def nested(function):
    return ad.value_and_grad(lambda p: ad.value_and_grad(lambda q: function(p, q))(X)[0])(X)


@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_input_is_named(name: str):
    call, kind, words = BAD_CALLS[name]
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert message.count("\n") <= 2
    cause = caught.value.__cause__ or (None if caught.value.__suppress_context__ else caught.value.__context__)
    assert cause is None, "a second traceback is shown"


def test_bad_input_is_named_while_recording():
    """The same messages with Tensors: found when the op is called, never in a pullback."""
    with pytest.raises(ValueError, match=r"add\(float32 \(3, 4\), float32 \(5, 6\)\)"):
        grad_of(lambda p: ad.sum(p + Y))


def test_mixing_devices_is_an_error_that_says_so():
    d = ad.to_device(X, "standin")
    for call in (
        lambda: ad.add(X, d),
        lambda: ad.add(d, X),
        lambda: grad_of(lambda p: p * d),
        lambda: d + X,
        lambda: X + d,
    ):
        with pytest.raises(TypeError, match=r"different devices|Unsupported type"):
            call()
    with pytest.raises(TypeError, match=r"arrays on different devices: .*cpu.*standin"):
        ad.array_module(X, d)
    with pytest.raises(TypeError, match="different devices"):
        grad_of(lambda p: ad.sum(p["a"]), {"a": X, "b": d})


WRONG_OPS = {
    "too few": (lambda g: (), "returned 0 cotangents for 1 inputs"),
    "too many": (lambda g: (g, g), "returned 2 cotangents for 1 inputs"),
    "too small": (lambda g: g[0], r"returned a cotangent of shape \(4,\) for input 0 of shape \(3, 4\)"),
    "other shape": (lambda g: np.ones((7, 4)), r"returned a cotangent of shape \(7, 4\) for input 0 of shape \(3, 4\)"),
    "a number": (lambda g: 0.0, "returned 0.0 for input 0; expected an array"),
    "wrong part": (
        lambda g: ad.Part(0, g),
        r"returned float32 \(3, 4\) for the part 0 of an input; expected shape \(4,\)",
    ),
    "raises": (lambda g: g @ g, "failed: matmul"),
    "raises late": (lambda g: lambda: g @ g, "failed: matmul"),
}


@pytest.mark.parametrize("name", WRONG_OPS)
def test_a_wrong_pullback_is_named(name: str):
    pullback, message = WRONG_OPS[name]

    @ad.differentiable
    def broken(x):
        return x * 1, pullback

    with pytest.raises(ad.PullbackError, match=f"the pullback of broken {message}"):
        grad_of(lambda p: ad.sum(broken(p)))


def test_a_rule_must_return_a_value_and_a_pullback():
    @ad.differentiable
    def forgetful(x):
        return x * 2

    @ad.differentiable
    def counting(x):
        return (x, np.arange(3)), lambda g: g[0]

    with pytest.raises(TypeError, match=r"forgetful: the rule returned ndarray; expected \(value, pullback\)"):
        forgetful(np.ones(2))
    with pytest.raises(TypeError, match="counting: the result has dtype int64"):
        grad_of(lambda p: ad.sum(counting(p)[0]))


def test_a_mistake_inside_a_rule_keeps_its_own_error():
    @ad.differentiable
    def broken(x):
        return x.no_such_method(), None

    with pytest.raises(AttributeError, match="no_such_method"):
        broken(X)


def test_a_pullback_runs_once():
    _, pullback = ad.vjp(ad.exp, X)
    pullback(X)
    with pytest.raises(ad.TapeError, match="already run"):
        pullback(X)
