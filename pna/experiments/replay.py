"""Replay: train the first epochs of a recorded cell again, and compare the losses with the recorded learning curves."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from pna.training.run import Run
from pna.training.store import ReplicaResult, Result, rounded

__all__ = ["Replayed", "replayed"]


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
        return max(_distance(*pair) for pair in zip(self.now, self.recorded, strict=True))


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
    """Recorded losses of a replica by epoch."""
    return {int(epoch): tuple(losses) for epoch, *losses in replica.curve}


def _distance(now: float | None, then: float | None) -> float:
    """The difference of two losses, relative to the second; None, a loss that is not finite, equals only itself."""
    if now == then:
        return 0.0
    return math.inf if now is None or not then else abs(now - then) / abs(then)
