"""Depths other than the paper's ⌊N/2⌋, in testing and in training; section 3 of the paper leaves this open.

A collection of test graphs at another depth is named extrapolation@RULE; pna/networks/depths.py defines the rules.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from pna.networks.depths import Depth

__all__ = ["RULES", "THRESHOLDS", "at_depth", "threshold"]

RULES = ("12", "cap", "diameter", "N", "convergence")  # tested besides the rule of the training, which cap limits
THRESHOLDS = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)


@contextmanager
def at_depth(network: nn.Module, depth: Depth | None) -> Iterator[None]:
    """Give a network another depth within a `with` block; None leaves it as it is."""
    if depth is None:
        yield
        return
    if not hasattr(network, "depth"):
        raise ValueError("depth is the recurrent architecture's: the standard one always has eight layers")
    before, network.depth = network.depth, depth
    try:
        yield
    finally:
        network.depth = before


def threshold(error: Callable[[str], Tensor]) -> float:
    """The threshold of convergence with the lowest error, where `error` maps a depth rule to a validation error."""
    return min(THRESHOLDS, key=lambda value: float(error(f"convergence:{value}")))
