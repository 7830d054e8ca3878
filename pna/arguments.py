"""Checks of the layers' arguments, with errors that name the argument, its value and what is allowed."""

from collections.abc import Sequence
from difflib import get_close_matches
from numbers import Integral

import torch
from torch import Tensor
from torch.autograd import forward_ad

__all__ = ["MOST_LAYERS", "choice", "divisible", "flag", "is_forward_mode", "is_transformed", "positive"]
__all__ += ["same_device", "same_dtype", "sequence", "tensor"]


MOST_CHANNELS = 1 << 20  # also of towers: more would ask for terabytes before it fails
MOST_LAYERS = 1000


def positive(name: str, value: int, most: int = MOST_CHANNELS) -> int:
    """Check that a value is an integer from 1 to `most`, and return it."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer of at least 1, got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be an integer of at least 1, got {value}")
    if value > most:
        raise ValueError(f"{name} must be an integer of at most {most:,}, got {value}")
    return int(value)


def flag(name: str, value: bool) -> bool:
    """Check that a value is True or False, not something that merely counts as one of them, and return it."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return value


def divisible(name: str, value: int, towers: int) -> int:
    """Check that the towers can divide a number of channels, and return the channels of one tower."""
    if value % towers != 0:
        raise ValueError(f"{name} must be divisible by the number of towers, got {name}={value} and towers={towers}")
    return value // towers


def choice(name: str, value: str, allowed: Sequence[str]) -> str:
    """Check that a value is one of the allowed words, and return it; the error suggests the nearest one."""
    if not isinstance(value, str) or value not in allowed:
        near = get_close_matches(value, allowed, n=1) if isinstance(value, str) else []
        meant = "".join(f"; did you mean {word}?" for word in near)
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}{meant}")
    return value


def sequence(name: str, values: Sequence) -> tuple:
    """Check that a value is a list with at least one entry, not a bare string, and return it as a tuple."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise TypeError(f"{name} must be a list, got {values!r}")
    if len(values) == 0:
        raise ValueError(f"{name} must name at least one, got an empty list")
    return tuple(values)


def tensor(name: str, value: Tensor) -> None:
    """Check that a value is a dense tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(value).__name__}")
    if value.layout not in (torch.strided, torch.jagged):
        raise TypeError(f"{name} must be a dense tensor, got one of layout {value.layout}")


def is_transformed() -> bool:
    """Whether the call is under torch.func, so that no value can be read."""
    return torch._C._functorch.peek_interpreter_stack() is not None


# torch.compile takes the stack for an object that is never None; it traces a transformation with the stack in place.
is_transformed._dynamo_marked_constant = True


def is_forward_mode() -> bool:
    """Whether the call is under torch.func.jvp, jacfwd or hessian, or where torch.autograd has dual tensors."""
    return forward_ad._current_level >= 0


# torch.compile traces forward mode with the level in place, which it cannot read; it compiles again for another level.
is_forward_mode._dynamo_marked_constant = True


def same_device(name: str, value: Tensor, other_name: str, other: Tensor) -> None:
    """Check that two tensors are on one device."""
    if value.device != other.device:
        raise ValueError(f"{name} and {other_name} must be on one device, got {value.device} and {other.device}")


def same_dtype(name: str, value: Tensor, weight: Tensor) -> None:
    """Check that a tensor has the weights' floating dtype, or will be cast to it by autocast."""
    if value.dtype == weight.dtype:
        return
    if not value.is_floating_point():
        raise TypeError(f"{name} must have a floating dtype, got {value.dtype}")
    device = value.device.type
    cast = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    if not cast or torch.float64 in (value.dtype, weight.dtype):
        raise TypeError(f"{name} must have the dtype of the layer's weights, {weight.dtype}, got {value.dtype}")
