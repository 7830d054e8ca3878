"""Principal Neighbourhood Aggregation for Graph Nets (Corso, Cavalleri, Beaini, Liò and Veličković, NeurIPS 2020)."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pna.conv import PNAConv, PNASimpleConv
    from pna.degrees import DegreeStatistics, merge_histograms
    from pna.model import PNA
    from pna.neighbourhoods import Neighbourhoods
    from pna.pretrained import load

__all__ = ["PNA", "DegreeStatistics", "Neighbourhoods", "PNAConv", "PNASimpleConv", "load", "merge_histograms"]
__version__ = "1.0.0"

_HOMES = {
    "DegreeStatistics": "pna.degrees",
    "Neighbourhoods": "pna.neighbourhoods",
    "PNA": "pna.model",
    "PNAConv": "pna.conv",
    "PNASimpleConv": "pna.conv",
    "load": "pna.pretrained",
    "merge_histograms": "pna.degrees",
}


def __getattr__(name: str) -> object:
    """Import a name when it is first used: a command needs neither the layers nor PyTorch Geometric.

    A saved program of torch.export calls operators that `import pna.gather` registers, without PyTorch Geometric.
    """
    if name not in _HOMES:
        raise AttributeError(f"module 'pna' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
