"""Bad input is one clear exception that names the op, what it was given and what was expected."""

from __future__ import annotations

import numpy as np
import pytest

import autodiff as ad
from autodiff import backend
from tests.naming import raises_naming

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
    "transpose": (lambda: ad.transpose(X, axes=(0,)), ValueError, ["transpose", "2 axes"]),
    "concatenate of none": (lambda: ad.concatenate(), ValueError, ["concatenate", "at least one"]),
    "concatenate": (lambda: ad.concatenate(X, Y), ValueError, ["concatenate", "(3, 4)", "(5, 6)", "axis 0"]),
    "stack": (lambda: ad.stack(X, Y), ValueError, ["stack", "same shape"]),
    "stack of none": (lambda: ad.stack(), ValueError, ["stack", "one or more"]),
    "split": (lambda: ad.split(X, sections=2), ValueError, ["split", "(3, 4)", "2 equal parts"]),
    "pad": (lambda: ad.pad(X, widths=((1, 1),)), ValueError, ["pad", "2 pairs"]),
    "pad less than nothing": (lambda: ad.pad(X, widths=((1, 1), (-1, 0))), ValueError, ["pad", "not negative"]),
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
    "einsum result": (lambda: ad.einsum(X, subscripts="ij->k"), ValueError, ["einsum", "'k'", "letters of the terms"]),
    "einsum arrow": (lambda: ad.einsum(X, subscripts="ij"), ValueError, ["einsum", "->"]),
    "irfft": (lambda: ad.irfft(X, n=9), ValueError, ["irfft", "n = 9", "5 bins", "4"]),
    "rfft": (lambda: ad.rfft(np.ones(3, complex)), ValueError, ["rfft", "real"]),
    "layer_norm": (lambda: ad.layer_norm(X, X, X), ValueError, ["layer_norm", "last axis"]),
    "layer_norm of nothing": (lambda: ad.layer_norm(X[:, :0], X[0, :0], X[0, :0]), ValueError, ["layer_norm", "at least one"]),
    "float targets": (lambda: ad.softmax_cross_entropy(X, X[:, 0]), TypeError, ["cross_entropy", "integers"]),
    "no total": (lambda: ad.softmax_cross_entropy(X, np.array([0, 1, 2]), total=0), ValueError, ["total is 0", "positive"]),
    "targets": (lambda: ad.softmax_cross_entropy(X, np.array([0, 1])), ValueError, ["cross_entropy", "(2,)", "shape"]),
    "target": (lambda: ad.softmax_cross_entropy(X, np.array([0, 1, 4])), IndexError, ["cross_entropy", "0 to 3"]),
    "float mask": (lambda: ad.softmax_cross_entropy(X, np.array([0, 1, 2]), X[:, 0]), ValueError, ["boolean mask"]),
    "complex of integers": (lambda: ad.make_complex(X, np.ones((3, 4), int)), TypeError, ["make_complex", "real floating-point"]),
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
    raises_naming(*BAD_CALLS[name])


def test_bad_input_is_named_while_recording():
    """The same messages with Tensors: found when the op is called, never in a pullback."""
    with pytest.raises(ValueError, match=r"add\(float32 \(3, 4\), float32 \(5, 6\)\)"):
        grad_of(lambda p: ad.sum(p + Y))


def test_mixing_devices_is_an_error_that_says_so():
    d = ad.to_device(X, "standin")
    for call, (op, first, second) in {
        (lambda: ad.add(X, d)): ("add", "cpu", "standin"),
        (lambda: ad.add(d, X)): ("add", "standin", "cpu"),
        (lambda: grad_of(lambda p: p * d)): ("multiply", "cpu", "standin"),
        (lambda: grad_of(lambda p: ad.multiply(d, p))): ("multiply", "standin", "cpu"),
    }.items():
        said = f"^{op}: arrays on different devices: argument 1 is on {second}, those before it on {first};"
        with pytest.raises(TypeError, match=said):
            call()
    for call in (lambda: d + X, lambda: X + d):  # the arrays' own operators
        with pytest.raises(TypeError, match="Unsupported type"):
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

    @ad.differentiable
    def signs(x):
        return x > 0, lambda g: g

    with pytest.raises(TypeError, match="signs: the result has dtype bool"):
        grad_of(lambda p: ad.sum(signs(p)))


def test_a_number_of_a_type_not_met_before_has_no_device():
    backend._OWNERS.pop(np.uint16, None)
    value, gradient = ad.value_and_grad(lambda p: ad.sum(p * np.uint16(2)))(np.ones(2))
    assert value == 4 and np.array_equal(gradient, [2, 2])


def test_a_tensor_tells_what_its_array_is_and_an_op_what_it_does():
    def loss(p):
        assert (p.shape, p.dtype, p.ndim, p.size) == ((2, 3), np.float32, 2, 6)
        return ad.sum(p)

    grad_of(loss, np.ones((2, 3), np.float32))
    assert ad.tanh.__name__ == "tanh" and ad.tanh.__wrapped__ is not ad.tanh


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
