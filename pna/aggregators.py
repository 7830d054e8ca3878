"""The aggregators (section 2.1, equations 1 to 4, and the appendix, equations 9 and 10): one function per equation.

Every aggregator is a function of the messages m [E, ...] in CSR order and the pointers ptr [N + 1]: the messages to
node i are the rows ptr[i] : ptr[i + 1] of m. It returns one value per node and channel, [N, ...]. An empty
neighbourhood gives 0, with a zero gradient. float16 and bfloat16 messages are accumulated in float32.
"""

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from pna import segments
from pna.arguments import tensor

__all__ = ["AGGREGATORS", "EPSILON", "Aggregator", "max", "mean", "min", "moment", "resolve", "softmax", "softmin"]
__all__ += ["std", "sum", "var"]

EPSILON = 1e-5  # ε of equations 3 and 4

Function = Callable[[Tensor, Tensor], Tensor]


def _checked(function: Function) -> Function:
    """Decorate an aggregator: check that m and ptr are in CSR order, and compute half precision in float32."""

    @functools.wraps(function)
    def aggregator(m: Tensor, ptr: Tensor) -> Tensor:
        """Check the messages m [E, ...], aggregate them to [N, ...], and return the result in their dtype."""
        _check(m, ptr)
        wide = m.float() if m.dtype in (torch.float16, torch.bfloat16) else m
        return function(wide, ptr).to(m.dtype)

    return aggregator


@_checked
def sum(m: Tensor, ptr: Tensor) -> Tensor:
    """Sum of the messages, Σ_j m_j: the mean with the linear scaler S(d) = d (section 2.2)."""
    return segments.sum(m, ptr)


@_checked
def mean(m: Tensor, ptr: Tensor) -> Tensor:
    """Mean of the messages (equation 1): μ_i = 1/d_i Σ_j m_j."""
    return expectation(m, ptr)


@_checked
def max(m: Tensor, ptr: Tensor) -> Tensor:
    """Maximum of the messages (equation 2): max_j m_j. Equal maxima share the gradient evenly."""
    return segments.max(m, ptr)


@_checked
def min(m: Tensor, ptr: Tensor) -> Tensor:
    """Minimum of the messages (equation 2): min_j m_j. Equal minima share the gradient evenly."""
    return -segments.max(-m, ptr)


@_checked
def var(m: Tensor, ptr: Tensor) -> Tensor:
    """Variance of the messages, σ² = E[(X - μ)²]: equation 3's E[X²] - E[X]² without its cancellation."""
    return expectation(centred(m, ptr).square(), ptr)


@_checked
def std(m: Tensor, ptr: Tensor) -> Tensor:
    """Standard deviation of the messages (equation 3): σ = √(ReLU(σ²) + ε), with the σ² of `var`, never negative."""
    variance = expectation(centred(m, ptr).square(), ptr)
    return (variance + EPSILON).sqrt() * degree(m, ptr).clamp(max=1)


def moment(n: int, rounded: bool = False) -> Function:
    """Create the aggregator M_n (equation 4): the n-th root of the central moment e = E[(X - μ)^n].

    It is sign(e) (|e| + ε)^(1/n), with the ε that the text asks for and the sign of an odd moment. It grows linearly
    with the messages, as the other aggregators do; E[(X - μ)^n] and E[(X - μ)^n] / σ^n of equation 9 do not.

    M_n is discontinuous at e = 0: 0 there, ±ε^(1/n) next to it (std is √ε). Rounding errors in μ (D12, or equal
    messages that a matrix product made unequal) therefore land on any of the three.

    Parameters
    ----------
    n : int
        Order of the moment, from 2 to 999.
    rounded : bool
        Whether the messages are centred once, with a rounded μ, as in departure D12.

    Returns
    -------
    Function
        The aggregator, a function of (m, ptr).
    """
    if isinstance(n, bool) or not isinstance(n, int) or not 2 <= n < 1000:
        raise ValueError(f"n must be an integer from 2 to 999 (equation 4), got {n!r}")

    @_checked
    def normalised_moment(m: Tensor, ptr: Tensor) -> Tensor:
        """M_n of each neighbourhood (equation 4): messages m [E, ...] in CSR order -> [N, ...]."""
        c, s = unit(centring(rounded)(m, ptr), ptr)
        e = expectation(c**n, ptr)
        small, large = s.clamp(max=1), s.clamp(min=1)  # s = small · large, so that neither power is out of range
        inside = e.abs() * small**n + EPSILON / large**n
        inside = inside.masked_fill(e == 0, 1)  # in large units ε is 0, and the slope of a root of 0 infinite
        return e.sign() * large * inside ** (1 / n)

    return normalised_moment


@_checked
def softmax(m: Tensor, ptr: Tensor) -> Tensor:
    """Softmax aggregation (equation 10): Σ_j m_j exp(m_j) / Σ_k exp(m_k); unlike D10, it cannot overflow."""
    top = segments.max(m.detach(), ptr)
    weight = (m - segments.spread(top, ptr, m.shape[0])).exp()  # 1 at the maximum
    total = segments.sum(weight, ptr)
    return segments.sum(weight * m, ptr) / (total + (total == 0))  # 0 only for an empty neighbourhood


@_checked
def softmin(m: Tensor, ptr: Tensor) -> Tensor:
    """Softmin aggregation (equation 10): softmin(X) = -softmax(-X)."""
    return -softmax(-m, ptr)


def expectation(m: Tensor, ptr: Tensor) -> Tensor:
    """Expectation E[X] of each neighbourhood, the mean of its multiset: [E, ...] -> [N, ...], 0 for an empty one."""
    return segments.sum(m, ptr) / degree(m, ptr).clamp(min=1)


def centred(m: Tensor, ptr: Tensor) -> Tensor:
    """Centre the messages: X - μ, [E, ...]. One message is subtracted first, so that equal messages give exactly 0."""
    if m.shape[0] == 0:
        return m
    first = m.detach().index_select(0, ptr[:-1].clamp(max=m.shape[0] - 1))  # [N, ...]; of an empty one, any
    c = m - segments.spread(first, ptr, m.shape[0])
    return c - segments.spread(expectation(c, ptr), ptr, m.shape[0])


def centred_once(m: Tensor, ptr: Tensor) -> Tensor:
    """Centre the messages as D12 does: X - μ with μ rounded, so that the deviations of two messages need not cancel."""
    return m - segments.spread(expectation(m, ptr), ptr, m.shape[0])


def centring(rounded: bool) -> Function:
    """The function that centres the messages of a moment: `centred`, or `centred_once` for D12."""
    return centred_once if rounded else centred


def unit(c: Tensor, ptr: Tensor) -> tuple[Tensor, Tensor]:
    """Divide c by s [N, ...], the largest |c| of each neighbourhood or 1, so that no power leaves the floats' range."""
    s = segments.max(c.detach().abs(), ptr)
    s = s.masked_fill(s == 0, 1)
    return c / segments.spread(s, ptr, c.shape[0]), s


def degree(m: Tensor, ptr: Tensor) -> Tensor:
    """Degrees d_i in the dtype of the messages, shaped to broadcast over their channels, [N, 1, ...]."""
    return ptr.diff().to(m.dtype).view(-1, *[1] * (m.dim() - 1))


@dataclass(frozen=True)
class Aggregator:
    """An aggregator and its laws, from which the layer knows how to compute it without messages.

    Attributes
    ----------
    function : Function
        The equation, a function of (m, ptr).
    shift : str
        What a constant c added to every message adds to the result: "one" c, "degree" d·c, "none" nothing.
    power : int, optional
        The p in aggregate(λ·m) = λ^p aggregate(m) for λ > 0, up to ε; None if there is no such law.
    where : str
        Where the paper defines it.
    """

    function: Function
    shift: Literal["one", "degree", "none"]
    power: int | None
    where: str


AGGREGATORS: dict[str, Aggregator] = {
    "mean": Aggregator(mean, "one", 1, "equation 1"),
    "max": Aggregator(max, "one", 1, "equation 2"),
    "min": Aggregator(min, "one", 1, "equation 2"),
    "std": Aggregator(std, "none", 1, "equation 3"),
    "var": Aggregator(var, "none", 2, "equation 3, squared"),
    "sum": Aggregator(sum, "degree", 1, "section 2.2"),
    "softmax": Aggregator(softmax, "one", None, "equation 10, appendix E"),
    "softmin": Aggregator(softmin, "one", None, "equation 10, appendix E"),
}


def resolve(name: str) -> Aggregator:
    """Look up an aggregator by name: one of AGGREGATORS, `moment<n>` for M_n, or `rounded_moment<n>` for D12's."""
    if isinstance(name, str) and name in AGGREGATORS:
        if name.split() != [name]:
            raise ValueError(f"the name of an aggregator must be one word, got {name!r}")
        return AGGREGATORS[name]
    match = re.fullmatch("(rounded_)?moment([1-9][0-9]{0,2})", name) if isinstance(name, str) else None
    if match and int(match[2]) >= 2:
        return Aggregator(moment(int(match[2]), bool(match[1])), "none", 1, "equation 4")
    raise ValueError(
        f"unknown aggregator {name!r}; allowed: {', '.join(AGGREGATORS)}, and moment<n> for n from 2 to 999"
    )


def _check(m: Tensor, ptr: Tensor) -> None:
    """Raise an error unless m and ptr are messages in CSR order."""
    tensor("m", m)
    tensor("ptr", ptr)
    if not m.is_floating_point():
        raise TypeError(f"m must have a floating dtype, got {m.dtype}")
    if m.dim() == 0:
        raise ValueError("m must be [E, ...], one message a row, got a tensor without dimensions")
    if ptr.dtype not in (torch.int32, torch.int64) or ptr.dim() != 1 or ptr.shape[0] == 0:
        raise ValueError(f"ptr must be an integer tensor [N + 1], got {ptr.dtype} of shape {tuple(ptr.shape)}")
    if ptr.device != m.device:
        raise ValueError(f"ptr and m must be on one device, got {ptr.device} and {m.device}")
    if not ptr.is_cpu or torch._C._len_torch_dispatch_stack() > 0:  # then values are slow to read, or not there
        return
    if not (ptr[0] == 0 and ptr[-1] == m.shape[0] and bool((ptr.diff() >= 0).all())):
        raise ValueError(f"ptr must rise from 0 to the number of messages, {m.shape[0]}, got {ptr.tolist()[:8]}…")
