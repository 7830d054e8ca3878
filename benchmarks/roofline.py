"""How near the kernels come to the hardware: arithmetic rate over arithmetic intensity, from benchmarks/results.jsonl.

    python -m benchmarks.roofline [--to figures/roofline.png]

Operations and bytes are counted by hand, below: products as dense 16 × 16 matrices, each plane [nodes, 16] of a layer
once. Times are the last recorded ones of `benchmarks.training --breakdown` and `benchmarks.aggregation`.
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
    """What a kernel of the recurrent network does for one node in one layer: matrices and planes."""

    matrices: int
    planes: int
    nodes: int


COUNTS = {
    "layer_forward": Count(22, 8, TRAINED + VALIDATED),  # U 13, mixing 1, GRU 6, projections 2
    "node_backward": Count(26, 18, TRAINED),
    "aggregates_backward": Count(24, 12, TRAINED),
}


@dataclass(frozen=True)
class Point:
    """A kernel on the plot."""

    name: str
    operations: float
    bytes: float
    seconds: float


def last(benchmark: str, **wanted: str) -> dict:
    """The last recorded line of a benchmark."""
    lines = [json.loads(line) for line in (HERE / "results.jsonl").read_text().splitlines()]
    found = [x for x in lines if x["benchmark"] == benchmark and all(x.get(k) == v for k, v in wanted.items())]
    if not found:
        raise ValueError(f"benchmarks/results.jsonl has no line of {benchmark} {wanted or ''}: run it on a GPU first")
    return found[-1]


def network_points() -> list[Point]:
    """The kernels of a recurrent PNA, all replicas of an epoch."""
    rows = [row for row in last("training")["rows"] if row["model"] == "pna" and "kernels" in row]
    row = max(rows, key=lambda row: row["replicas"])
    return [
        Point(
            name,
            count.matrices * MATRIX * count.nodes * row["replicas"],
            count.planes * PLANE * count.nodes * row["replicas"],
            row["kernels"][name] / 1e3,
        )
        for name, count in COUNTS.items()
    ]


def aggregation_points() -> tuple[list[Point], float]:
    """Aggregation without and with what the gradient needs, and a copy's bytes per second."""
    line = last("aggregation", graph="uniform")
    N, E, F = line["nodes"], line["edges"], line["features"]
    moved = 4 * F * (E + 4 * N)  # each message read, four aggregates written
    messages = 7 * E * F  # a difference, a sum, a square and its sum, two comparisons, the shift
    row = line["rows"]["ours"]
    forward = [Point("aggregation, inference", messages, moved, row["inference_ms"] / 1e3)]
    forward += [Point("aggregation, forward", messages, moved, row["forward_ms"] / 1e3)]
    gathered = 4 * F * (4 * E + 4 * 4 * N + 2 * N)  # four coefficients a message; g, aggregates and coefficients once
    backward = Point("aggregation, backward", 6 * E * F, gathered, row["backward_ms"] / 1e3)
    return [*forward, backward], line["copy_tb_s"] * 1e12


def draw(points: list[Point], bandwidth: float, path: Path) -> None:
    """The plot, and the share of the roof that each kernel reaches."""
    figure, axes = plt.subplots(figsize=(6.5, 4.2), layout="constrained")
    intensities = [2.0**k for k in range(-3, 9)]
    for peak, style, label in ((FP32, "-", "float32"), (TF32_THRICE, "--", "float32 as three TF32 products")):
        axes.plot(intensities, [min(peak, i * bandwidth) / 1e12 for i in intensities], style, color="0.3", label=label)
    for point in points:
        intensity, rate = point.operations / point.bytes, point.operations / point.seconds
        roof = min(TF32_THRICE if point.name in COUNTS else FP32, intensity * bandwidth)
        axes.plot(intensity, rate / 1e12, "o")
        axes.annotate(f"{point.name}: {rate / roof:.0%}", (intensity, rate / 1e12), xytext=(6, -10),
                      textcoords="offset points", fontsize=7)  # fmt: skip
        print(f"{point.name:<24}{intensity:>8.2f} op/B{rate / 1e12:>8.2f} Top/s{rate / roof:>8.0%} of the roof")
    axes.set(xscale="log", yscale="log", xlabel="operations per byte", ylabel="10¹² operations per second")
    axes.legend(fontsize=7, loc="upper left")
    figure.savefig(path, dpi=160)
    plt.close(figure)


def main() -> None:
    """Draw it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--to", type=Path, default=HERE / "roofline.png")
    args = parser.parse_args()
    points, bandwidth = aggregation_points()
    draw(network_points() + points, bandwidth, args.to)


if __name__ == "__main__":
    main()
