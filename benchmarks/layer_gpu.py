"""One PNA layer on a GPU, forward and backward, beside PyTorch Geometric's, on batches of small graphs.

    python -m benchmarks.layer_gpu [--repeats 50]

Two batches: 128 molecules like ZINC's (75 features, 5 towers), and 128 graphs like CIFAR10's superpixels, of 118 nodes
with eight neighbours each. Rows: ours from an edge_index in random order, sorting included; ours with Neighbourhoods
made before; PyTorch Geometric's with the same weights; both compiled; ours and theirs from the
edge_index recorded as a CUDA graph, forward and backward, and replayed. Times are medians of whole calls, the host's
work included: such layers are bound by the number of launches. Prints a table, and at the end a JSON line each.
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
WARM = 0.5  # seconds, so that the row that is measured first does not pay for the others


def molecules(graphs: int) -> tuple[Tensor, int]:
    """Make a batch like ZINC's: trees of 23 atoms and two more bonds, in both directions: 48 messages per molecule."""
    n = 23
    parent = (torch.rand(graphs, n - 1) * torch.arange(1, n)).long()  # of the atoms 1 … 22
    child = torch.arange(1, n).expand(graphs, -1)
    rings = torch.randint(0, n, (2, graphs, 2))
    first = (torch.arange(graphs) * n).unsqueeze(1)
    ends = torch.stack([torch.cat([parent, rings[0]], 1) + first, torch.cat([child, rings[1]], 1) + first]).flatten(1)
    return torch.cat([ends, ends.flip(0)], dim=1), graphs * n


def superpixels(graphs: int) -> tuple[Tensor, int]:
    """Make a batch like CIFAR10's: 118 superpixels with eight neighbours each, 944 messages per graph."""
    n, k = 118, 8
    source = torch.rand(graphs, n, n).topk(k, dim=2).indices + (torch.arange(graphs) * n).view(-1, 1, 1)
    target = torch.arange(graphs * n).repeat_interleave(k)
    return torch.stack([source.flatten(), target]), graphs * n


BATCHES = {"ZINC": molecules, "CIFAR10": superpixels}


Step = Callable[[], object]  # a forward and a backward pass


def milliseconds(step: Step, repeats: int) -> float:
    """Median time of a call, once clocks, caches and the interpreter are warm."""
    times, begun = [], time.perf_counter()
    while len(times) < 5 or (DEVICE == "cuda" and time.perf_counter() - begun < WARM):
        times.append(_timed(step))
    return statistics.median(_timed(step) for _ in range(repeats))


def _timed(step: Step) -> float:
    """Milliseconds of one call, with the GPU idle before and after."""
    _synchronise()
    start = time.perf_counter()
    step()
    _synchronise()
    return 1e3 * (time.perf_counter() - start)


def _synchronise() -> None:
    """Wait for the GPU, if there is one."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def step_of(layer: nn.Module, x: Tensor, edges: Tensor | Neighbourhoods) -> Step:
    """Return a layer's forward and backward pass, with the gradients of x and of all weights."""
    wanted = [x, *(p for p in layer.parameters() if p.requires_grad)]
    return lambda: torch.autograd.grad(layer(x, edges).sum(), wanted)


def recorded(step: Step) -> Step:
    """Record a function as one CUDA graph; return its replay."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # so that what is done only once is not recorded
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = step()  # the graph writes into these
    return lambda: (graph.replay(), kept)


class Comparison:
    """The layers of one batch, and the times of their rows, measured one after the other and printed."""

    def __init__(self, batch: str, graphs: int, features: int, towers: int, repeats: int) -> None:
        torch.manual_seed(0)
        edge_index, self.nodes = BATCHES[batch](graphs)
        self.edge_index = edge_index[:, torch.randperm(edge_index.shape[1])].to(DEVICE)
        deg = torch.bincount(torch.bincount(self.edge_index[1].cpu(), minlength=self.nodes))
        self.theirs = pyg.PNAConv(features, features, AGGREGATORS, SCALERS, deg, towers=towers).to(DEVICE)
        self.ours = PNAConv.from_pyg(self.theirs)
        self.x = torch.randn(self.nodes, features, device=DEVICE, requires_grad=True)
        self.batch, self.repeats, self.rows = batch, repeats, {}
        print(f"{batch}: {self.nodes:,} nodes, {self.edge_index.shape[1]:,} edges, forward and backward")

    def eager(self) -> None:
        """Time our layer, our layer on a prepared graph, and PyTorch Geometric's."""
        prepared = Neighbourhoods.of(self.edge_index, self.nodes).with_transpose()
        self._measure("ours", step_of(self.ours, self.x, self.edge_index))
        self._measure("ours, prepared", step_of(self.ours, self.x, prepared))
        self._measure("torch_geometric", step_of(self.theirs, self.x, self.edge_index))

    def compiled(self) -> None:
        """Time both layers under torch.compile."""
        self._measure("ours, compiled", step_of(torch.compile(self.ours), self.x, self.edge_index))
        self._measure("torch_geometric, compiled", step_of(torch.compile(self.theirs), self.x, self.edge_index))

    def recorded(self, name: str, layer: nn.Module) -> None:
        """Time a layer as a CUDA graph, if it can be recorded."""
        try:
            self._measure(f"{name}, recorded", recorded(step_of(layer, self.x, self.edge_index)))
        except RuntimeError as error:
            print(f"{name}, recorded: cannot be, on {self.batch}: {str(error).splitlines()[0]}")

    def _measure(self, name: str, step: Step) -> None:
        """Measure a step, keep its milliseconds and print them."""
        self.rows[name] = milliseconds(step, self.repeats)
        print(f"{name:<28}{self.rows[name]:>10.3f} ms")

    def result(self) -> dict:
        """Return all rows, and PyTorch Geometric's times as multiples of ours."""
        others = [name for name in self.rows if name.startswith("torch_geometric")]
        ratios = {
            f"times_{mine.replace(', ', '_')}": {name: self.rows[name] / self.rows[mine] for name in others}
            for mine in ("ours", "ours, recorded")
            if mine in self.rows
        }
        edges = self.edge_index.shape[1]
        return {"batch": self.batch, "nodes": self.nodes, "edges": edges, "ms": self.rows, **ratios}


def main() -> None:
    """Measure both batches and print them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--graphs", type=int, default=128)
    parser.add_argument("--features", type=int, default=75)
    parser.add_argument("--towers", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--eager", action="store_true", help="leave out the compiled layers")
    args = vars(parser.parse_args())
    eager = args.pop("eager")
    comparisons = []
    for batch in BATCHES:
        comparison = Comparison(batch, **args)
        comparison.eager()
        if DEVICE == "cuda":
            comparison.recorded("ours", comparison.ours)
        if not eager:
            comparison.compiled()
        comparisons.append(comparison)
    for comparison in comparisons if DEVICE == "cuda" else []:  # last: a recording that fails may leave CUDA unusable
        comparison.recorded("torch_geometric", comparison.theirs)
    for comparison in comparisons:
        print(json.dumps({"benchmark": "layer_gpu", **args, **comparison.result(), "machine": describe()}))


if __name__ == "__main__":
    main()
