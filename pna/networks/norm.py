"""Batch normalisation: the parameters, the running statistics and the formula that all networks share."""

from functools import cache

import torch
from torch import Tensor, nn

from pna.kernels.selection import kernels_for

__all__ = ["EPSILON", "BatchNorm"]

EPSILON = 1e-5
MOMENTUM = 0.1  # the weight of each batch in the running statistics


class BatchNorm(nn.Module):
    """Batch normalisation over the rows of [rows, F], as torch.nn.BatchNorm1d.

    D7: the released code sees the nodes as [graphs, N, F] and forgets to exchange the last two axes where N = F. With
    `position_norm` each node position is then normalised over graphs and features.
    """

    def __init__(self, features: int, affine: bool = True, position_norm: bool = False) -> None:
        super().__init__()
        self.position_norm = position_norm
        self.weight = nn.Parameter(torch.ones(features)) if affine else None
        self.bias = nn.Parameter(torch.zeros(features)) if affine else None
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))

    def forward(self, x: Tensor, nodes_per_graph: int | None = None) -> Tensor:
        """Normalise: [rows, F] -> [rows, F]; nodes_per_graph: the size of all graphs, if the rows are their nodes."""
        F = x.shape[-1]
        if self.position_norm and nodes_per_graph == F:
            positions = x.view(-1, F, F).transpose(1, 2).reshape(-1, F)  # [graphs · features, positions]
            return self._over_rows(positions).view(-1, F, F).transpose(1, 2).reshape(-1, F)
        return self._over_rows(x)

    def _over_rows(self, x: Tensor) -> Tensor:
        """Normalise [rows, F] over all rows; in evaluation by the running statistics."""
        known = None if self.training else torch.stack([self.running_mean, self.running_var])  # [2, F]
        if kernels := kernels_for("pna.networks.kernels.batchnorm", x, known):
            y, (mean, var) = kernels.normalise(x, self.weight, self.bias, known)
        else:
            var, mean = torch.var_mean(x, dim=0, unbiased=False) if self.training else known.flip(0)
            y = (x - mean) * torch.rsqrt(var + EPSILON) * self.weight + self.bias
        if self.training:
            self.remember(mean, var, len(x))
        return y

    def moments(self, x: Tensor, real: Tensor, count: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return x - mean, mean and variance of x [V, F] or [B, F, ...] over all axes but the second, without padding.

        real: 1 for a real entry and 0 for padding, [V, 1] or [B, 1, ...]; count []: how many real entries a feature
        has. In training, mean and variance, [1, F] or [1, F, ...], update the running statistics; in evaluation, these
        are used in their place.
        """
        if not self.training:
            mean, var = (t.view(1, -1, *[1] * (x.dim() - 2)) for t in (self.running_mean, self.running_var))
            return x - mean, mean, var
        axes, count = [axis for axis in range(x.dim()) if axis != 1], count.clamp(min=1)  # messages may be none
        mean = (x * real).sum(axes, keepdim=True) / count
        centred = x - mean
        var = (centred.square() * real).sum(axes, keepdim=True) / count
        self.remember(mean.flatten(), var.flatten(), count)
        return centred, mean, var

    @torch.no_grad()
    def remember(self, mean: Tensor, var: Tensor, rows: int | Tensor, batches: int = 1) -> None:
        """Update the running statistics with the mean and biased variance, [F] each, of a batch of `rows` rows.

        batches: how many successive batches of that size the statistics stand for, averaged by `recent`.
        """
        mean, var, decay = mean.detach(), var.detach(), (1 - MOMENTUM) ** batches
        self.running_mean.mul_(decay).add_(mean, alpha=1 - decay)
        if isinstance(rows, int):
            self.running_var.mul_(decay).add_(var, alpha=(1 - decay) * rows / max(1, rows - 1))
        else:
            self.running_var.mul_(decay).add_(rows / (rows - 1).clamp(min=1) * var, alpha=1 - decay)

    @staticmethod
    def recent(statistics: Tensor) -> Tensor:
        """Average the statistics of successive batches as `remember` would: [batches, 2, F] -> [2, F]."""
        weights = _fading(len(statistics), statistics.dtype, statistics.device)
        return (weights * statistics).sum(0) if len(statistics) > 1 else statistics[0]


@cache
def _fading(count: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Weights of `count` successive batches, the last one's the largest, [count, 1, 1]."""
    powers = torch.logspace(count - 1, 0, count, base=1 - MOMENTUM, dtype=dtype, device=device)
    return (powers * (MOMENTUM / (1 - (1 - MOMENTUM) ** count))).view(-1, 1, 1)
