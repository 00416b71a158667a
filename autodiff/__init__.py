"""Reverse-mode differentiation over NumPy and CuPy arrays.

    import autodiff as ad
    loss, gradient = ad.value_and_grad(lambda p: ad.mean(ad.tanh(x @ p["W"]) ** 2))({"W": W})

Every op takes arrays or Tensors by position and static parameters by keyword. On plain arrays it is a
plain function. ``tape`` documents how to write an op, and ``check`` how to test its gradient.
"""

# isort: off
# fmt: off
from autodiff import operators as _operators  # gives Tensor its operators
from autodiff.backend import (
    Array, Arrays, BackendUnavailable, DType, Namespace, Pair, array_module, available, describe_device,
    special_module, synchronize, to_device, to_host,
)
from autodiff.backward import PullbackError
from autodiff.check import GradientMismatch, check_gradients
from autodiff.composed import layer_norm, softmax_cross_entropy
from autodiff.cumulative import cumprod, cumsum, logcumsumexp
from autodiff.elementwise import (
    absolute, add, astype, clip, divide, exp, gelu, imag, log, log1p, make_complex, maximum, minimum, multiply,
    negative, power, real, sigmoid, softplus, sqrt, subtract, tanh, where,
)
from autodiff.gradient import value_and_grad, vjp
from autodiff.linalg import einsum, matmul
from autodiff.reduce import log_softmax, logsumexp, max, mean, softmax, sum
from autodiff.shape import (
    broadcast_to, concatenate, flip, index, pad, reshape, roll, split, stack, swapaxes, take, transpose,
)
from autodiff.spectral import irfft, rfft
from autodiff.tape import Part, Pullback, Same, TapeError, Tensor, Value, differentiable, plain, stop_gradient

__all__ = [
    "Array", "Arrays", "BackendUnavailable", "DType", "GradientMismatch", "Namespace", "Pair", "Part", "Pullback",
    "PullbackError", "Same", "TapeError", "Tensor", "Value", "absolute", "add", "array_module", "astype", "available",
    "broadcast_to", "check_gradients", "clip", "concatenate", "cumprod", "cumsum", "describe_device",
    "differentiable", "divide", "einsum", "exp", "flip", "gelu", "imag", "index", "irfft", "layer_norm", "log",
    "log1p", "log_softmax", "logcumsumexp", "logsumexp", "make_complex", "matmul", "max", "maximum", "mean",
    "minimum", "multiply", "negative", "pad", "plain", "power", "real", "reshape", "rfft", "roll", "sigmoid",
    "softmax", "softmax_cross_entropy", "softplus", "special_module", "split", "sqrt", "stack", "stop_gradient",
    "subtract", "sum", "swapaxes", "synchronize", "take", "tanh", "to_device", "to_host", "transpose",
    "value_and_grad", "vjp", "where",
]
