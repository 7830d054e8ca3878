"""The base class of every autograd Function that launches kernels: replicas, contiguity, device and derivatives.

A kernel takes the tensors of R replicas at once, [R, ...]. `KernelFunction` gives them that leading axis, whether a
single network calls or torch.func.vmap lifts many of them, so that a Function states its computation alone:

    class _Scaled(KernelFunction):
        @staticmethod
        def forward(kind: str, x: Tensor, weight: Copied, bias: Tensor | None) -> Tensor: ...  # x [R, V, F]

        @staticmethod
        def setup_context(ctx, inputs, output): ...

        @staticmethod
        def backward(ctx, grad): ...

    y = _Scaled.call("relu", x, weight, None)  # x [V, F] -> y [V, F]
"""

import functools
import inspect
import itertools
import typing
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx
from torch.utils import _pytree as pytree

from pna.kernels.replicas import replicated, rows_of_replicas
from pna.kernels.selection import first_derivative, on_its_device

__all__ = ["Copied", "CopiedOrShared", "KernelFunction", "Shared", "Strided", "contiguous", "differentiated", "saved"]


class _Way(Enum):
    """How an input comes to have one row for each replica."""

    ROWS = auto()
    COPIED = auto()
    STRIDED = auto()
    SHARED = auto()
    COPIED_OR_SHARED = auto()


# Annotations of an input of `forward`. Without one it is a view with a row for each replica, contiguous in `forward`.
Copied = Annotated[Tensor, _Way.COPIED]  # copied before `forward`: saving it for `backward` then saves the copy
Strided = Annotated[Tensor, _Way.STRIDED]  # a view that is never copied: the kernel writes to it, or takes its strides
Shared = Annotated[Tensor, _Way.SHARED]  # data without an axis of replicas: vmap must not batch it
CopiedOrShared = Annotated[Tensor, _Way.COPIED_OR_SHARED]  # [R, ...] if it is batched, else [1, ...] for every replica


class KernelFunction(Function):
    """Autograd Function whose tensors have a leading axis of replicas, [R, ...].

    A subclass writes `forward`, `setup_context` and `backward` as for any Function. `forward` runs on the device of
    its first tensor and receives contiguous tensors, unless they are annotated otherwise (see above). `backward`
    receives contiguous gradients and refuses to be differentiated. None and constants are passed through. An input that
    is a tuple with a method `of_replicas(replicas, rows)` is lifted by that; rows: the second size of the first tensor.
    """

    results: ClassVar[int | None] = None  # only the first `results` outputs have the axis of replicas; None: all
    _ways: ClassVar[tuple[tuple[str, _Way], ...]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "forward" in vars(cls):
            cls._ways = _ways_of(cls.forward)
            cls.forward = staticmethod(on_its_device(_with_contiguous_inputs(cls.forward, cls._ways)))
        if "backward" in vars(cls):
            cls.backward = staticmethod(first_derivative(_with_contiguous_gradients(cls.backward)))

    @classmethod
    def call(cls, *inputs: Any) -> Any:
        """Apply the Function to one network, whose tensors have no axis of replicas, and return outputs without it."""
        each = _each(inputs, cls._ways)
        rows = (t.unsqueeze(0) if isinstance(t, Tensor) and way is not _Way.SHARED else t for t, _, way in each)
        return cls._map_results(cls.apply(*rows), lambda t: t.squeeze(0))

    @classmethod
    def vmap(cls, info: Any, in_dims: tuple, *inputs: Any) -> tuple[Any, Any]:
        """Lift torch.func.vmap's replicas to the leading axis of the tensors."""
        R = info.batch_size
        each = zip(_each(inputs, cls._ways), in_dims, strict=True)
        lifted = [_lift(t, dim, R, name, way) for (t, name, way), dim in each]
        if any(hasattr(t, "of_replicas") for t in lifted):
            rows = next(t.shape[1] for t in lifted if isinstance(t, Tensor))
            lifted = [t.of_replicas(R, rows) if hasattr(t, "of_replicas") else t for t in lifted]
        outputs = cls._map_results(cls.apply(*lifted), lambda t: t.unflatten(0, (R, -1)))
        if isinstance(outputs, Tensor):
            return outputs, 0
        results = len(outputs) if cls.results is None else cls.results
        return outputs, (0,) * results + (None,) * (len(outputs) - results)

    @classmethod
    def _map_results(cls, outputs: Tensor | tuple[Tensor, ...], function: Callable[[Tensor], Tensor]) -> Any:
        """Apply a function to every output that has the axis of replicas."""
        if isinstance(outputs, Tensor):
            return function(outputs)
        return *map(function, outputs[: cls.results]), *(() if cls.results is None else outputs[cls.results :])


def contiguous(*tensors: Tensor | None) -> tuple[Tensor | None, ...]:
    """Contiguous tensors; None stays None."""
    return tuple(t if t is None else t.contiguous() for t in tensors)


def saved(ctx: FunctionCtx) -> tuple[Tensor | None, ...]:
    """The tensors that `setup_context` saved, contiguous; None stays None."""
    return contiguous(*ctx.saved_tensors)


def differentiated(*inputs: Any) -> bool:
    """Whether a backward pass may follow, so that what it needs is worth keeping.

    `forward` cannot tell by itself: it runs without gradients.
    """
    return torch.is_grad_enabled() and any(isinstance(t, Tensor) and t.requires_grad for t in inputs)


def _ways_of(forward: Callable) -> tuple[tuple[str, _Way], ...]:
    """The name and the way of every input, read from the signature of `forward`."""
    hints = typing.get_type_hints(forward, include_extras=True)
    return tuple((name, _way_of(hints.get(name))) for name in inspect.signature(forward).parameters)


def _way_of(hint: Any) -> _Way:
    """The way that an annotation names, itself or within a union such as `Copied | None`."""
    marks = [mark for part in (hint, *typing.get_args(hint)) for mark in getattr(part, "__metadata__", ())]
    return next((mark for mark in marks if isinstance(mark, _Way)), _Way.ROWS)


def _each(inputs: Sequence[Any], ways: tuple[tuple[str, _Way], ...]) -> Iterator[tuple[Any, str, _Way]]:
    """Every input with its name and way; the last way is that of all of `*inputs`."""
    for t, (name, way) in zip(inputs, itertools.chain(ways, itertools.repeat(ways[-1])), strict=False):
        yield t, name, way


def _with_contiguous_inputs(forward: Callable, ways: tuple[tuple[str, _Way], ...]) -> Callable:
    """Decorate `forward`: make its tensors contiguous, except strided ones."""

    @functools.wraps(forward)
    def wrapped(*inputs: Any) -> Any:
        """Call `forward` with contiguous copies of tensors that are not contiguous, except strided ones."""
        fixed = _Way.STRIDED
        each = _each(inputs, ways)
        return forward(*(t.contiguous() if isinstance(t, Tensor) and way is not fixed else t for t, _, way in each))

    return wrapped


def _with_contiguous_gradients(backward: Callable) -> Callable:
    """Decorate `backward`: make its gradients contiguous."""

    @functools.wraps(backward)
    def wrapped(ctx: FunctionCtx, *grads: Tensor | None) -> Any:
        return backward(ctx, *contiguous(*grads))

    return wrapped


def _lift(t: Any, dim: Any, replicas: int, name: str, way: _Way) -> Any:
    """Lift an input of logical shape [1, ...], which vmap batches along `dim` or not at all, to [replicas, ...]."""
    batched = any(d is not None for d in pytree.tree_leaves(dim))
    if batched and (way is _Way.SHARED or not isinstance(t, Tensor)):
        raise ValueError(f"{name} is data, the same for every replica: it cannot be batched")
    if not isinstance(t, Tensor) or way is _Way.SHARED or (way is _Way.COPIED_OR_SHARED and not batched):
        return t
    return (rows_of_replicas if way in (_Way.ROWS, _Way.STRIDED) else replicated)(t, dim, replicas)
