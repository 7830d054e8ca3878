"""Whether training by the kernels follows the plain-torch path: the same seeds, epoch by epoch.

    python -m benchmarks.curves [--models pna gat gin] [--epochs 20] [--seeds 10]

Prints the largest relative difference of any seed's training and validation loss in those epochs and, last, one JSON
line.
"""

import argparse
import contextlib
import json

import torch
from torch import Tensor

from benchmarks.machine import describe
from benchmarks.training import RELEASED, prepare
from pna.experiments import PROFILES
from pna.kernels.choice import plain


def curves(model: str, spec: str, seeds: int, epochs: int, device: str, path: str) -> Tensor:
    """Training and validation loss, [epochs, seeds, 2]."""
    with plain() if path == "plain" else contextlib.nullcontext():
        trainer, replicas = prepare(model, spec, seeds, PROFILES["paper"], device)
        steps, points = trainer.epochs(replicas), []
        for _ in range(epochs):
            next(steps)
            points.append(torch.stack([replicas.train, replicas.validation], dim=1).cpu())
    return torch.stack(points)


def main() -> None:
    """Both paths, model by model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", nargs="+", choices=RELEASED, default=["pna", "gat", "gin"])
    parser.add_argument("--spec", default="released")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    rows = {}
    for model in args.models:
        mine, theirs = (
            curves(model, args.spec, args.seeds, args.epochs, args.device, path) for path in ("kernels", "plain")
        )
        apart = ((mine - theirs).abs() / theirs).amax((0, 1))
        rows[model] = {"train": apart[0].item(), "validation": apart[1].item()}
        print(
            f"{model:<16} largest relative difference: training {apart[0]:.1e}, validation {apart[1]:.1e}", flush=True
        )
    print(json.dumps({"benchmark": "curves", **vars(args), "apart": rows, "machine": describe()}))


if __name__ == "__main__":
    main()
