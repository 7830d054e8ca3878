"""Adam (Kingma and Ba, 2015) for all weights of all replicas in one kernel; the plain-torch twin is in adam.py."""

import math

import triton
import triton.language as tl
from torch import Tensor

from pna.kernels.selection import on_its_device

__all__ = ["adam", "supports"]

BLOCK = 1024


def supports(theta: Tensor, grad: Tensor) -> bool:
    """Always: there is no restriction."""
    return True


@triton.jit
def adam_update(
    theta, grad, m, v, step, learning_rate, weight_decay, P, beta_1, beta_2, log_beta_1, log_beta_2, epsilon,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Update a block of one replica's weights and moments."""
    r, begin, lane = tl.program_id(1), tl.program_id(0).to(tl.int64) * BLOCK, tl.arange(0, BLOCK)
    place, inside = r.to(tl.int64) * P + begin + lane, lane < P - begin  # R · P may be more than 2^31
    t = tl.load(step + r)
    weight = tl.load(theta + place, mask=inside)
    g = tl.load(grad + place, mask=inside) + tl.load(weight_decay + r) * weight
    first = tl.load(m + place, mask=inside)
    first += (1 - beta_1) * (g - first)
    second = beta_2 * tl.load(v + place, mask=inside) + (1 - beta_2) * g * g
    tl.store(m + place, first, mask=inside)
    tl.store(v + place, second, mask=inside)
    correction_1 = 1 - tl.exp(t * log_beta_1)
    correction_2 = 1 - tl.exp(t * log_beta_2)
    denominator = tl.sqrt(second / correction_2) + epsilon
    tl.store(theta + place, weight - tl.load(learning_rate + r) / correction_1 * first / denominator, mask=inside)


@on_its_device
def adam(
    theta: Tensor,
    grad: Tensor,
    m: Tensor,
    v: Tensor,
    step: Tensor,
    learning_rate: Tensor,
    weight_decay: Tensor,
    betas: tuple[float, float],
    epsilon: float,
) -> None:
    """Update theta, m and v, [R, P] each, in place; `step` (from 1), learning_rate and weight_decay are [R, 1]."""
    R, P = theta.shape
    adam_update[(-(-P // BLOCK), R)](
        theta, grad.contiguous(), m, v, step, learning_rate, weight_decay, P, *betas, *map(math.log, betas), epsilon,
        BLOCK=BLOCK,
    )  # fmt: skip
