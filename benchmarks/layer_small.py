"""One PNA layer on small graphs on one thread of a CPU, forward and backward, beside PyTorch Geometric's.

    python -m benchmarks.layer_small [--repeats 300] [--features 16]

Mean, min, max and std with three scalers, one tower; a new edge_index at every call, as from a loader. The layers take
turns, call by call, so that other load on the machine meets both alike. Times are processor time, the median over all
calls. Prints a table and, last, one JSON line.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable

import torch
import torch_geometric.nn as pyg
from torch import Tensor

from benchmarks.machine import describe
from pna import PNAConv

AGGREGATORS = ["mean", "min", "max", "std"]
SCALERS = ["identity", "amplification", "attenuation"]
# Nodes, messages of each node and edge features: of one graph, or of a batch of 128 like ZINC's or CIFAR10's.
GRAPHS = {
    "20 nodes": (20, 4, None),
    "100 nodes": (100, 4, None),
    "400 nodes": (400, 4, None),
    "20 nodes, edge features": (20, 4, 4),
    "100 nodes, edge features": (100, 4, 4),
    "400 nodes, edge features": (400, 4, 4),
    "a batch as of ZINC": (128 * 23, 2, None),
    "a batch as of ZINC, edge features": (128 * 23, 2, 4),
    "a batch as of CIFAR10": (128 * 118, 8, None),
}


def measure(nodes: int, degree: int, edge_dim: int | None, features: int, repeats: int) -> dict[str, float]:
    """Median milliseconds of a forward and backward pass of each layer."""
    torch.manual_seed(0)
    edges = torch.randint(0, nodes, (2, degree * nodes))
    x = torch.randn(nodes, features, requires_grad=True)
    inputs = () if edge_dim is None else (torch.randn(degree * nodes, edge_dim),)
    deg = torch.bincount(torch.bincount(edges[1], minlength=nodes))
    theirs = pyg.PNAConv(features, features, AGGREGATORS, SCALERS, deg, edge_dim)
    ours = PNAConv.from_pyg(theirs)
    times: dict[str, list[float]] = {"pna": [], "torch_geometric": []}
    for k in range(repeats + 10):
        for name, layer in (("pna", ours), ("torch_geometric", theirs)):
            seconds = _time(layer, x, edges.clone(), *inputs)
            if k >= 10:
                times[name].append(1e3 * seconds)
    return {name: statistics.median(values) for name, values in times.items()}


def _time(layer: Callable[..., Tensor], *inputs: Tensor) -> float:
    """Processor seconds of a forward and backward pass."""
    start = time.process_time()
    layer(*inputs).square().mean().backward()
    return time.process_time() - start


def main() -> None:
    """Measure all graphs and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--features", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=300, help="calls of the smallest graph; larger ones get fewer")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = {}
    print(f"{'graph':<36}{'pna, ms':>10}{'theirs, ms':>12}{'ratio':>8}")
    for name, (nodes, degree, edge_dim) in GRAPHS.items():
        repeats = max(5, min(arguments.repeats, arguments.repeats * 400 // nodes))
        row = measure(nodes, degree, edge_dim, arguments.features, repeats)
        row["ratio"] = row["torch_geometric"] / row["pna"]
        print(f"{name:<36}{row['pna']:>10.2f}{row['torch_geometric']:>12.2f}{row['ratio']:>8.2f}", flush=True)
        rows[name] = row
    print(json.dumps({"benchmark": "layer_small", **vars(arguments), **rows, "machine": describe()}))


if __name__ == "__main__":
    main()
