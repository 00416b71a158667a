"""At inference, set shifts below a threshold to exactly 0, so that a head does not blur over long sequences."""

from __future__ import annotations

from autodiff import Array, Pullback, array_module, differentiable, expect


@differentiable
def stabilise(s: Array, *, tau: float | Array) -> tuple[Array, Pullback]:
    """Set the shifts in s (..., 3) below ``tau`` to 0 and divide the others by their sum.

    This equals the paper's softmax over the offsets that remain. If none would remain, which needs tau > 1/3, the
    largest do. The gradient treats the choice as constant. An array ``tau`` has to broadcast against s.
    """
    if s.ndim == 0 or s.shape[-1] != 3:
        raise ValueError(f"s has shape {s.shape}; expected (..., 3): left, stay, right")
    expect.real(s)
    if not getattr(tau, "shape", ()):
        tau = expect.number("tau", tau)
        if not 0 <= tau <= 1:
            raise ValueError(f"tau is {tau}; expected a number from 0 to 1")
    xp = array_module(s)
    largest = xp.max(s, axis=-1, keepdims=True)
    remains = (s >= tau) | ((s == largest) & (largest < tau)) | (s != s)  # NaN remains NaN
    kept = xp.where(remains, s, 0.0)
    total = xp.sum(kept, axis=-1, keepdims=True)
    y = kept / total

    def pullback(g):
        inner = xp.sum(g * y, axis=-1, keepdims=True)
        return xp.where(remains, (g - inner) / total, 0.0)

    return y, pullback
