"""The weights of convolutions and GRU as the kernels of all layers read them.

A convolution has matrices of its towers, one dense matrix, and biases; what each of them holds depends on its kind.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from pna.networks.kernels.gates import gru_weights, padded

__all__ = ["TENSORS", "TOWERS", "Weights"]

TOWERS = 4


class Weights(NamedTuple):
    """The packing of the weights of the convolutions, and of the GRU if there is one."""

    kind: str
    F: int
    gru: bool

    def __call__(self, *tensors: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """The groups: blocks, dense matrices and biases of all convolutions, the GRU's matrices and biases.

        And the rows of their gradients: of all convolutions, each in the order of `Shape.sizes`, and of the GRU.
        """
        (pack, count), weights = WEIGHTS[self.kind], tensors[: len(tensors) - 4 * self.gru]
        each = [pack(self.F, *weights[k : k + count]) for k in range(0, len(weights), count)]
        blocks, dense, biases = (torch.stack(parts) for parts in zip(*each, strict=True))
        gru = gru_weights(*tensors[-4:], TOWERS * self.F) if self.gru else [dense.new_empty(0)] * 2
        rows = [
            torch.cat([t.flatten(1) for t in (dense, biases, blocks)], dim=1),
            torch.cat([t.flatten() for t in gru]),
        ]
        return [t.unsqueeze(0) for t in (blocks, dense, biases, *gru)], [t.flatten().unsqueeze(0) for t in rows]


def _pna_weights(
    F: int, M: Tensor, of_M: Tensor, U: Tensor, of_U: Tensor, mix: Tensor, of_mix: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The towers' matrices [3 + S·A, F, 4, F] (out, tower, in), the mixing matrix, the biases of M, U and mixing."""
    F_in = of_M.shape[1]
    messages, update = (W.unflatten(-1, (-1, F_in)).permute(2, 1, 0, 3) for W in (M, U))
    messages = functional.pad(messages, (0, F - F_in, 0, 0, 0, F - F_in))
    biases = torch.cat([padded(of_M, F), of_U]).flatten()  # [2, 4, F]
    return torch.cat([messages, padded(update, F)]), mix, torch.cat([biases, of_mix])


def _gcn_weights(F: int, W: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """An empty tensor for the towers' matrices, the padded W [H, H] (out, in), and the bias."""
    return W.new_empty(0), padded(W.t(), TOWERS * F), bias


def _gat_weights(F: int, W: Tensor, attention: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """An empty tensor for the towers' matrices, the padded W [H, H] (out, in), and a₁ and a₂ of all heads, [2, H]."""
    halves = attention.unflatten(1, (2, F)).transpose(0, 1).flatten(1)
    return W.new_empty(0), padded(W.flatten(0, 1), TOWERS * F), halves


def _gin_weights(
    F: int, scale: Tensor, W_1: Tensor, b_1: Tensor, W_2: Tensor, b_2: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The padded W₁ and W₂ [H, H] (out, in), and 1 + ε of every feature, b₁ and b₂, [3, H]."""
    return padded(W_1, TOWERS * F), W_2, torch.stack([scale, b_1, b_2])


def _pna_tensors(convolution: nn.Module) -> list[Tensor]:
    """The tensors that `_pna_weights` packs: weight and bias of M, U and the mixing layer."""
    conv = convolution.conv
    return [t for layer in (conv.M[0], conv.U[0], conv.mix) for t in (layer.weight, layer.bias)]


def _gin_tensors(convolution: nn.Module) -> list[Tensor]:
    """The tensors that `_gin_weights` packs: 1 + ε of every feature, weight and bias of both layers of U."""
    first, second = convolution.U.layers
    scale = (1 + convolution.epsilon).expand_as(first.bias)
    return [scale, first.weight, first.bias, second.weight, second.bias]


TENSORS = {
    "pna": _pna_tensors,
    "gcn": lambda convolution: [convolution.weight, convolution.bias],
    "gat": lambda convolution: [convolution.weight, convolution.attention],
    "gin": _gin_tensors,
}
WEIGHTS = {"pna": (_pna_weights, 6), "gcn": (_gcn_weights, 2), "gat": (_gat_weights, 2), "gin": (_gin_weights, 5)}
