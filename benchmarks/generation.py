"""Speed of generating the multi-task benchmark: graphs per second with all six labels, on one CPU core.

    python -m benchmarks.generation [--seconds 2]

Prints a table and, last, one JSON line with the same numbers, the processor and the versions. The released code's
generator makes about 34 graphs a second (sizes 15-24, the paper's mixture of families).

As described, large graphs are expensive, since toggling leaves few of them whole: of about 5,000 stars of 100 nodes one
is left without an isolated node, and all others are drawn again.
"""

# ruff: noqa: E402 (the number of threads must be set before numpy is imported)

import argparse
import json
import os
import statistics
import time

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import torch

from benchmarks.machine import describe
from pna.multitask import DESCRIBED, RELEASED, Spec, Split, make_split
from pna.text import table

RELEASED_CODE = 34  # graphs per second
TRAINING_SIZES = tuple(range(15, 25))


def graphs_per_second(spec: Spec, sizes: tuple[int, ...], per_size: int, seconds: float) -> float:
    """Median rate over fresh seeds, for at least `seconds` and three runs, after one warm-up run."""
    split = Split("train", "train", sizes, per_size)
    rates, end, seed = [], time.perf_counter() + seconds, 0
    while len(rates) < 4 or time.perf_counter() < end:
        start = time.perf_counter()
        make_split(spec, split, seed)
        rates.append(len(split) / (time.perf_counter() - start))
        seed += 1
    return statistics.median(rates[1:])


def measure(seconds: float) -> list[dict]:
    """Measure the paper's training set, then more graphs, then larger ones."""
    cases = [("training set", TRAINING_SIZES, 512)]
    cases += [("more graphs", TRAINING_SIZES, per_size) for per_size in (1, 8, 64, 4096)]
    cases += [("larger graphs", (N,), 512) for N in (15, 20, 25, 30, 40, 50, 75, 100)]
    rows = []
    for case, sizes, per_size in cases:
        for spec in (RELEASED, DESCRIBED):
            rate = graphs_per_second(spec, sizes, per_size, seconds)
            rows.append(
                {
                    "case": case,
                    "spec": str(spec),
                    "sizes": "-".join(map(str, sorted({sizes[0], sizes[-1]}))),
                    "graphs": per_size * len(sizes),
                    "graphs_per_s": round(rate, 1),
                    "us_per_graph": round(1e6 / rate, 1),
                    "times_released_code": round(rate / RELEASED_CODE, 1) if sizes == TRAINING_SIZES else None,
                }
            )
    return rows


def main() -> None:
    """Measure all rows and print them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each row (default: 2)")
    seconds = parser.parse_args().seconds
    torch.set_num_threads(1)
    rows = measure(seconds)
    print(table(list(rows[0]), (["" if value is None else value for value in row.values()] for row in rows)))
    print(json.dumps({"benchmark": "generation", "machine": describe(), "rows": rows}))


if __name__ == "__main__":
    main()
