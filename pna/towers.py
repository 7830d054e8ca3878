"""Towers: T linear maps side by side, as one batched matrix product (section 2.3, after Gilmer et al.)."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pna import products
from pna.arguments import MOST_LAYERS, positive

__all__ = ["Activation", "EachTower", "LazyWeights", "TowerLinear", "affine", "in_towers", "mlp", "product"]
__all__ += ["product_backward"]

Activation = str | Callable[[Tensor], Tensor] | None


def product(x: Tensor, weight: Tensor) -> Tensor:
    """Compute W_t x for every tower t: x [N, T, in], or [N, 1, in] for all, and weight [T, out, in] -> [N, T, out]."""
    return affine(x, weight, None)


def product_backward(g: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the gradients of x and of the weight from that of their product, g [N, T, out]."""
    if x.shape[1] == 1:
        g = g.flatten(1)  # [N, T·out]
        return (g @ weight.flatten(0, 1)).unsqueeze(1), (g.t() @ x.squeeze(1)).view(weight.shape)
    g = g.transpose(0, 1)  # [T, N, out]
    return torch.bmm(g, weight).transpose(0, 1), torch.bmm(g.transpose(1, 2), x.transpose(0, 1))


def affine(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute W_t x + b_t for every tower t, as `product` with a bias [T, out]."""
    if x.shape[1] == 1:
        flat = None if bias is None else bias.flatten()
        return products.linear(x.squeeze(1), weight.flatten(0, 1), flat).unflatten(-1, weight.shape[:2])
    return products.batched(x.transpose(0, 1), weight, bias).transpose(0, 1)


class LazyWeights(nn.Module):
    """A module whose weight and bias may have no size yet; its state dict then holds them as they are."""

    def _save_to_state_dict(self, destination: dict[str, Tensor], prefix: str, keep_vars: bool) -> None:
        """Save weight and bias, which torch cannot detach while they have no size."""
        if isinstance(self.weight, nn.UninitializedParameter):
            destination.update({f"{prefix}weight": self.weight, f"{prefix}bias": self.bias})
        else:
            super()._save_to_state_dict(destination, prefix, keep_vars)

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *args: object) -> None:
        """Load weight and bias, unless they have no size either here or there."""
        if not all(nn.parameter.is_lazy(weight) for weight in (self.weight, state_dict.get(f"{prefix}weight"))):
            super()._load_from_state_dict(state_dict, prefix, *args)


class TowerLinear(LazyWeights):
    """The linear maps W_t x + b_t of T towers; a size of 0 means that it is not known yet."""

    def __init__(self, towers: int, in_features: int, out_features: int) -> None:
        super().__init__()
        known = in_features > 0 and out_features > 0
        self.weight = _parameter(towers, out_features, in_features) if known else nn.UninitializedParameter()
        self.bias = _parameter(towers, out_features) if known else nn.UninitializedParameter()
        self.reset_parameters()

    def materialise(self, towers: int, in_features: int, out_features: int) -> None:
        """Create the weights of a layer whose sizes were not known."""
        if isinstance(self.weight, nn.UninitializedParameter):
            self.weight.materialize((towers, out_features, in_features))
            self.bias.materialize((towers, out_features))
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weights and biases uniformly from ±1/√in, as torch.nn.Linear does."""
        if isinstance(self.weight, nn.UninitializedParameter):
            return
        bound = 1 / math.sqrt(self.weight.shape[-1])
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        """Map x [N, T or 1, in] to [N, T, out]."""
        return affine(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Number of towers and sizes, for print()."""
        if isinstance(self.weight, nn.UninitializedParameter):
            return "not known yet"
        towers, out_features, in_features = self.weight.shape
        return f"towers={towers}, {in_features}, {out_features}"


def _parameter(*shape: int) -> nn.Parameter:
    """An uninitialised parameter of this shape."""
    return nn.Parameter(torch.empty(shape))


def mlp(
    name: str, layers: int, towers: int, sizes: tuple[int, int], act: Activation, act_kwargs: dict[str, Any] | None
) -> nn.Sequential:
    """Build a network M or U of equation 8: `layers` linear maps with activations between them."""
    layers = positive(name, layers, MOST_LAYERS)
    _activation(act, act_kwargs)  # with one layer it is not used, but a bad one is an error all the same
    modules: list[nn.Module] = [TowerLinear(towers, *sizes)]
    for _ in range(layers - 1):
        modules += [in_towers([_activation(act, act_kwargs) for _ in range(towers)])]
        modules += [TowerLinear(towers, sizes[1], sizes[1])]
    return nn.Sequential(*modules)


class EachTower(nn.ModuleList):
    """An activation with parameters or buffers: each tower has one, as in PyTorch Geometric."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply the t-th activation to the t-th tower of x [N, T, F]."""
        return torch.stack([activation(x[:, t]) for t, activation in enumerate(self)], dim=1)


def in_towers(activations: Sequence[nn.Module]) -> nn.Module:
    """Join the activations of all towers to one module; without parameters and buffers, the first one serves all."""
    first = activations[0]
    return EachTower(activations) if [*first.parameters(), *first.buffers()] else first


def _activation(act: Activation, act_kwargs: dict[str, Any] | None) -> nn.Module:
    """Resolve an activation as PyTorch Geometric does, with errors that name the argument."""
    if not (act is None or isinstance(act, str) or callable(act)):
        raise TypeError(f"act must be a name, a function of a tensor or None, got {act!r}")
    if isinstance(act, type):
        raise TypeError(f"act must be a name, a function of a tensor or None, got the class {act.__name__}: create one")
    from torch_geometric.nn.resolver import activation_resolver  # here, since its import takes seconds

    try:
        activation = activation_resolver(act, **(act_kwargs or {})) or nn.Identity()
    except (TypeError, ValueError) as error:  # PyTorch Geometric's words name neither argument
        raise ValueError(f"act={act!r} with act_kwargs={act_kwargs!r} is no activation: {error}") from error
    return activation if isinstance(activation, nn.Module) else _Elementwise(activation)


class _Elementwise(nn.Module):
    """A module that applies a plain function, so that it can stand in an nn.Sequential."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """Apply the function to x."""
        return self.function(x)
