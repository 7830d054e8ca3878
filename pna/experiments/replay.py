"""The command `python -m pna replay`: train the first epochs of a recorded cell again, and compare every digit.

Training is deterministic for the same code, seeds, versions and kind of device. So the losses of a replay are those of
the recorded learning curves. Elsewhere they differ by rounding, which every step of the optimiser amplifies: on a CPU,
losses in float32 and in float64 are a percent apart after one epoch, and validation losses, which may explode, far more
after a few. What is judged there is the training loss of the first epochs, by the median over the seeds.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import torch
from tqdm import tqdm

from pna.command_line import FAILED, device, positive, run_command
from pna.errors import MissingData
from pna.experiments.cells import Cell, Profile
from pna.experiments.tables import PROFILE_NAMES, fullest, profile_of, run_of
from pna.training.run import Run, make_repeatable, relative_distance
from pna.training.store import ReplicaResult, Result, load, provenance, rounded

__all__ = ["Replayed", "replay", "replayed"]

JUDGED = 3  # epochs of a replay on another machine, or with other versions or code
ELSEWHERE = 0.2  # how far the training loss may be off there, relative, by the median over the seeds of an epoch


@dataclass(frozen=True)
class Replayed:
    """One epoch of one replica: its recorded losses, which have six digits, and those of the replay, rounded alike."""

    epoch: int
    seed: int
    recorded: tuple[float | None, ...]
    now: tuple[float | None, ...]

    @property
    def distance(self) -> float:
        """The largest relative difference; 0 if all digits agree."""
        return max(relative_distance(*pair) for pair in zip(self.now, self.recorded, strict=True))

    @property
    def training_distance(self) -> float:
        """The relative difference of the training loss."""
        return relative_distance(self.now[0], self.recorded[0])


def replayed(run: Run, result: Result, epochs: int) -> Iterator[list[Replayed]]:
    """Train for some epochs, and yield after each the replicas whose recorded curve has a point there."""
    points = [_points(replica) for replica in result.replicas]
    for epoch, losses in enumerate(run.replay(epochs), start=1):
        yield [
            Replayed(epoch, replica.seed, points[row][epoch], tuple(map(rounded, losses[row].tolist())))
            for row, replica in enumerate(result.replicas)
            if epoch in points[row]
        ]


def _points(replica: ReplicaResult) -> dict[int, tuple[float | None, ...]]:
    """The losses of a replica's recorded learning curve, by epoch."""
    return {int(epoch): tuple(losses) for epoch, *losses in replica.curve}


def replay(arguments: Sequence[str]) -> int:
    """Train the first epochs of a recorded cell again, and compare the losses with the recorded learning curves.

    On the same kind of device, with the same versions and the same code, all digits agree.
    """
    about, *_ = replay.__doc__.partition("\n")
    parser = argparse.ArgumentParser(prog="pna replay", description=about)
    parser.add_argument("cell", metavar="CELL", help="training/spec/model/variant")
    parser.add_argument("--profile", choices=PROFILE_NAMES, help="the recorded budget (default: the fullest)")
    parser.add_argument("--epochs", type=positive, default=10, help="number of epochs to train (default: 10)")
    parser.add_argument(
        "--device", type=device, default="cuda" if torch.cuda.is_available() else "cpu", help="cpu or cuda"
    )
    options = parser.parse_args(arguments)
    return run_command("replay", lambda: _replay(options))


def _replay(options: argparse.Namespace) -> int:
    """Repeat the first epochs of a recorded training and compare the losses; return the exit code."""
    make_repeatable()
    cell = Cell.parse(options.cell).trained
    run = run_of(cell, _recorded_profile(cell, options.profile), options.device)
    result = load(run.result)
    if result.hash != run.hash:
        raise ValueError(f"{run.result} was recorded with another configuration than the present one")
    here = provenance(options.device != "cpu")
    others = [name for name in ("device", "versions", "code") if here[name] != getattr(result, name)]
    remark = f"recorded with other {', '.join(others)} than here" if others else "device, versions and code as recorded"
    print(f"{cell}, {run.profile.name}: {len(result.replicas)} replicas; {remark}", flush=True)
    epochs = tqdm(replayed(run, result, options.epochs), total=options.epochs, unit="epoch", disable=None)
    return _print_replay([point for epoch in epochs for point in epoch], elsewhere=bool(others))


def _recorded_profile(cell: Cell, name: str | None) -> Profile:
    """The profile of this name, or by default the fullest, under which a cell is recorded."""
    recorded = fullest(cell) if name is None else None
    profile = profile_of(cell, name) if name else recorded and recorded[0].profile
    if profile is None or not run_of(cell, profile).result.exists():
        under, how = (f" under the profile {name}", f" --profile {name}") if name else ("", "")
        raise MissingData(f"{cell} is not recorded{under}: train it first, python -m pna train {cell}{how}")
    return profile


def _print_replay(points: Sequence[Replayed], elsewhere: bool) -> int:
    """Print how many recorded losses the replay repeats, and how far off the others are; return the exit code."""
    if not points:
        print("none of these epochs is in the recorded curves: ask for more --epochs")
        return FAILED
    same = sum(point.distance == 0 for point in points)
    worst = max(points, key=lambda point: point.distance)
    print(f"{same} of {len(points)} recorded points repeated in every digit, to epoch {points[-1].epoch}")
    if worst.distance:
        print(f"largest difference {worst.distance:.1e} of a loss, at epoch {worst.epoch} of seed {worst.seed}")
    if not elsewhere:
        return FAILED if worst.distance else 0
    epoch, off = _furthest(points)
    print(f"training loss, median over seeds: {off:.1%} off at most, at epoch {epoch}; allowed: {ELSEWHERE:.0%}")
    return 0 if off <= ELSEWHERE else FAILED


def _furthest(points: Sequence[Replayed]) -> tuple[int, float]:
    """Among the first epochs, the one whose training loss is furthest off by the median over the seeds, and how far."""
    distances: dict[int, list[float]] = {}
    for point in points:
        if point.epoch <= max(JUDGED, points[0].epoch):
            distances.setdefault(point.epoch, []).append(point.training_distance)
    return max(((epoch, median(values)) for epoch, values in distances.items()), key=lambda pair: pair[1])
