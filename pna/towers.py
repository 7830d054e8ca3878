"""Towers: T linear maps side by side, as one batched matrix product (section 2.3, after Gilmer et al.)."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn.resolver import activation_resolver

from pna.arguments import positive

__all__ = ["Activation", "TowerLinear", "affine", "mlp", "product"]

Activation = str | Callable[[Tensor], Tensor] | None


def product(x: Tensor, weight: Tensor) -> Tensor:
    """x [N, T, in] and weight [T, out, in] -> [N, T, out]; x [N, 1, in] is given to every tower."""
    if x.shape[1] == 1:
        return nn.functional.linear(x.squeeze(1), weight.flatten(0, 1)).unflatten(-1, weight.shape[:2])
    return torch.bmm(x.transpose(0, 1), weight.transpose(1, 2)).transpose(0, 1)


def affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The same with a bias [T, out] for every tower."""
    if x.shape[1] == 1:
        return nn.functional.linear(x.squeeze(1), weight.flatten(0, 1), bias.flatten()).unflatten(-1, bias.shape)
    return torch.baddbmm(bias.unsqueeze(1), x.transpose(0, 1), weight.transpose(1, 2)).transpose(0, 1)


class TowerLinear(nn.Module):
    """W_t x + b_t for every tower t: [N, T or 1, in] -> [N, T, out]."""

    def __init__(self, towers: int, in_features: int, out_features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(towers, out_features, in_features))
        self.bias = nn.Parameter(torch.empty(towers, out_features))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform in ±1/√in, as torch.nn.Linear."""
        bound = 1 / math.sqrt(self.weight.shape[-1])
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        """[N, T or 1, in] -> [N, T, out]."""
        return affine(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Towers and sizes."""
        towers, out_features, in_features = self.weight.shape
        return f"towers={towers}, {in_features}, {out_features}"


def mlp(
    name: str, layers: int, towers: int, sizes: tuple[int, int], act: Activation, act_kwargs: dict[str, Any] | None
) -> nn.Sequential:
    """`layers` linear maps with activations between them: the networks M and U of equation 8."""
    activation = activation_resolver(act, **(act_kwargs or {})) or nn.Identity()
    modules: list[nn.Module] = [TowerLinear(towers, *sizes)]
    for _ in range(positive(name, layers) - 1):
        modules += [activation if isinstance(activation, nn.Module) else _Elementwise(activation)]
        modules += [TowerLinear(towers, sizes[1], sizes[1])]
    return nn.Sequential(*modules)


class _Elementwise(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """The function of x."""
        return self.function(x)
