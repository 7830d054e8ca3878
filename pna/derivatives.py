"""The derivative of each aggregator with respect to one message.

Autograd derives the same from pna.aggregators, and the tests compare the two. Written out, the backward pass can run on
one block of messages after another, and on a GPU in one kernel. Each function takes the gradient g [N, ...] of its
aggregate and the messages m [E, ...] in CSR order, and returns g_i ∂aggregate_i/∂m_j, [E, ...].
"""

import functools

from torch import Tensor

from pna.aggregators import AGGREGATORS, EPSILON, Function, centred, centring, degree, expectation, unit
from pna.segments import max as segment_max
from pna.segments import spread
from pna.segments import sum as segment_sum

__all__ = ["DERIVATIVES", "derivative"]


def _sum(g: Tensor, m: Tensor, ptr: Tensor) -> Tensor:
    """Gradient through the sum: g_i ∂Σ_i/∂m_j = g_i, g [N, ...] -> [E, ...]."""
    return spread(g, ptr, m.shape[0])


def _mean(g: Tensor, m: Tensor, ptr: Tensor) -> Tensor:
    """Gradient through the mean: g_i ∂μ_i/∂m_j = g_i / d_i, g [N, ...] -> [E, ...]."""
    return spread(g / degree(m, ptr).clamp(min=1), ptr, m.shape[0])


def _max(g: Tensor, m: Tensor, ptr: Tensor) -> Tensor:
    """Gradient through the maximum, g [N, ...] -> [E, ...].

    g_i ∂max_i/∂m_j = g_i / ties where m_j is a maximum, else 0.
    """
    is_top = (m == spread(segment_max(m, ptr), ptr, m.shape[0])).to(m.dtype)
    return spread(g / segment_sum(is_top, ptr).clamp(min=1), ptr, m.shape[0]) * is_top


def _min(g: Tensor, m: Tensor, ptr: Tensor) -> Tensor:
    """Gradient through the minimum, -max(-X), whose two signs cancel, g [N, ...] -> [E, ...]."""
    return _max(g, -m, ptr)


def _var(g: Tensor, m: Tensor, ptr: Tensor) -> Tensor:
    """Gradient through the variance: g_i ∂σ²_i/∂m_j = 2 g_i (m_j - μ_i) / d_i, g [N, ...] -> [E, ...]."""
    return centred(m, ptr) * spread(2 * g / degree(m, ptr).clamp(min=1), ptr, m.shape[0])


def _std(g: Tensor, m: Tensor, ptr: Tensor) -> Tensor:
    """Gradient through the standard deviation, g [N, ...] -> [E, ...].

    g_i ∂σ_i/∂m_j = g_i (m_j - μ_i) / (d_i σ_i), σ with its ε.
    """
    c = centred(m, ptr)
    std = (expectation(c.square(), ptr) + EPSILON).sqrt()
    return c * spread(g / (degree(m, ptr).clamp(min=1) * std), ptr, m.shape[0])


def _moment(g: Tensor, m: Tensor, ptr: Tensor, n: int, rounded: bool) -> Tensor:
    """Gradient through the moment M_n, g_i ∂M_n/∂m_j, g [N, ...] -> [E, ...].

    ∂M_n/∂m_j = (|e| + ε)^(1/n - 1) ((m_j - μ)^(n-1) - E[(X - μ)^(n-1)]) / d with e = E[(X - μ)^n], and 0 at e = 0.
    Like the moment, it is computed in units of the neighbourhood's largest |m_j - μ|.
    """
    c, s = unit(centring(rounded)(m, ptr), ptr)
    lower = c ** (n - 1)
    e = expectation(lower * c, ptr)
    small, large = s.clamp(max=1), s.clamp(min=1)
    inside = (e.abs() * small**n + EPSILON / large**n).masked_fill(e == 0, 1)
    root = e.sign().abs() * small ** (n - 1) * inside ** (1 / n - 1)
    lower = lower - spread(expectation(lower, ptr), ptr, m.shape[0])
    return lower * spread(g * root / degree(m, ptr).clamp(min=1), ptr, m.shape[0])


def _softmax(g: Tensor, m: Tensor, ptr: Tensor) -> Tensor:
    """Gradient through the softmax, for normalised weights w, g [N, ...] -> [E, ...].

    g_i ∂softmax_i/∂m_j = g_i w_j (1 + m_j - softmax_i).
    """
    weight = (m - spread(segment_max(m, ptr), ptr, m.shape[0])).exp()
    total = segment_sum(weight, ptr)
    total = total + (total == 0)  # of an empty neighbourhood
    softmax = segment_sum(weight * m, ptr) / total
    return weight * spread(g / total, ptr, m.shape[0]) * (1 + m - spread(softmax, ptr, m.shape[0]))


def _softmin(g: Tensor, m: Tensor, ptr: Tensor) -> Tensor:
    """Gradient through the softmin, -softmax(-X), whose two signs cancel, g [N, ...] -> [E, ...]."""
    return _softmax(g, -m, ptr)


DERIVATIVES = {"sum": _sum, "mean": _mean, "max": _max, "min": _min, "var": _var, "std": _std}
DERIVATIVES |= {"softmax": _softmax, "softmin": _softmin}


def derivative(name: str) -> Function:
    """Look up the derivative of an aggregator by its name: a function of (g, m, ptr)."""
    if name in DERIVATIVES:
        return DERIVATIVES[name]
    if name in AGGREGATORS:
        raise ValueError(f"the aggregator {name!r} has no derivative: add one to pna.derivatives.DERIVATIVES")
    prefix, order = name.split("moment")
    return functools.partial(_moment, n=int(order), rounded=bool(prefix))
