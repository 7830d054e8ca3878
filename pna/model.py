"""The PNA model: layers of pna.PNAConv with normalisation, residual connections, jumping knowledge and a readout."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import Proxy
from torch_geometric import nn
from torch_geometric.nn.resolver import aggregation_resolver

from pna.arguments import choice, flag
from pna.conv import PNAConv
from pna.degrees import DegreeStatistics, degree_histogram

__all__ = ["PNA"]

AGGREGATORS = ("mean", "std", "max", "min")  # section 2.1
SCALERS = ("identity", "amplification", "attenuation")  # equation 7
READOUTS = ("sum", "mean", "max")


class PNA(nn.PNA):
    """A graph network of PNA layers, a drop-in replacement for torch_geometric.nn.PNA.

    By default it is PyTorch Geometric's model with the paper's aggregators and scalers, and returns a row for each
    node. With norm="batch_norm", residual=True and a readout it resembles the network of the paper's real-world
    benchmarks (pna.realworld), but its last layer is neither normalised nor activated.

    Parameters
    ----------
    in_channels : int
        Size of x, or -1 to infer it from the first call.
    hidden_channels : int
        Size of the hidden features.
    num_layers : int
        Number of PNA layers.
    out_channels : int, optional
        Size of the output; by default hidden_channels.
    deg : Tensor or DegreeStatistics
        The degrees of the training set, as in PNAConv; `PNA.for_loader` counts them.
    aggregators, scalers : list of str
        As in PNAConv; by default the paper's four and three.
    residual : bool
        Whether the input of a layer is added to its output wherever their sizes agree.
    readout : str, optional
        How the nodes of each graph are pooled: sum, mean or max. An MLP that halves the features twice follows.
    **kwargs
        Arguments of torch_geometric.nn.PNA (dropout, act, norm, jk, …) and of PNAConv (towers, edge_dim, …).
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        *args: Any,
        deg: Tensor | DegreeStatistics | None = None,
        aggregators: Sequence[str] = AGGREGATORS,
        scalers: Sequence[str | float] = SCALERS,
        residual: bool = False,
        readout: str | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs |= {"deg": deg, "aggregators": aggregators, "scalers": scalers}
        width = None if readout is not None else out_channels
        super().__init__(in_channels, hidden_channels, num_layers, width, *args, **kwargs)
        self.residual = flag("residual", residual)
        self.readout = None if readout is None else choice("readout", readout, READOUTS)
        if readout is not None:
            self.out_channels = hidden_channels if out_channels is None else out_channels
            sizes = [hidden_channels, max(1, hidden_channels // 2), max(1, hidden_channels // 4), self.out_channels]
            self.pool, self.head = aggregation_resolver(readout), nn.MLP(sizes, norm=None)

    def init_conv(self, in_channels: int, out_channels: int, **kwargs: Any) -> PNAConv:
        """Create one layer; the base class calls this for each of its layers."""
        return PNAConv(in_channels, out_channels, **kwargs)

    @classmethod
    def for_loader(
        cls,
        loader: Iterable,
        hidden_channels: int = 64,
        num_layers: int = 4,
        out_channels: int | None = None,
        mask: str | None = None,
        **kwargs: Any,
    ) -> "PNA":
        """Create a model for the graphs of a loader: their degrees, and the sizes of x and edge_attr.

        The loader must yield the training set, in any order, and more than once. A mask, as train_mask, selects the
        nodes whose degrees are counted. Of a NeighborLoader's batches only the seeds are counted, of a
        LinkNeighborLoader's only the ends of its links, with their sampled degrees.
        """
        if isinstance(loader, Iterator):
            raise TypeError("loader must be iterable more than once: give a list or a DataLoader")
        data = next(iter(loader), None)
        x = getattr(data, "x", None)
        if not isinstance(x, Tensor) or x.dim() != 2:
            got = f"x {list(x.shape)}" if isinstance(x, Tensor) else f"{type(data).__name__}; for one graph: [data]"
            raise ValueError(f"loader must yield graphs with node features x [N, F], got {got}")
        edge_attr = getattr(data, "edge_attr", None)
        if edge_attr is not None and "edge_dim" not in kwargs:
            if edge_attr.dim() != 2:
                got = f"{list(edge_attr.shape)}; edge_attr.view(-1, 1) makes one feature of a number for each edge"
                raise ValueError(f"loader must yield graphs with edge features edge_attr [E, D], got {got}")
            kwargs["edge_dim"] = edge_attr.shape[1]
        if "deg" not in kwargs:
            kwargs["deg"] = degree_histogram(loader, mask, kwargs.get("flow", "source_to_target"))
        return cls(x.shape[1], hidden_channels, num_layers, out_channels, **kwargs)

    def inference(self, *args: Any, **kwargs: Any) -> Tensor:
        """Compute all nodes layer by layer from a NeighborLoader, as in torch_geometric.nn.PNA."""
        if self.residual or self.readout is not None:
            raise NotImplementedError("inference() knows neither residual=True nor a readout: call the model itself")
        return super().inference(*args, **kwargs)

    def reset_parameters(self) -> None:
        """Draw all weights again."""
        super().reset_parameters()
        if self.readout is not None:
            self.head.reset_parameters()

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        num_sampled_nodes_per_hop: list[int] | None = None,
        num_sampled_edges_per_hop: list[int] | None = None,
    ) -> Tensor:
        """Compute the network: x [N, in_channels] -> [N, out_channels], or with a readout [graphs, out_channels].

        The arguments are those of torch_geometric.nn.PNA; batch [N] is the graph of each node.
        """
        if isinstance(edge_weight, Tensor):
            raise ValueError("PNA has no edge weights; edge features are edge_attr=…")
        if self.readout is not None and isinstance(x, Proxy):
            raise ValueError("to_hetero does not support readout=…: pool the nodes of each type after the model")
        if not self.residual:
            hops = (num_sampled_nodes_per_hop, num_sampled_edges_per_hop)
            x = super().forward(x, edge_index, None, edge_attr, batch, batch_size, *hops)
        elif isinstance(num_sampled_nodes_per_hop, list):  # under to_hetero it is a Proxy, even for None
            raise ValueError("num_sampled_nodes_per_hop trims the layers, which residual=True does not support")
        else:
            x = self._with_residuals(x, edge_index, edge_attr, batch, batch_size)
        if self.readout is None:
            return x
        index = torch.zeros(x.shape[0], dtype=torch.long, device=x.device) if batch is None else batch
        return self.head(self.pool(x, index, dim_size=1 if batch is None else batch_size, dim=0))

    def _with_residuals(
        self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None, batch: Tensor | None, batch_size: int | None
    ) -> Tensor:
        """Compute the layers, each with its input added: x [N, in] -> [N, hidden or out]."""
        outputs, last = [], len(self.convs) - 1
        for k, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            h = conv(x, edge_index, edge_attr)
            if k < last or self.jk_mode is not None:
                h = self._activated(h) if self.act_first else h
                h = norm(h, batch, batch_size) if self.supports_norm_batch else norm(h)
                h = self.dropout(h if self.act_first else self._activated(h))
            x = h + x if conv.in_channels == conv.out_channels else h
            outputs.append(x)
        x = self.jk(outputs) if hasattr(self, "jk") else x
        return self.lin(x) if hasattr(self, "lin") else x

    def _activated(self, x: Tensor) -> Tensor:
        """Apply the activation, if there is one, to x [N, F]."""
        return x if self.act is None else self.act(x)
