"""Σ_j w_ij z_j over the neighbours, with a weight for each of H parts of z_j, in one kernel each way.

GAT's heads are such parts, and so are MoNet's Gaussians, which are also added up. A program is a node: forward, it goes
through the messages that it receives, backward through those that it sent.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from pna.realworld.kernels.graphs import Messages

__all__ = ["weighted_gradients", "weighted_sum"]


@triton.jit
def _tile(H: tl.constexpr, F: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr):
    """The parts [HEADS, 1], their features [1, WIDTH], and the mask of those that exist."""
    h = tl.arange(0, HEADS)[:, None]
    c = tl.arange(0, WIDTH)[None, :]
    return h, c, (h < H) & (c < F)


@triton.jit
def weighted_forward(z, weight, ptr, source, y, STRIDE: tl.constexpr, H: tl.constexpr, F: tl.constexpr,
                     SUM: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr):  # fmt: skip
    """The weighted sum of one node's messages."""
    node = tl.program_id(0).to(tl.int64)
    h, c, inside = _tile(H, F, HEADS, WIDTH)
    total = tl.zeros([HEADS, WIDTH], tl.float32)
    for e in range(tl.load(ptr + node), tl.load(ptr + node + 1)):
        value = tl.load(z + tl.load(source + e) * STRIDE + h * F + c, mask=inside, other=0.0)
        total += tl.load(weight + e * H + h, mask=h < H, other=0.0) * value
    if SUM:
        feature = tl.arange(0, WIDTH)
        tl.store(y + node * F + feature, tl.sum(total, 0), mask=feature < F)
    else:
        tl.store(y + node * H * F + h * F + c, total, mask=inside)


@triton.jit
def weighted_backward(z, weight, sender_ptr, receiver, place, grad, grad_z, grad_weight, STRIDE: tl.constexpr,
                      H: tl.constexpr, F: tl.constexpr, SUM: tl.constexpr, HEADS: tl.constexpr,
                      WIDTH: tl.constexpr):  # fmt: skip
    """The gradients of one node's z, and of the weights of the messages that it sent."""
    node = tl.program_id(0).to(tl.int64)
    h, c, inside = _tile(H, F, HEADS, WIDTH)
    features = tl.load(z + node * STRIDE + h * F + c, mask=inside, other=0.0)
    part = tl.arange(0, HEADS)
    total = tl.zeros([HEADS, WIDTH], tl.float32)
    for k in range(tl.load(sender_ptr + node), tl.load(sender_ptr + node + 1)):
        e = tl.load(place + k)
        i = tl.load(receiver + k)
        if SUM:
            g = tl.load(grad + i * F + c, mask=c < F, other=0.0)
        else:
            g = tl.load(grad + i * H * F + h * F + c, mask=inside, other=0.0)
        total += tl.load(weight + e * H + h, mask=h < H, other=0.0) * g
        tl.store(grad_weight + e * H + part, tl.sum(g * features, 1), mask=part < H)
    tl.store(grad_z + node * STRIDE + h * F + c, total, mask=inside)


def weighted_sum(z: Tensor, weight: Tensor, messages: Messages, F: int, added: bool) -> Tensor:
    """Sum the weighted messages: z [R, V, H·F or more], weight [R, E, H] -> [R, V, H·F], or [R, V, F].

    added: whether the H parts are added up.
    """
    R, V, H = *z.shape[:2], weight.shape[2]
    y = z.new_empty(R, V, F if added else H * F)
    tensors = (z, weight, messages.ptr, messages.source, y)
    weighted_forward[(R * V,)](*tensors, STRIDE=z.shape[2], SUM=added, **_sizes(H, F))
    return y


def weighted_gradients(
    z: Tensor, weight: Tensor, messages: Messages, grad: Tensor, grad_z: Tensor, F: int, added: bool
) -> Tensor:
    """The gradient of the weights, [R, E, H]; that of z is written into the first H·F columns of grad_z."""
    (R, V, _), H = z.shape, weight.shape[2]
    grad_weight = torch.empty_like(weight)
    tensors = (z, weight, messages.sender_ptr, messages.receiver, messages.place, grad, grad_z, grad_weight)
    weighted_backward[(R * V,)](*tensors, STRIDE=z.shape[2], SUM=added, **_sizes(H, F))
    return grad_weight


def _sizes(H: int, F: int) -> dict[str, int]:
    """Compile-time constants of a launch on H weights for each message and F features."""
    heads, width = triton.next_power_of_2(H), triton.next_power_of_2(F)
    return {"H": H, "F": F, "HEADS": heads, "WIDTH": width, "num_warps": 1}
