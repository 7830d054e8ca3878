"""Taking over a layer of PyTorch Geometric, weights and all."""

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import PNAConv as PyGConv
from torch_geometric.nn import aggr as pyg

from pna.scalers import DegreeStatistics

__all__ = ["arguments", "copy_weights"]

_NAMES = {
    pyg.MeanAggregation: "mean",
    pyg.MaxAggregation: "max",
    pyg.MinAggregation: "min",
    pyg.StdAggregation: "std",
    pyg.VarAggregation: "var",
    pyg.SumAggregation: "sum",
    pyg.SoftmaxAggregation: "softmax",
}


def arguments(conv: PyGConv) -> dict[str, Any]:
    """The constructor's arguments that make a layer of the same sizes, aggregators and scalers."""
    if not isinstance(conv, PyGConv):
        raise TypeError(f"conv must be a torch_geometric.nn.PNAConv, got {type(conv).__name__}")
    if type(conv).message is not PyGConv.message:
        raise TypeError(f"conv must have the messages of torch_geometric.nn.PNAConv; {type(conv).__name__} has its own")
    scaled = conv.aggr_module
    activations = [*conv.pre_nns[0][1::2], *conv.post_nns[0][1::2]]
    if any(True for act in activations for _ in act.parameters()):
        raise ValueError(f"conv has an activation with parameters of its own in each tower, {activations[0]}")
    return {
        "in_channels": conv.in_channels,
        "out_channels": conv.out_channels,
        "aggregators": [_name(module) for module in getattr(scaled.aggr, "aggrs", [scaled.aggr])],
        "scalers": list(scaled.scaler),
        "deg": DegreeStatistics(delta=scaled.init_avg_deg_log, mean_degree=scaled.init_avg_deg_lin),
        "edge_dim": conv.edge_dim,
        "towers": conv.towers,
        "pre_layers": (len(conv.pre_nns[0]) + 1) // 2,
        "post_layers": (len(conv.post_nns[0]) + 1) // 2,
        "divide_input": conv.divide_input,
        "act": copy.deepcopy(activations[0]) if activations else None,
        "train_norm": isinstance(scaled.avg_deg_log, nn.Parameter),
        "flow": conv.flow,
    }


def _name(module: pyg.Aggregation) -> str:
    learned = any(True for _ in module.parameters())
    if type(module) not in _NAMES or learned or getattr(module, "t", 1.0) != 1.0:
        raise ValueError(f"conv has the aggregator {module}; those taken over are {', '.join(_NAMES.values())}")
    return _NAMES[type(module)]


@torch.no_grad()
def copy_weights(conv: PyGConv, layer: nn.Module) -> None:
    """Copies the weights of `conv` into `layer`, a pna.PNAConv made from its arguments; dtype and device too."""
    layer.to(conv.lin.weight)
    for mine, theirs in ((layer.M, conv.pre_nns), (layer.U, conv.post_nns)):
        for k in range(0, len(mine), 2):
            mine[k].weight.copy_(torch.stack([tower[k].weight for tower in theirs]))
            mine[k].bias.copy_(torch.stack([tower[k].bias for tower in theirs]))
    _copy_linear(conv.lin, layer.mix)
    if conv.edge_dim is not None:
        _copy_linear(conv.edge_encoder, layer.edge_encoder)
    layer.combined.delta.copy_(_scalar(conv.aggr_module.avg_deg_log))
    layer.combined.mean_degree.copy_(_scalar(conv.aggr_module.avg_deg_lin))
    layer.train(conv.training)


def _copy_linear(theirs: nn.Module, mine: nn.Linear) -> None:
    mine.weight.copy_(theirs.weight)
    mine.bias.copy_(theirs.bias)


def _scalar(value: Tensor) -> Tensor:
    return value.view(())
