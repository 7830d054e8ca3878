"""Degree scalers (section 2.2, equation 6; pna.degrees has equation 5).

A scaler is a factor for each node, a function of its degree d, that amplifies or attenuates the aggregates. Equation 6
asks for d > 0. At d = 0 every aggregate is 0, so a scaler only has to be finite there: it has the formula's value where
there is one (0 for amplification, 1 for identity), and the value at d = 1 where there is a pole (attenuation, inverse
linear).
"""

import math
import warnings
from collections.abc import Sequence
from importlib import import_module
from numbers import Real

import torch
from torch import Tensor
from torch.compiler import is_compiling

from pna.arguments import is_transformed, tensor

__all__ = ["SCALERS", "S", "check_scaler", "exponent", "factors", "linear", "scale"]

# The named scalers of equation 7 and the text: logarithmic ones by their α, linear ones by their power.
SCALERS: dict[str, tuple[str, float]] = {
    "identity": ("logarithmic", 0.0),
    "amplification": ("logarithmic", 1.0),
    "attenuation": ("logarithmic", -1.0),
    "linear": ("linear", 1.0),
    "inverse_linear": ("linear", -1.0),
}


def S(d: Tensor, alpha: float, delta: Tensor | float) -> Tensor:
    """Logarithmic scaler (equation 6): S(d, α) = (log(d + 1) / δ)^α.

    Parameters
    ----------
    d : Tensor [N]
        Degrees, in a floating dtype.
    alpha : float
        α, any real number: 1 amplifies, -1 attenuates, 0 is the identity.
    delta : Tensor or float
        δ of equation 5.

    Returns
    -------
    Tensor [N]
        The factor of each node.
    """
    _check_degrees(d)
    alpha = _number("alpha", alpha)
    return _power(d, _logarithm(d, _statistic("delta", delta)), alpha)


def linear(d: Tensor, power: float, mean_degree: Tensor | float) -> Tensor:
    """Linear scaler (section 2.2): (d / d̄)^power. The sum is the mean with S(d) = d.

    There is one difference from the text: d is divided by the mean degree of the training set, as in PyTorch Geometric.

    Parameters
    ----------
    d : Tensor [N]
        Degrees, in a floating dtype.
    power : float
        1 for linear, -1 for inverse_linear.
    mean_degree : Tensor or float
        d̄; 1 gives the text's S(d) = d.

    Returns
    -------
    Tensor [N]
        The factor of each node.
    """
    _check_degrees(d)
    power = _number("power", power)
    return _power(d, d.clamp(min=1) / _statistic("mean_degree", mean_degree), power)


def exponent(scaler: str | float) -> float:
    """The exponent of a scaler: α of a logarithmic one, the power of a linear one."""
    return SCALERS[scaler][1] if isinstance(scaler, str) else float(scaler)


def factors(
    d: Tensor,
    scalers: Sequence[str | float],
    delta: Tensor | float,
    mean_degree: Tensor | float,
    alpha: Tensor | None = None,
) -> Tensor:
    """Compute the factors of several scalers.

    Parameters
    ----------
    d : Tensor [N]
        Degrees, in a floating dtype.
    scalers : list of str or float
        Names from SCALERS, or numbers: α of equation 6.
    delta : Tensor or float
        δ of equation 5.
    mean_degree : Tensor or float
        The mean degree of the training set.
    alpha : Tensor [S], optional
        Exponents that are learned, in place of the scalers' own; the identity stays what it is.

    Returns
    -------
    Tensor [N, S]
        The factor of each node by each scaler.
    """
    bases: dict[str, Tensor] = {}
    columns = []
    for k, scaler in enumerate(scalers):
        check_scaler(scaler)
        kind, power = SCALERS[scaler] if isinstance(scaler, str) else ("logarithmic", float(scaler))
        fixed = scaler == "identity" or (alpha is None and power == 0)
        if kind not in bases and not fixed:
            bases[kind] = _logarithm(d, delta) if kind == "logarithmic" else d.clamp(min=1) / mean_degree
        if fixed:
            columns.append(torch.ones_like(d))
        else:
            columns.append(_power(d, bases[kind], power) if alpha is None else bases[kind] ** alpha[k])
    return torch.stack(columns, dim=-1)


def scale(d: Tensor, scaler: str | float, delta: Tensor | float, mean_degree: Tensor | float) -> Tensor:
    """Compute the factor of each node by one scaler, [N]; the arguments are those of `factors`."""
    _check_degrees(d)
    return factors(d, [scaler], _statistic("delta", delta), _statistic("mean_degree", mean_degree))[..., 0]


def check_scaler(scaler: str | float) -> None:
    """Raise an error unless the scaler is a name from SCALERS or a finite number."""
    if not (scaler in SCALERS if isinstance(scaler, str) else _is_finite(scaler)):
        raise ValueError(
            f"unknown scaler {scaler!r}; allowed: {', '.join(SCALERS)}, or a finite number, α of equation 6"
        )


def _is_finite(value: object) -> bool:
    """Whether a value is a real number, no bool, that a float can hold."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # of an integer beyond all floats
        return False


def _number(name: str, value: float) -> float:
    """Check that an exponent is a finite number, and return it."""
    if not _is_finite(value):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    return value


def _statistic(name: str, value: Tensor | float) -> Tensor | float:
    """Check that δ or d̄ is positive and finite, and return it; a tensor that the CPU cannot read is left unchecked."""
    if isinstance(value, Tensor):
        real = value.is_floating_point() and value.layout == torch.strided
        valid = real and (not _is_readable(value) or bool(((value > 0) & (value < math.inf)).all()))
    else:
        valid = _is_finite(value) and value > 0
    if not valid:
        raise ValueError(f"{name} must be positive and finite, got {value!r}")
    return value


def _check_degrees(d: Tensor) -> None:
    """Raise an error unless d is a tensor of degrees, finite and not negative where the CPU can read them."""
    tensor("d", d)
    if d.is_complex() or d.dtype == torch.bool:
        raise TypeError(f"d must be degrees in a floating dtype, got {d.dtype}")
    if _is_readable(d) and not bool(((d >= 0) & (d < math.inf)).all()):
        raise ValueError(f"d must be degrees, finite and not negative, got values from {d.min()} to {d.max()}")


def _is_readable(t: Tensor) -> bool:
    """Whether a tensor is on the CPU, and neither compiled nor under torch.func."""
    return t.is_cpu and type(t) in (Tensor, torch.nn.Parameter) and not (is_compiling() or is_transformed())


def _logarithm(d: Tensor, delta: Tensor | float) -> Tensor:
    """Compute log(d + 1) / δ, for d = 0 as for d = 1."""
    return torch.log1p(d.clamp(min=1)) / delta


def _power(d: Tensor, base: Tensor, exponent: float) -> Tensor:
    """Compute base^exponent, where base at d = 0 is that of d = 1; a positive exponent gives 0 there."""
    s = base**exponent
    return s.masked_fill(d == 0, 0) if exponent > 0 else s


_MOVED = ("DegreeStatistics", "check_histogram", "degree_histogram", "merge_histograms")


def __getattr__(name: str) -> object:
    """Find what is now in pna.degrees under its former name, until the next version."""
    if name not in _MOVED:
        raise AttributeError(f"module 'pna.scalers' has no attribute {name!r}")
    warnings.warn(f"pna.scalers.{name} is now pna.degrees.{name}", DeprecationWarning, stacklevel=2)
    return getattr(import_module("pna.degrees"), name)
