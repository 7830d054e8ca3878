"""What the layers accept, and the words for what they do not: the argument, what came, what is allowed."""

from collections.abc import Sequence
from difflib import get_close_matches
from numbers import Integral

import torch
from torch import Tensor

__all__ = ["MOST_LAYERS", "choice", "divisible", "flag", "positive", "same_device", "same_dtype", "sequence", "tensor"]


MOST_CHANNELS = 1 << 20  # and towers: more would ask for terabytes before it fails
MOST_LAYERS = 1000


def positive(name: str, value: int, most: int = MOST_CHANNELS) -> int:
    """An integer from 1 to `most`."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer of at least 1, got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be an integer of at least 1, got {value}")
    if value > most:
        raise ValueError(f"{name} must be an integer of at most {most:,}, got {value}")
    return int(value)


def flag(name: str, value: bool) -> bool:
    """True or False, and not what merely counts as one of them."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return value


def divisible(name: str, value: int, towers: int) -> int:
    """A number of channels that the towers can share out: the channels of one tower."""
    if value % towers != 0:
        raise ValueError(f"{name} must be divisible by the number of towers, got {name}={value} and towers={towers}")
    return value // towers


def choice(name: str, value: str, allowed: Sequence[str]) -> str:
    """One of the words allowed; the message names the nearest one, if any is near."""
    if not isinstance(value, str) or value not in allowed:
        near = get_close_matches(value, allowed, n=1) if isinstance(value, str) else []
        meant = "".join(f"; did you mean {word}?" for word in near)
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}{meant}")
    return value


def sequence(name: str, values: Sequence) -> tuple:
    """A list of at least one entry; a bare string would be read letter by letter."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise TypeError(f"{name} must be a list, got {values!r}")
    if len(values) == 0:
        raise ValueError(f"{name} must name at least one, got an empty list")
    return tuple(values)


def tensor(name: str, value: Tensor) -> None:
    """A torch tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(value).__name__}")


def same_device(name: str, value: Tensor, other_name: str, other: Tensor) -> None:
    """Two tensors of one device."""
    if value.device != other.device:
        raise ValueError(f"{name} and {other_name} must be on one device, got {value.device} and {other.device}")


def same_dtype(name: str, value: Tensor, weight: Tensor) -> None:
    """A floating tensor of the weights' dtype; autocast, where it is on, sees to that itself."""
    if value.dtype == weight.dtype:
        return
    if not value.is_floating_point():
        raise TypeError(f"{name} must have a floating dtype, got {value.dtype}")
    device = value.device.type
    cast = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    if not cast or torch.float64 in (value.dtype, weight.dtype):
        raise TypeError(f"{name} must have the dtype of the layer's weights, {weight.dtype}, got {value.dtype}")
