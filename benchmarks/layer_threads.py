"""One PNA layer on a CPU with 1, 2, … threads, idle and busy, beside PyTorch Geometric's.

    python -m benchmarks.layer_threads [--threads 1 2] [--busy 2] [--nodes 5000] [--edges 50000] [--keep]

Forward and backward over one random graph. Busy: as many other processes as --busy says (default: one for each core)
compute all the time. Both layers take turns call by call, so that whatever else the machine does meets both. Prints
medians in seconds and their ratio, and last one JSON line; --keep puts it into results.jsonl.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch_geometric.nn as pyg

from benchmarks.machine import describe, keep
from pna import PNAConv

AGGREGATORS = ["mean", "std", "max", "min"]
SCALERS = ["identity", "amplification", "attenuation"]


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Have other processes compute meanwhile."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in others:
            process.kill()
            process.wait()


def measure(nodes: int, edges: int, features: int, repeats: int) -> dict[str, float]:
    """Median seconds of both layers, which take turns."""
    torch.manual_seed(0)
    edge_index = torch.randint(0, nodes, (2, edges))
    deg = torch.bincount(torch.bincount(edge_index[1], minlength=nodes))
    theirs = pyg.PNAConv(features, features, AGGREGATORS, SCALERS, deg)
    layers = {"pna": PNAConv.from_pyg(theirs), "torch_geometric": theirs}
    x = torch.randn(nodes, features, requires_grad=True)
    times = {name: [] for name in layers}
    for k in range(repeats + 2):
        for name, layer in layers.items():
            start = time.perf_counter()
            layer(x, edge_index).sum().backward()
            if k > 1:  # the first two calls warm up
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def main() -> None:
    """Measure every number of threads, idle and busy, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    cores = os.cpu_count() or 1
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, 2, cores}))
    parser.add_argument("--busy", type=int, default=cores, help="other processes that compute (default: one a core)")
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--edges", type=int, default=50_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--keep", action="store_true", help="put the line into results.jsonl")
    args = vars(parser.parse_args())
    threads, others, record = args.pop("threads"), args.pop("busy"), args.pop("keep")
    rows = []
    print(f"{args['nodes']:,} nodes, {args['edges']:,} edges, {args['features']} features, forward and backward")
    print(f"{'threads':>7}{'machine':>10}{'pna':>10}{'torch_geometric':>18}{'times':>8}")
    for number in threads:
        torch.set_num_threads(number)
        for state in ("idle", "busy"):
            with busy(others if state == "busy" else 0):
                row = measure(**args)
            ratio = row["torch_geometric"] / row["pna"]
            rows.append({"threads": number, "machine": state, **row, "ratio": ratio})
            print(f"{number:>7}{state:>10}{row['pna']:>10.3f}{row['torch_geometric']:>18.3f}{ratio:>8.2f}", flush=True)
    line = {"benchmark": "layer_threads", **args, "others": others, "rows": rows, "machine": describe()}
    print(json.dumps(line))
    if record:
        keep([line])


if __name__ == "__main__":
    main()
