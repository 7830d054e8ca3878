"""Adam for many replicas at once (Kingma and Ba, 2015), with weight decay as an L2 penalty, like torch.optim.Adam."""

import math

import torch
from torch import Tensor

from pna.kernels.selection import kernels_for

__all__ = ["adam_step"]

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8


def adam_step(
    theta: Tensor, grad: Tensor, m: Tensor, v: Tensor, step: Tensor, learning_rate: Tensor, weight_decay: Tensor
) -> None:
    """Take one step: update theta, m and v, [R, P], in place; step (from 1), rate and decay are [R, 1]."""
    if kernel := kernels_for("pna.training.adam_kernel", theta, grad):
        kernel.adam(theta, grad, m, v, step, learning_rate, weight_decay, (BETA_1, BETA_2), EPSILON)
        return
    grad = torch.addcmul(grad, weight_decay, theta)
    m.lerp_(grad, 1 - BETA_1)
    v.mul_(BETA_2).addcmul_(grad, grad, value=1 - BETA_2)
    correction_1, correction_2 = (-torch.expm1(step * math.log(beta)) for beta in (BETA_1, BETA_2))  # 1 - beta^step
    denominator = (v / correction_2).sqrt_().add_(EPSILON)
    theta.sub_(learning_rate / correction_1 * m / denominator)
