"""Mean, max, min and std of all neighbourhoods, forward and backward, beside PyTorch Geometric's aggregation.

    python -m benchmarks.aggregation [--nodes 1000000] [--edges 10000000] [--features 64] [--repeats 20] [--tune]

On two graphs: random edges, and a power law whose largest hub has a tenth of the edges. Rows:

- ours: the aggregates [N, 4, F], and the scalers as one factor per node, [N, 3]. In this project a scaler is applied
  after the product with U's weights, so the concatenation of scalers and aggregators, [N, 12 F], never exists.
- ours, concatenated: the same with that concatenation, as PyTorch Geometric makes it.
- torch_geometric: DegreeScalerAggregation with the same aggregators and scalers.

The graph is given in CSR order with its transpose, which is made once ("prepare" is the time for it). Prints a table
and a JSON line for each graph. Bandwidths count the least number of bytes that must move. --tune times tile sizes.
"""

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.nn.aggr import DegreeScalerAggregation

from benchmarks.machine import describe
from pna import Neighbourhoods
from pna.degrees import DegreeStatistics
from pna.dispatch import aggregate
from pna.scalers import scale

AGGREGATORS = ["mean", "max", "min", "std"]
SCALERS = ["identity", "amplification", "attenuation"]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def uniform(nodes: int, edges: int) -> Tensor:
    """Random edges, [2, E]."""
    return torch.randint(0, nodes, (2, edges), device=DEVICE)


def power_law(nodes: int, edges: int) -> Tensor:
    """Edges of a power law, [2, E]: degrees fall like 1 / rank, and node 0 receives a tenth of the edges."""
    ranks = torch.rand(2, edges, device=DEVICE, dtype=torch.double)
    edge_index = (nodes**ranks - 1).long().clamp(max=nodes - 1)
    mixed = torch.randperm(nodes, device=DEVICE)
    edge_index = mixed[edge_index]
    edge_index[1, : edges // 10] = 0
    return edge_index


def milliseconds(function: Callable[[], object], repeats: int) -> float:
    """The median time of a call, after two calls that are not counted.

    On a GPU all calls are queued before the first one is waited for, as in a training, so that the time is the GPU's.
    """
    if DEVICE == "cuda":
        return _queued(function, repeats)
    times = []
    for _ in range(repeats + 2):
        start = time.perf_counter()
        function()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[2:])


def _queued(function: Callable[[], object], repeats: int) -> float:
    """Median milliseconds of a call on the GPU, whose calls are all queued before they are waited for."""
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(repeats + 2)]
    torch.cuda.synchronize()
    for start, end in events:
        start.record()
        function()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) for start, end in events[2:])


def peak_gib(function: Callable[[], object]) -> float | None:
    """GiB that a call holds at its peak beyond what was held before; None where torch cannot tell."""
    if DEVICE != "cuda":
        return None
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    function()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**30


def copy_bandwidth(repeats: int) -> float:
    """Bandwidth of a copy within the device in TB/s, reads and writes together."""
    size = 1 << 30 if DEVICE == "cuda" else 1 << 24
    a = torch.empty(size, dtype=torch.uint8, device=DEVICE)
    b = torch.empty_like(a)
    return 2 * size / milliseconds(lambda: b.copy_(a), repeats) / 1e9


def measure(run: Callable[[Tensor], list[Tensor]], x: Tensor, repeats: int) -> dict[str, float | None]:
    """Times without and with gradient, and the peak memory of both passes."""

    def both() -> None:
        outs = run(x)
        torch.autograd.grad(outs, x, [torch.ones_like(out) for out in outs])

    with torch.no_grad():
        row = {"inference_ms": milliseconds(lambda: run(x), repeats)}
    row["forward_ms"] = milliseconds(lambda: run(x), repeats)
    row["backward_ms"] = _backward_ms(run, x, repeats)
    row["total_ms"] = row["forward_ms"] + row["backward_ms"]
    row["peak_gib"] = peak_gib(both)
    return row


def _backward_ms(run: Callable[[Tensor], list[Tensor]], x: Tensor, repeats: int) -> float:
    """Median milliseconds of a backward pass to x."""
    outs = run(x)
    grads = [torch.rand_like(out) for out in outs]
    return milliseconds(lambda: torch.autograd.grad(outs, x, grads, retain_graph=True), repeats)


def ours(neighbourhoods: Neighbourhoods, statistics: DegreeStatistics, concatenate: bool) -> Callable:
    """Return a function of x [N, F]: aggregates [N, 4, F] and factors [N, 3] apart, or their product [N, 12 F]."""

    def run(x: Tensor) -> list[Tensor]:
        """The aggregates of x, [N, 4, F], or their products with the factors, [N, 12 F], as a list of one tensor."""
        aggregates = aggregate(neighbourhoods, AGGREGATORS, x)
        d = neighbourhoods.degree.to(x.dtype)
        factors = torch.stack([scale(d, s, statistics.delta, statistics.mean_degree) for s in SCALERS], dim=1)
        return [(factors[:, :, None, None] * aggregates[:, None]).flatten(1)] if concatenate else [aggregates]

    return run


def theirs(edge_index: Tensor, nodes: int, histogram: Tensor) -> Callable:
    """Return PyTorch Geometric's aggregation of x [N, F], from an edge_index sorted by receiver."""
    layer = DegreeScalerAggregation(AGGREGATORS, SCALERS, histogram).to(DEVICE)

    def run(x: Tensor) -> list[Tensor]:
        return [layer(x[edge_index[0]], edge_index[1], dim_size=nodes)]

    return run


def compare(kind: str, nodes: int, edges: int, features: int, repeats: int) -> dict:
    """Measure all rows on one graph."""
    torch.manual_seed(0)
    edge_index = {"uniform": uniform, "power law": power_law}[kind](nodes, edges)
    prepare = milliseconds(lambda: Neighbourhoods.of(edge_index, nodes).with_transpose(), max(1, repeats // 4))
    neighbourhoods = Neighbourhoods.of(edge_index, nodes).with_transpose()
    edge_index = torch.stack([neighbourhoods.source, neighbourhoods.target])
    histogram = torch.bincount(neighbourhoods.degree)
    statistics = DegreeStatistics.from_histogram(histogram.cpu())
    x = torch.randn(nodes, features, device=DEVICE, requires_grad=True)
    runs = {
        "ours": ours(neighbourhoods, statistics, concatenate=False),
        "ours, concatenated": ours(neighbourhoods, statistics, concatenate=True),
        "torch_geometric": theirs(edge_index, nodes, histogram.cpu()),
    }
    rows = {
        name: measure(run, x, repeats if name != "torch_geometric" else max(3, repeats // 4))
        for name, run in runs.items()
    }
    floor = 4 * features * (edges + len(AGGREGATORS) * nodes)  # every message read once, every aggregate written once
    rows["ours"]["forward_tb_s"] = floor / rows["ours"]["forward_ms"] / 1e9
    rows["ours"]["inference_tb_s"] = floor / rows["ours"]["inference_ms"] / 1e9
    return {
        "graph": kind,
        "largest_degree": int(neighbourhoods.degree.max()),
        "prepare_ms": prepare,
        "copy_tb_s": copy_bandwidth(repeats),
        "rows": rows,
        "ratio": {
            name: {
                key: rows["torch_geometric"][key] / rows[name][key]
                for key in ("total_ms", "peak_gib")
                if rows[name][key] is not None
            }
            for name in ("ours", "ours, concatenated")
        },
    }


def show(result: dict) -> None:
    """Print one graph's rows as a table."""
    print(f"{result['graph']}: largest degree {result['largest_degree']:,}, prepare {result['prepare_ms']:.2f} ms,")
    print(f"copy {result['copy_tb_s']:.2f} TB/s")
    columns = ["inference_ms", "forward_ms", "backward_ms", "total_ms", "peak_gib", "forward_tb_s", "inference_tb_s"]
    print(f"{'':<20}" + "".join(f"{column:>16}" for column in columns))
    for name, row in result["rows"].items():
        cells = (row.get(column) for column in columns)
        print(f"{name:<20}" + "".join(f"{'':>16}" if cell is None else f"{cell:>16.3f}" for cell in cells))


def tune(nodes: int, edges: int, features: int, repeats: int) -> None:
    """Times of the kernels alone for some tile sizes, on the random graph, in milliseconds."""
    from pna.kernels import aggregation, aggregation_backward
    from pna.kernels.compile_time import Config

    torch.manual_seed(0)
    neighbourhoods = Neighbourhoods.of(uniform(nodes, edges), nodes).with_transpose()
    ptr, column = neighbourhoods[:2]
    x = torch.randn(nodes, 1, features, device=DEVICE)
    names = " ".join(AGGREGATORS)
    BC = Config.of(features).BC
    configs = [
        Config(B, K, BC, warps) for B, K, warps in itertools.product((1, 2, 4), (4, 8, 16), (1, 2)) if B * K <= 32
    ]
    configs += [Config(4, 2, BC, 4), Config(8, 2, BC, 8), Config(4, 8, BC, 4)]
    if features > BC:
        configs += [Config(1, 8, 2 * BC, 1), Config(1, 8, 2 * BC, 2)]
    if features % BC:  # the last block is not full: compare with narrower blocks, and with a wider one
        widths = itertools.product((16, 32, 64, 128), (1, 2))
        configs = [Config(warps * 128 // width, 4, width, warps) for width, warps in widths]
    for config in configs:
        out, saved = aggregation.forward(x, None, None, ptr, column, names, True, config)
        g = torch.rand_like(out)
        row = {
            "inference": lambda c=config: aggregation.forward(x, None, None, ptr, column, names, False, c),
            "forward": lambda c=config: aggregation.forward(x, None, None, ptr, column, names, True, c),
            "backward": lambda c=config, g=g, s=saved: aggregation_backward.backward(
                g, x, None, ptr, column, neighbourhoods.transpose, names, s, False, c
            ),
        }
        print(
            json.dumps({"tune": config._asdict(), **{k: milliseconds(f, repeats) for k, f in row.items()}}), flush=True
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--tune", action="store_true", help="time tile sizes of the kernels first (needs a GPU)")
    args = vars(parser.parse_args())
    if args.pop("tune"):
        tune(**args)
    for kind in ("uniform", "power law"):
        result = compare(kind, **args)
        show(result)
        print(json.dumps({"benchmark": "aggregation", **args, **result, "machine": describe()}))


if __name__ == "__main__":
    main()
