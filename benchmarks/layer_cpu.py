"""One PNA layer on the CPU, forward and backward, beside PyTorch Geometric's: time and peak memory.

    python -m benchmarks.layer_cpu [--nodes 200000] [--edges 2000000] [--features 64] [--repeats 3]

Each layer runs in a process of its own, one after the other on the same random graph, so that its peak memory is
measured alone. Prints a table and, last, one JSON line.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch_geometric.nn as pyg

from benchmarks.machine import describe
from pna import PNAConv

AGGREGATORS = ["mean", "std", "max", "min"]
SCALERS = ["identity", "amplification", "attenuation"]
LAYERS = {"pna": PNAConv, "torch_geometric": pyg.PNAConv}


def measure(which: str, nodes: int, edges: int, features: int, repeats: int) -> dict[str, float]:
    """Median seconds of a forward and backward pass, and the peak memory in GiB."""
    torch.manual_seed(0)
    edge_index = torch.randint(0, nodes, (2, edges))
    deg = torch.bincount(torch.bincount(edge_index[1], minlength=nodes))
    layer = LAYERS[which](features, features, AGGREGATORS, SCALERS, deg)
    x = torch.randn(nodes, features, requires_grad=True)
    before = _resident_bytes()
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        layer(x, edge_index).square().mean().backward()
        times.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # kilobytes on Linux
    return {"seconds": statistics.median(times[1:]), "peak_gib": (peak - before) / 2**30}


def _resident_bytes() -> int:
    """Bytes of memory that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def main() -> None:
    """Measure both and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--edges", type=int, default=2_000_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=LAYERS, help=argparse.SUPPRESS)  # the process that measures one of them
    args = vars(parser.parse_args())
    only = args.pop("only")
    if only:
        print(json.dumps(measure(only, **args)))
        return
    rows = {}
    for which in LAYERS:
        sizes = [f"--{name}={value}" for name, value in args.items()]
        command = [sys.executable, "-m", "benchmarks.layer_cpu", f"--only={which}", *sizes]
        rows[which] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    ratios = {key: rows["torch_geometric"][key] / rows["pna"][key] for key in ("seconds", "peak_gib")}
    print(f"{args['nodes']:,} nodes, {args['edges']:,} edges, {args['features']} features, forward and backward")
    print(f"{'layer':<18}{'seconds':>10}{'peak GiB':>10}")
    for which, row in rows.items():
        print(f"{which:<18}{row['seconds']:>10.2f}{row['peak_gib']:>10.2f}")
    print(f"{'ratio':<18}{ratios['seconds']:>10.2f}{ratios['peak_gib']:>10.2f}")
    print(json.dumps({"benchmark": "layer_cpu", **args, **rows, "ratio": ratios, "machine": describe()}))


if __name__ == "__main__":
    main()
