"""The learning rate of each replica: halved on a plateau, like torch.optim.lr_scheduler.ReduceLROnPlateau."""

import torch
from torch import Tensor

__all__ = ["plateau_step"]

FACTOR = 0.5
THRESHOLD = 1e-4  # smallest relative improvement that counts


def plateau_step(value: Tensor, best: Tensor, waited: Tensor, learning_rate: Tensor, patience: int) -> None:
    """Update best [R], waited [R] and learning_rate [R, 1] in place, from the value [R] of an epoch."""
    better = value < best * (1 - THRESHOLD)
    best.copy_(torch.where(better, value, best))
    waited.copy_(torch.where(better, 0, waited + 1))
    over = waited > patience
    learning_rate.copy_(torch.where(over.unsqueeze(1), learning_rate * FACTOR, learning_rate))
    waited.masked_fill_(over, 0)
