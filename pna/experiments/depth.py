"""Beyond the paper: networks tested with other depths than ⌊N/2⌋, and trained with them (section 3 leaves it open).

A collection of test graphs at another depth is named extrapolation@RULE; what the rules are: pna/networks/depths.py.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from pna.networks.depths import Depth

__all__ = ["RULES", "THRESHOLDS", "at_depth", "threshold"]

RULES = ("12", "cap", "diameter", "N", "convergence")  # beside N/2, or a network's own; cap is that, at most so deep
THRESHOLDS = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)


@contextmanager
def at_depth(network: nn.Module, depth: Depth | None) -> Iterator[None]:
    """Lets a network have another depth for a while; None is its own."""
    if depth is None:
        yield
        return
    if not hasattr(network, "depth"):
        raise ValueError("depth is the recurrent architecture's: the standard one always has eight layers")
    own, network.depth = network.depth, depth
    try:
        yield
    finally:
        network.depth = own


def threshold(error: Callable[[str], Tensor]) -> float:
    """The threshold of convergence, by a function from a rule to the validation error under it: the one with least."""
    return min(THRESHOLDS, key=lambda value: float(error(f"convergence:{value}")))
