"""The weights of GRU and LSTM as the kernels read them: the gates' matrices one after another, padded."""

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["gate_tensors", "gru_weights", "padded", "width"]


def width(hidden: int) -> int:
    """H, the size to which the kernels' matrices are padded."""
    return 16 if hidden <= 16 else 32


def padded(t: Tensor, H: int, axes: int = 1) -> Tensor:
    """Pad the last axes with zeros to H; t itself if it has that size, where functional.pad would copy it."""
    padding = H - t.shape[-1]
    return functional.pad(t, (0, padding) * axes) if padding else t


def gate_tensors(gates: torch.nn.Module) -> list[Tensor]:
    """Weight and bias of the gates for the input, then for the state."""
    return [t for layer in (gates.input, gates.state) for t in (layer.weight, layer.bias)]


def gru_weights(
    of_input: Tensor, bias: Tensor, of_state: Tensor, bias_of_state: Tensor, H: int
) -> tuple[Tensor, Tensor]:
    """The GRU's matrices [6, H, H] and biases [6, H]: reset, update and new for the input, then for the state."""
    hidden = of_state.shape[1]
    matrices = torch.cat([W.view(3, hidden, hidden) for W in (of_input, of_state)])
    biases = torch.cat([b.view(3, hidden) for b in (bias, bias_of_state)])
    return padded(matrices, H, 2), padded(biases, H)
