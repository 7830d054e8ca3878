"""Beyond the paper: networks trained with ⌊N/2⌋ layers, tested with other depths (section 3 leaves the question open).

A collection of test graphs at another depth is named extrapolation@RULE; what the rules are: pna/networks/depths.py.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from pna.networks.depths import depth_named

__all__ = ["RULES", "THRESHOLDS", "at_depth", "threshold"]

RULES = ("12", "cap", "diameter", "N", "convergence")  # beside N/2, on which every network is tested
THRESHOLDS = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)


@contextmanager
def at_depth(network: nn.Module, rule: str) -> Iterator[None]:
    """Lets a network have another depth for a while."""
    if not hasattr(network, "depth"):
        raise ValueError("depth is the recurrent architecture's: the standard one always has eight layers")
    own, network.depth = network.depth, depth_named(rule)
    try:
        yield
    finally:
        network.depth = own


def threshold(error: Callable[[str], Tensor]) -> float:
    """The threshold of convergence, by a function from a rule to the validation error under it: the one with least."""
    return min(THRESHOLDS, key=lambda value: float(error(f"convergence:{value}")))
