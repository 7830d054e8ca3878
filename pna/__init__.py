"""Principal Neighbourhood Aggregation for Graph Nets (Corso, Cavalleri, Beaini, Liò and Veličković, NeurIPS 2020)."""

from pna.conv import PNAConv, PNASimpleConv
from pna.neighbourhoods import Neighbourhoods
from pna.scalers import DegreeStatistics

__all__ = ["DegreeStatistics", "Neighbourhoods", "PNAConv", "PNASimpleConv", "load"]
__version__ = "1.0.0"


def __getattr__(name: str) -> object:
    """`pna.load`, imported when it is first asked for: the operator alone needs nothing of what it needs."""
    if name == "load":
        from pna.pretrained import load

        return load
    raise AttributeError(f"module 'pna' has no attribute {name!r}")
