"""One PNA layer on a GPU, forward and backward, beside PyTorch Geometric's, on batches of small graphs.

    python -m benchmarks.layer_gpu [--repeats 50]

Two batches: as of ZINC, 128 molecules (75 features, 5 towers), and as of CIFAR10's superpixels, 128 graphs of 118 nodes
with eight neighbours each. Rows: ours from an edge_index in random order, sorting included; ours with Neighbourhoods
made before; both compiled; PyTorch Geometric's with the same weights, eager and compiled. Times are medians of whole
calls, the host's work included: such layers are bound by the number of launches. Prints a table and a JSON line each.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable

import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn

from benchmarks.machine import describe
from pna import Neighbourhoods, PNAConv

AGGREGATORS = ["mean", "max", "min", "std"]
SCALERS = ["identity", "amplification", "attenuation"]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def molecules(graphs: int) -> tuple[Tensor, int]:
    """Trees of 23 atoms with two bonds more, both directions of each: 48 messages per molecule."""
    n = 23
    parent = (torch.rand(graphs, n - 1) * torch.arange(1, n)).long()  # of the atoms 1 … 22
    child = torch.arange(1, n).expand(graphs, -1)
    rings = torch.randint(0, n, (2, graphs, 2))
    first = (torch.arange(graphs) * n).unsqueeze(1)
    ends = torch.stack([torch.cat([parent, rings[0]], 1) + first, torch.cat([child, rings[1]], 1) + first]).flatten(1)
    return torch.cat([ends, ends.flip(0)], dim=1), graphs * n


def superpixels(graphs: int) -> tuple[Tensor, int]:
    """118 superpixels, each with eight others as neighbours: 944 messages per graph."""
    n, k = 118, 8
    source = torch.rand(graphs, n, n).topk(k, dim=2).indices + (torch.arange(graphs) * n).view(-1, 1, 1)
    target = torch.arange(graphs * n).repeat_interleave(k)
    return torch.stack([source.flatten(), target]), graphs * n


BATCHES = {"ZINC": molecules, "CIFAR10": superpixels}


def milliseconds(layer: Callable, x: Tensor, edges: Tensor | Neighbourhoods, parameters: list, repeats: int) -> float:
    """The median time of a forward and a backward pass."""
    times = []
    for _ in range(repeats + 5):
        _synchronise()
        start = time.perf_counter()
        torch.autograd.grad(layer(x, edges).sum(), [x, *parameters])
        _synchronise()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[5:])


def _synchronise() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def compare(batch: str, graphs: int, features: int, towers: int, repeats: int, compiled: bool) -> dict:
    """All rows of one batch."""
    torch.manual_seed(0)
    edge_index, nodes = BATCHES[batch](graphs)
    edge_index = edge_index[:, torch.randperm(edge_index.shape[1])].to(DEVICE)
    deg = torch.bincount(torch.bincount(edge_index[1].cpu(), minlength=nodes))
    theirs = pyg.PNAConv(features, features, AGGREGATORS, SCALERS, deg, towers=towers).to(DEVICE)
    ours = PNAConv.from_pyg(theirs)
    x = torch.randn(nodes, features, device=DEVICE, requires_grad=True)
    prepared = Neighbourhoods.of(edge_index, nodes).with_transpose()
    runs: dict[str, tuple[nn.Module, Tensor | Neighbourhoods]] = {
        "ours": (ours, edge_index),
        "ours, prepared": (ours, prepared),
        "torch_geometric": (theirs, edge_index),
    }
    if compiled:
        runs["ours, compiled"] = (torch.compile(ours), edge_index)
        runs["ours, prepared, compiled"] = (torch.compile(ours), prepared)
        runs["torch_geometric, compiled"] = (torch.compile(theirs), edge_index)
    rows = {
        name: milliseconds(layer, x, edges, [p for p in layer.parameters() if p.requires_grad], repeats)
        for name, (layer, edges) in runs.items()
    }
    ratios = {name: rows[name] / rows["ours"] for name in rows if name.startswith("torch_geometric")}
    return {"batch": batch, "nodes": nodes, "edges": edge_index.shape[1], "ms": rows, "times_ours": ratios}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--graphs", type=int, default=128)
    parser.add_argument("--features", type=int, default=75)
    parser.add_argument("--towers", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--eager", action="store_true", help="leave out the compiled layers")
    args = vars(parser.parse_args())
    compiled = not args.pop("eager")
    for batch in BATCHES:
        result = compare(batch, **args, compiled=compiled)
        print(f"{batch}: {result['nodes']:,} nodes, {result['edges']:,} edges, forward and backward")
        for name, ms in result["ms"].items():
            print(f"{name:<28}{ms:>10.3f} ms")
        print(json.dumps({"benchmark": "layer_gpu", **args, **result, "machine": describe()}))


if __name__ == "__main__":
    main()
