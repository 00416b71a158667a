"""The definition: a loop over time steps."""

from __future__ import annotations

from autodiff import Array, Pair, Pullback, Same, array_module, differentiable


def step(h: Same, z: Same, c: Same) -> Same:
    """h_t from h_{t-1}."""
    return (1 - z) * h + z * c


@differentiable
def gated_sequential(z: Array, c: Array, h0: Array) -> tuple[Pair, Pullback]:
    return walk(z, c, h0)


def walk(z: Array, c: Array, h0: Array) -> tuple[Pair, Pullback]:
    """The loop, and as its pullback a loop from the end."""
    xp = array_module(z, c, h0)
    states = xp.empty(z.shape, xp.result_type(z, c, h0))  # h_1 .. h_T
    h = h0
    for t in range(z.shape[1]):
        h = step(h, z[:, t], c[:, t])
        states[:, t] = h

    def pullback(g):
        g_states, carried = g  # carried: the cotangent of h_t through later time steps
        d_z, d_c = xp.empty_like(states), xp.empty_like(states)
        for t in reversed(range(z.shape[1])):
            before = states[:, t - 1] if t else h0
            carried = carried + g_states[:, t]
            d_z[:, t] = carried * (c[:, t] - before)
            d_c[:, t] = carried * z[:, t]
            carried = carried * (1 - z[:, t])
        return d_z, d_c, carried

    return (states, h), pullback
