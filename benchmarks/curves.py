"""How far training by the kernels strays from plain torch, and plain torch from itself in float64: the same seeds.

    python -m benchmarks.curves [--models pna gat gin] [--epochs 20] [--seeds 10] [--profile paper]

Training amplifies rounding: some gradients are zero but for rounding (that of a bias in front of a batch normalisation,
say), and Adam makes full steps of them. So the difference of two float32 paths is to be read beside that of float32 and
float64. Prints the largest relative difference to float64 of any seed's training and validation loss after each of a
few epochs and, last, one JSON line.
"""

import argparse
import contextlib
import json

import torch
from torch import Tensor

from benchmarks.crew import prepare_cell
from benchmarks.machine import describe
from pna.experiments import PROFILES
from pna.figures.published import RELEASED_SECONDS
from pna.kernels.selection import plain

PATHS = {"float64": torch.float64, "plain": torch.float32, "kernels": torch.float32}


def curves(path: str, args: argparse.Namespace, model: str) -> Tensor:
    """Training and validation loss, [epochs, seeds, 2]."""
    with contextlib.nullcontext() if path == "kernels" else plain():
        cell, profile = f"multitask/{args.spec}/{model}/16", PROFILES[args.profile]
        trainer, replicas = prepare_cell(cell, args.seeds, profile, args.device, PATHS[path])
        steps, points = trainer.epochs(replicas), []
        for _ in range(args.epochs):
            next(steps)
            points.append(torch.stack([replicas.train, replicas.validation], dim=1).double().cpu())
    return torch.stack(points)


def main() -> None:
    """Train all three paths, model by model, and print how far they are apart."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", nargs="+", choices=RELEASED_SECONDS, default=["pna", "gat", "gin"])
    parser.add_argument("--spec", default="released")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--profile", choices=PROFILES, default="paper")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    rows = {}
    for model in args.models:
        exact, *others = (curves(path, args, model) for path in PATHS)
        for path, losses in zip(list(PATHS)[1:], others, strict=True):
            apart = ((losses - exact).abs() / exact).amax(1)  # [epochs, 2]
            rows[f"{model}, {path}"] = apart.tolist()
            train, validation = (" ".join(f"{value:.0e}" for value in column) for column in apart.T)
            print(f"{model}, {path}\n  training   {train}\n  validation {validation}", flush=True)
    print(json.dumps({"benchmark": "curves", **vars(args), "apart": rows, "machine": describe()}))


if __name__ == "__main__":
    main()
