"""The combined aggregation ⊕ = scalers ⊗ aggregators (section 2.3, equation 7), and the map that follows it."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pna import aggregators as equations
from pna.arguments import flag, sequence
from pna.degrees import DegreeStatistics, check_histogram
from pna.scalers import SCALERS, check_scaler, exponent, factors
from pna.towers import product

__all__ = ["CombinedAggregation"]


class CombinedAggregation(nn.Module):
    """The combined aggregation ⊕ (equation 7): every scaler times every aggregate.

    The arguments are those of PNAConv. δ and the mean degree are buffers, or parameters if train_norm is set and a
    scaler depends on them; with train_alpha, so is `alpha` [S], the exponents of all scalers.
    """

    def __init__(
        self,
        aggregators: Sequence[str],
        scalers: Sequence[str | float],
        deg: Tensor | DegreeStatistics | None,
        train_norm: bool = False,
        train_alpha: bool = False,
    ) -> None:
        super().__init__()
        self.aggregators: tuple[str, ...] = sequence("aggregators", aggregators)
        self.scalers: tuple[str | float, ...] = sequence("scalers", scalers)
        for name in self.aggregators:
            equations.resolve(name)
        for scaler in self.scalers:
            check_scaler(scaler)
        self.scalers = tuple(scaler if isinstance(scaler, str) else float(scaler) for scaler in self.scalers)
        self.statistics = _statistics(self.scalers, deg)
        learned = flag("train_alpha", train_alpha) and any(scaler != "identity" for scaler in self.scalers)
        varying = [s for s in self.scalers if s != "identity" and (learned or exponent(s) != 0)]
        kinds = {SCALERS[s][0] if isinstance(s, str) else "logarithmic" for s in varying}
        self._add("delta", flag("train_norm", train_norm) and "logarithmic" in kinds)
        self._add("mean_degree", train_norm and "linear" in kinds)
        self.alpha = nn.Parameter(torch.empty(len(self.scalers))) if learned else None
        self.reset_parameters()

    def _add(self, name: str, trained: bool) -> None:
        """Register an uninitialised scalar `name`: a parameter if it is trained, a buffer otherwise."""
        if trained:
            self.register_parameter(name, nn.Parameter(torch.empty(())))
        else:
            self.register_buffer(name, torch.empty(()))

    def reset_parameters(self) -> None:
        """Reset δ and the mean degree to those of the training set, and the exponents to those of the scalers."""
        with torch.no_grad():
            if self.alpha is not None:
                self.alpha.copy_(torch.tensor([exponent(scaler) for scaler in self.scalers]))
            self.delta.fill_(self.statistics.delta)
            self.mean_degree.fill_(self.statistics.mean_degree)

    @property
    def width(self) -> int:
        """Number of scaled aggregates of each feature, A·S."""
        return len(self.aggregators) * len(self.scalers)

    def forward(self, aggregates: Tensor, degree: Tensor) -> Tensor:
        """Scale the aggregates [N, T, A, F] by the degrees [N] -> [N, T, S·A·F], 12F wide in the paper."""
        scale = self.factors(degree).to(aggregates.dtype)  # [N, S]
        return (scale[:, None, :, None, None] * aggregates.unsqueeze(2)).flatten(2)

    def mapped(self, aggregates: Tensor, degree: Tensor, weight: Tensor, scale: Tensor | None = None) -> Tensor:
        """Multiply the scaled aggregates by a weight, W (S(d) ⊗ aggregates) = Σ_s S_s(d) W_s aggregates.

        The wide tensor that `forward` returns never exists: aggregates [N, T, A, F], degree [N] and weight [T, out,
        S·A·F] -> [N, T, out]. `scale` is S(d) [N, S], if it is known.
        """
        y = product(aggregates.flatten(-2), self.by_scaler(weight))  # [N, T, S·out]
        if self.scalers == ("identity",):
            return y
        scale = self.factors(degree) if scale is None else scale
        return (y.unflatten(-1, (len(self.scalers), -1)) * scale.to(y.dtype)[:, None, :, None]).sum(2)

    def by_scaler(self, weight: Tensor) -> Tensor:
        """Stack the weights W_s of all scalers: [T, out, S·A·F] -> [T, S·out, A·F]."""
        return weight.unflatten(-1, (len(self.scalers), -1)).transpose(1, 2).flatten(1, 2)

    def by_output(self, weights: Tensor) -> Tensor:
        """Invert `by_scaler`, for gradients: [T, S·out, A·F] -> [T, out, S·A·F]."""
        return weights.unflatten(1, (len(self.scalers), -1)).transpose(1, 2).flatten(2)

    def factors(self, degree: Tensor) -> Tensor:
        """Compute S_s(d) of every node: degree [N] -> [N, S]."""
        wide = torch.promote_types(self.delta.dtype, torch.float32)  # float16 ends at degree 65,504
        d, delta, mean_degree = degree.to(wide), self.delta.to(wide), self.mean_degree.to(wide)
        alpha = getattr(self, "alpha", None)
        return factors(d, self.scalers, delta, mean_degree, None if alpha is None else alpha.to(wide))

    def extra_repr(self) -> str:
        """Aggregators and scalers, for print()."""
        return f"aggregators={list(self.aggregators)}, scalers={list(self.scalers)}"


def _of_isolated_nodes(deg: Tensor) -> bool:
    """Whether a degree histogram counts nodes of degree 0 alone; then δ would be 0."""
    check_histogram("deg", deg)
    return bool(deg[1:].sum() == 0)


def _statistics(scalers: Sequence[str | float], deg: Tensor | DegreeStatistics | None) -> DegreeStatistics:
    """Degree statistics from `deg`; raise a ValueError if it is missing and a scaler needs it."""
    if isinstance(deg, DegreeStatistics):
        return deg
    needed = any(scaler != "identity" for scaler in scalers)
    if deg is not None and (needed or not _of_isolated_nodes(deg)):
        return DegreeStatistics.from_histogram(deg, name="deg")
    if needed:
        raise ValueError(
            f"deg is missing: the scalers {list(scalers)} need the histogram of the training set's degrees "
            "(PNAConv.get_degree_histogram); only the identity does without"
        )
    return DegreeStatistics(delta=1.0, mean_degree=1.0)
