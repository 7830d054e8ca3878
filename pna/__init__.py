"""Principal Neighbourhood Aggregation for Graph Nets (Corso, Cavalleri, Beaini, Liò and Veličković, NeurIPS 2020)."""

from pna.conv import PNAConv, PNASimpleConv
from pna.neighbourhoods import Neighbourhoods
from pna.scalers import DegreeStatistics

__all__ = ["DegreeStatistics", "Neighbourhoods", "PNAConv", "PNASimpleConv"]
