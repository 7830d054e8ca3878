"""The degrees of the training set: counted, and summarised as δ (equation 5) and as their mean.

A loader yields whole graphs, or batches that were sampled from one large graph. In these, only some nodes have all the
neighbours that were to be sampled, and only they count.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real

import torch
from torch import Tensor

from pna.arguments import choice
from pna.neighbourhoods import FLOWS

__all__ = ["DegreeStatistics", "check_histogram", "degree_histogram", "merge_histograms"]


@dataclass(frozen=True)
class DegreeStatistics:
    """Statistics of the training set's degrees that the scalers need, both averages over nodes.

    Attributes
    ----------
    delta : float
        δ of equation 5, the mean of log(d + 1).
    mean_degree : float
        The mean of d.
    """

    delta: float
    mean_degree: float

    def __post_init__(self) -> None:
        for name in ("delta", "mean_degree"):
            value = getattr(self, name)
            if not isinstance(value, Real) or isinstance(value, bool) or not 0 < value < math.inf:
                raise ValueError(f"{name} must be positive and finite, got {value!r}")

    @classmethod
    def from_degrees(cls, degrees: Tensor) -> "DegreeStatistics":
        """Compute the statistics from the degree of every node of the training set, [N]."""
        _check_counts("degrees", degrees)
        if degrees.is_floating_point() and bool((degrees != degrees.floor()).any()):
            raise ValueError(f"degrees must be whole numbers, got {degrees[degrees != degrees.floor()][0]}")
        return cls.from_histogram(torch.bincount(degrees.flatten().long()))

    @classmethod
    def from_histogram(cls, histogram: Tensor, name: str = "histogram") -> "DegreeStatistics":
        """Compute the statistics from the number of training nodes of each degree 0, 1, 2, …; `name` is for errors."""
        check_histogram(name, histogram)
        nodes = histogram.double()
        d = torch.arange(nodes.numel(), dtype=torch.double, device=nodes.device)
        if nodes[1:].sum() == 0:
            raise ValueError("the degree histogram has no node of positive degree, so δ (equation 5) would be 0")
        delta, mean_degree = (torch.log1p(d) @ nodes / nodes.sum()), (d @ nodes / nodes.sum())
        return cls(delta=float(delta), mean_degree=float(mean_degree))


def merge_histograms(*histograms: Tensor) -> Tensor:
    """Add the degree histograms of several shards of a training set, of any lengths: [n], [m], … -> [max(n, m, …)]."""
    if not histograms:
        raise ValueError("merge_histograms needs at least one histogram")
    for histogram in histograms:
        check_histogram("histogram", histogram)
    longest = max(len(histogram) for histogram in histograms)
    wide = (histogram.double() if histogram.is_floating_point() else histogram.long() for histogram in histograms)
    return sum(torch.nn.functional.pad(histogram, (0, longest - len(histogram))) for histogram in wide)


_LINKS = ("edge_label_index", "src_index", "dst_pos_index", "dst_neg_index")  # what a LinkNeighborLoader adds


def degree_histogram(graphs: Iterable, mask: str | None = None, flow: str = "source_to_target") -> Tensor:
    """Count the nodes of each degree 0, 1, 2, … in graphs: PyTorch Geometric's Data, or batches of them.

    The degree is the number of messages that a node receives, with the layer's flow. With a mask, the name of a boolean
    attribute [N] such as train_mask, only its nodes are counted; edges from all nodes count for their degrees.

    Of a sampled batch only those nodes are counted whose neighbours were all to be sampled: a NeighborLoader's seeds,
    and the ends of a LinkNeighborLoader's links. A node that ends links in several batches is counted once.
    """
    choice("flow", flow, FLOWS)
    if not isinstance(mask, str | None):
        raise TypeError(f"mask must be the name of an attribute, as 'train_mask', got {type(mask).__name__}")
    if not isinstance(graphs, Iterable):
        raise TypeError(f"loader must be an iterable of graphs, got {type(graphs).__name__}; for one graph: [data]")
    receivers = 1 if flow == "source_to_target" else 0
    histogram, ends = torch.zeros(1, dtype=torch.long, device="cpu"), set()
    for data in graphs:
        if getattr(data, "edge_index", None) is None:
            raise TypeError(f"loader must yield graphs with an edge_index, got {_without_edges(data)}")
        target = data.edge_index[receivers].cpu()
        target = target.long() if target.numel() == 0 else target  # no edges may come as floats, torch's default
        if target.is_floating_point():
            raise TypeError(f"edge_index must be of integers, got {target.dtype}")
        if target.numel() > 0 and not 0 <= int(target.min()) <= int(target.max()) < data.num_nodes:
            raise ValueError(
                f"edge_index must hold node numbers from 0 to {data.num_nodes - 1}, "
                f"got values from {target.min()} to {target.max()}"
            )
        degrees = torch.bincount(target, minlength=data.num_nodes)
        nodes = _counted(data, ends)
        degrees = degrees[nodes] if mask is None else degrees[nodes][_node_mask(data, mask)[nodes]]
        counts = torch.bincount(degrees, minlength=histogram.numel())
        counts[: histogram.numel()] += histogram
        histogram = counts
    return histogram


def _without_edges(data: object) -> str:
    """End of an error message: what a loader yields in place of a graph with an edge_index, and what to do."""
    if hasattr(data, "edge_types"):
        one = "Data(edge_index=data[edge_type].edge_index, num_nodes=data[edge_type[-1]].num_nodes)"
        return f"HeteroData; count each edge type by itself, in graphs of its receivers: {one}"
    if getattr(data, "adj_t", None) is not None:
        return f"{type(data).__name__} with adj_t; count the degrees before the edges become a sparse matrix"
    return f"{type(data).__name__}; for one graph: [data]"


def _counted(data: object, ends: set[int]) -> slice | Tensor:
    """The nodes of a graph that count: all of them, or those of a sampled batch whose neighbours were to be sampled.

    `ends` are the nodes that ended links in former batches, by their numbers in the whole graph; new ones are added.
    """
    if getattr(data, "input_id", None) is None:
        return slice(None)
    if "batch_size" in data:  # of a NeighborLoader, whose seeds come first
        if not isinstance(data["batch_size"], int):
            raise TypeError("loader must yield a NeighborLoader's batches as they are, not several in one Batch")
        return slice(data["batch_size"])
    links = [data[name].flatten().cpu() for name in _LINKS if name in data]
    if not links or getattr(data, "n_id", None) is None:
        return slice(None)
    here = torch.cat(links).unique()
    numbers = data.n_id.cpu()[here].tolist()  # with disjoint=True, a node may stand here several times
    first = [place for place, number in zip(here.tolist(), numbers, strict=True) if not _known(number, ends)]
    return torch.tensor(first, dtype=torch.long, device="cpu")


def _known(number: int, numbers: set[int]) -> bool:
    """Whether a number is in the set, to which it is added."""
    known = number in numbers
    numbers.add(number)
    return known


def _node_mask(data: object, name: str) -> Tensor:
    """The boolean attribute [N] of a graph with this name."""
    mask = getattr(data, name, None)
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.shape != (data.num_nodes,):
        raise ValueError(f"{name} must be a boolean tensor [{data.num_nodes}] of every graph, got {mask!r}")
    return mask.cpu()


def check_histogram(name: str, histogram: Tensor) -> None:
    """Raise an error unless a histogram has one dimension, of counts."""
    _check_counts(name, histogram)
    if histogram.dim() != 1:
        raise ValueError(f"{name} must have one dimension, the counts of degree 0, 1, …; got {list(histogram.shape)}")


def _check_counts(name: str, counts: Tensor) -> None:
    """Raise an error unless counts are a tensor of finite numbers, none of them negative."""
    if not isinstance(counts, Tensor):
        raise TypeError(f"{name} must be a tensor of counts, got {type(counts).__name__}")
    if counts.is_complex() or counts.is_meta or counts.layout != torch.strided:
        kind = "a meta tensor" if counts.is_meta else f"{counts.dtype}, {counts.layout}"
        raise TypeError(f"{name} must be a dense tensor of real counts, got {kind}")
    if counts.numel() == 0:
        raise ValueError(f"{name} is empty, so δ (equation 5) is not defined")
    if not bool(torch.isfinite(counts.double()).all()) or bool((counts < 0).any()):
        raise ValueError(f"{name} must be finite and not negative, got values from {counts.min()} to {counts.max()}")
