"""Roofline plot of the kernels: arithmetic rate over arithmetic intensity, from benchmarks/results.jsonl.

    python -m benchmarks.roofline [--to figures/roofline.png]

Operations and bytes are counted by hand, below. The roof of the recurrent network's kernels is mixed: dense products by
the tensor cores, three for each, and the towers' blocks in float32. Times are the last recorded ones of
`benchmarks.training --breakdown` and `benchmarks.aggregation`.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt

HERE = Path(__file__).parent
MATRIX = 2 * 16 * 16  # operations of a 16 × 16 matrix and a vector
PLANE = 16 * 4  # bytes of a node's sixteen numbers
TRAINED = 512 * sum(N * (N // 2) for N in range(15, 25))  # layers of nodes of one run in one epoch
VALIDATED = 128 * sum(N * (N // 2) for N in range(15, 20))
FP32, TF32_THRICE = 67e12, 495e12 / 3  # operations per second of an H200, by its datasheet


@dataclass(frozen=True)
class Count:
    """Work of a kernel of the recurrent network for one node in one layer."""

    dense: int  # matrices 16 × 16
    towers: int  # four blocks 4 × 4
    planes: int  # read or written
    nodes: int


COUNTS = {
    "recurrence_forward": Count(7, 15, 3, TRAINED + VALIDATED),  # mixing and GRU; U 13, projections 2
    "recurrence_backward": Count(13 + 7, 17 + 15, 3, TRAINED),  # products, then gradients of weights
}

LABELS = {"recurrence_forward": ((0, 8), "center"), "recurrence_backward": ((0, -14), "center")}  # so that none meet


@dataclass(frozen=True)
class Point:
    """A kernel as a point on the plot."""

    name: str
    operations: float
    bytes: float
    computing: float  # seconds that the operations take at least
    seconds: float


def last(benchmark: str, **wanted: str) -> dict:
    """The last recorded line of a benchmark."""
    lines = [json.loads(line) for line in (HERE / "results.jsonl").read_text().splitlines()]
    matches = [x for x in lines if x["benchmark"] == benchmark and all(x.get(k) == v for k, v in wanted.items())]
    if not matches:
        raise ValueError(f"benchmarks/results.jsonl has no line of {benchmark} {wanted or ''}: run it on a GPU first")
    return matches[-1]


def pna_rows() -> list[dict]:
    """The recorded training of PNA with the time of each kernel."""
    lines = [json.loads(line) for line in (HERE / "results.jsonl").read_text().splitlines()]
    rows = [row for line in lines if line["benchmark"] == "training" for row in line["rows"]]
    breakdowns = [row for row in rows if row["model"] == "pna" and "kernels" in row]
    if not breakdowns:
        raise ValueError("benchmarks/results.jsonl has no breakdown of PNA: run benchmarks.training --breakdown --keep")
    return breakdowns


def network_points() -> list[Point]:
    """Points of the recurrent network's kernels, all replicas of an epoch."""
    row = max(pna_rows(), key=lambda row: row["replicas"])
    points = []
    for name, count in COUNTS.items():
        nodes = count.nodes * row["replicas"]
        dense, towers = count.dense * MATRIX * nodes, count.towers * MATRIX / 4 * nodes
        computing = dense / TF32_THRICE + towers / FP32
        points.append(Point(name, dense + towers, count.planes * PLANE * nodes, computing, row["kernels"][name] / 1e3))
    return points


def aggregation_points() -> tuple[list[Point], float]:
    """Points of the aggregation without and with a gradient, and a copy's bytes per second."""
    line = last("aggregation", graph="uniform")
    N, E, F = line["nodes"], line["edges"], line["features"]
    moved = 4 * F * (E + 4 * N)  # each message read, four aggregates written
    messages = 7 * E * F  # a difference, a sum, a square and its sum, two comparisons, the shift
    row = line["rows"]["ours"]
    forward = [
        Point(f"aggregation, {name}", messages, moved, messages / FP32, row[f"{name}_ms"] / 1e3)
        for name in ("inference", "forward")
    ]
    of_nodes = 4 * F * N * (4 + 3 + 4 + 4)  # gradients, statistics and ties read; coefficients written, and read once
    gathered = of_nodes + 4 * F * 2 * E + E * F // 4  # two of the four for every message; two bits for each extreme
    backward = Point("aggregation, backward", 6 * E * F, gathered, 6 * E * F / FP32, row["backward_ms"] / 1e3)
    return [*forward, backward], line["copy_tb_s"] * 1e12


def draw(points: list[Point], bandwidth: float, path: Path) -> None:
    """Draw the plot; return the share of the roof that each kernel reaches."""
    figure, axes = plt.subplots(figsize=(6.5, 4.2), layout="constrained")
    intensities = [2.0 ** (k / 8) for k in range(-24, 65)]
    for peak, style, label in ((FP32, "-", "float32"), (TF32_THRICE, "--", "float32 as three TF32 products")):
        axes.plot(intensities, [min(peak, i * bandwidth) / 1e12 for i in intensities], style, color="0.3", label=label)
    for point in points:
        intensity, rate = point.operations / point.bytes, point.operations / point.seconds
        share = max(point.computing, point.bytes / bandwidth) / point.seconds
        axes.plot(intensity, rate / 1e12, "o")
        place, side = LABELS.get(point.name, ((6, -10), "left"))
        axes.annotate(f"{point.name}: {share:.0%}", (intensity, rate / 1e12), xytext=place, ha=side,
                      textcoords="offset points", fontsize=7)  # fmt: skip
        print(f"{point.name:<24}{intensity:>8.2f} op/B{rate / 1e12:>8.2f} Top/s{share:>8.0%} of the roof")
    axes.set(xscale="log", yscale="log", xlabel="operations per byte", ylabel="10¹² operations per second")
    axes.legend(fontsize=7, loc="upper left")
    figure.savefig(path, dpi=160)
    plt.close(figure)


def main() -> None:
    """Draw the plot and print the shares."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--to", type=Path, default=HERE / "roofline.png")
    args = parser.parse_args()
    points, bandwidth = aggregation_points()
    draw(network_points() + points, bandwidth, args.to)


if __name__ == "__main__":
    main()
