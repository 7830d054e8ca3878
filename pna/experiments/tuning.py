"""The tuning of section 4: a search for learning rate and weight decay on the validation set, the same for each model.

The paper says that hyper-parameters were tuned on the validation set, and gives neither ranges nor a budget. Here each
model gets the same 64 draws, trained together: at each rung only the better half, by validation loss, goes on. No test
set is ever looked at. The cell is tuning/SPEC/MODEL/16, and its result records every draw.

The runs that the paper reports have different seeds, and hyper-parameters close to the tuned values. The cell
tuned/SPEC/MODEL/16 has them: each seed draws both anew, at most a factor of 1.5 away from the best of the search.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from pna.errors import MissingData
from pna.experiments.cells import Cell, Profile
from pna.experiments.multitask import PROFILES, MultiTaskRun, MultiTaskTrainer
from pna.places import weights_folders
from pna.training.replicas import Replicas
from pna.training.store import Result, load

__all__ = ["LEARNING_RATES", "NEAR", "RUNGS", "WEIGHT_DECAYS", "Draw", "TunedRun", "TuningRun", "TuningTrainer"]
__all__ += ["draws", "near", "ranked", "training_command"]

DRAWS = 64
LEARNING_RATES = (1e-4, 3e-2)  # log-uniform
WEIGHT_DECAYS = (1e-8, 1e-3)  # log-uniform
RUNGS = ((0.05, 2), (0.1, 4), (0.2, 8), (0.4, 16))  # after this share of the epochs, one draw in so many goes on
FIRST_SEED = 1_000  # initialisations that no other cell uses
NEAR = 1.5  # how far from the best of the search the reported runs may be, as a factor


def draws(count: int) -> tuple[list[float], list[float]]:
    """`count` learning rates and weight decays, the same for every model; fewer are the first of more."""
    u = np.random.default_rng(2020).random((count, 2))
    pairs = zip((LEARNING_RATES, WEIGHT_DECAYS), u.T, strict=True)
    rates, decays = (np.exp(math.log(low) + column * math.log(high / low)) for (low, high), column in pairs)
    return rates.tolist(), decays.tolist()


@dataclass(frozen=True)
class Draw:
    """One draw of a recorded search and how far it came."""

    seed: int
    learning_rate: float
    weight_decay: float
    epochs: int
    ended_by: str
    loss: float  # least validation loss; infinite if the loss was never finite


def ranked(result: Result) -> list[Draw]:
    """The draws of a recorded search, that with the least validation loss first."""
    search = result.configuration["search"]
    losses = (math.inf if replica.validation is None else replica.validation for replica in result.replicas)
    columns = (result.replicas, search["learning_rates"], search["weight_decays"], losses)
    trials = (
        Draw(replica.seed, rate, decay, replica.epochs, replica.ended_by, loss)
        for replica, rate, decay, loss in zip(*columns, strict=True)
    )
    return sorted(trials, key=lambda draw: draw.loss)


class TuningTrainer(MultiTaskTrainer):
    """Successive halving: a replica trains on past a rung only if it is among the best there by validation loss."""

    rungs: tuple[tuple[int, int], ...] = ()  # (epochs, how many replicas go on)

    def running(self, replicas: Replicas) -> Tensor:
        """Indices of the replicas that are not finished, and have not been left behind at a rung.

        A replica that goes on can only lower its best loss, so that ranking all replicas by it now gives, at every rung
        passed so far, the same ones as ranking them then. If one of them diverges, its place passes to the best of
        those left behind, which goes on from where it stopped and may in turn take the place of a worse one.
        """
        index = super().running(replicas)
        return index[~self.left_behind(replicas)[index]]

    def left_behind(self, replicas: Replicas) -> Tensor:
        """Whether a replica has reached a rung without being among those that go on, [R]."""
        best = replicas.best.masked_fill(replicas.diverged, torch.inf)
        rank = best.argsort(stable=True).argsort()
        behind = torch.zeros_like(replicas.diverged)
        for epochs, survivors in self.rungs:
            behind |= (replicas.epoch >= epochs) & (rank >= survivors)
        return behind


class TuningRun(MultiTaskRun):
    """The search for one model: every replica has a learning rate and a weight decay of its own."""

    trainer_type = TuningTrainer
    ships = False
    own_seeds = True

    def __init__(self, cell: Cell, profile: Profile, device: str = "cpu", dtype: torch.dtype = torch.float32) -> None:
        super().__init__(cell, profile, device, dtype)
        count = DRAWS if profile.divisor == 1 else 8
        self.seeds = list(range(FIRST_SEED, FIRST_SEED + count))
        self.learning_rates, self.weight_decays = draws(count)

    @property
    def rungs(self) -> tuple[tuple[int, int], ...]:
        """Pairs of numbers: epochs of a rung, and how many replicas train on past it."""
        return tuple(
            (max(1, round(share * self.profile.epochs)), max(1, len(self.seeds) // part)) for share, part in RUNGS
        )

    @property
    def configuration(self) -> dict:
        """Everything that decides the result, as JSON: that of a multi-task cell, with the draws and the rungs."""
        search = {"learning_rates": self.learning_rates, "weight_decays": self.weight_decays, "rungs": self.rungs}
        return super().configuration | {"search": search}

    @cached_property
    def trainer(self) -> TuningTrainer:
        """The trainer of all draws together."""
        trainer = MultiTaskRun.trainer.func(self)
        trainer.rungs = self.rungs
        return trainer

    @property
    def collections(self) -> tuple[str, ...]:
        """No test set: a search sees the validation set alone."""
        return ()

    def _ended_by(self, row: int) -> str:
        """Say why a replica has ended: also by the search, which halts the worst draws."""
        ended_by = super()._ended_by(row)
        halted = ended_by == "epochs" and int(self.replicas.epoch[row]) < self.settings.epochs
        return "search" if halted else ended_by


def near(best: float, seeds: Sequence[int], stream: int) -> list[float]:
    """A number for each seed, log-uniform within a factor of NEAR of `best`; a stream for each hyper-parameter."""
    return [best * NEAR ** np.random.default_rng((2021, stream, seed)).uniform(-1, 1) for seed in seeds]


def training_command(run: MultiTaskRun) -> str:
    """The command that trains the cell of a search, with its budget."""
    base, _, other = run.profile.name.partition("-")
    epochs = f" --epochs {run.profile.epochs}" if other else ""
    return f"python -m pna train {run.cell} --profile {base}{epochs}"


class TunedRun(MultiTaskRun):
    """Runs of one model with hyper-parameters close to the best of its search, which must be recorded."""

    def __init__(self, cell: Cell, profile: Profile, device: str = "cpu", dtype: torch.dtype = torch.float32) -> None:
        super().__init__(cell, profile, device, dtype)
        self.search = TuningRun(replace(cell, training="tuning"), self._searched(profile), device, dtype)
        self.set_learning_rates()

    def best_draw(self) -> Draw | None:
        """The best draw of the search, if it is recorded: in the folder of results, or where weights are looked for."""
        folders = (folder / self.search.profile.name / self.search.cell.place for folder in weights_folders())
        path = next((path for path in (self.search.result, *folders) if path.exists()), None)
        return path and ranked(load(path))[0]

    def set_learning_rates(self) -> None:
        """Draw learning rate and weight decay of each seed close to the best of the search, if it is recorded."""
        if best := self.best_draw():
            self.learning_rates = near(best.learning_rate, self.seeds, 0)
            self.weight_decays = near(best.weight_decay, self.seeds, 1)

    @staticmethod
    def _searched(profile: Profile) -> Profile:
        """Profile of the search: that of the runs with the search's own seeds or, if they are planned, the paper's."""
        base = PROFILES["paper" if profile.planned else profile.name.partition("-")[0]]
        return base if profile.planned else base.changed(epochs=profile.epochs)

    @property
    def ready(self) -> bool:
        """Whether the search is recorded in the folder of results, in which the runs will be."""
        return self.search.result.exists()

    @property
    def configuration(self) -> dict:
        """Everything that decides the result, as JSON: that of a multi-task cell, with each seed's hyper-parameters."""
        return super().configuration | {"learning_rates": self.learning_rates, "weight_decays": self.weight_decays}

    def fresh(self) -> Replicas:
        """The replicas before the first epoch; a search that is not recorded raises MissingData."""
        if not self.ready:
            raise MissingData(f"{self.search.result} is missing: run the search first, {training_command(self.search)}")
        return super().fresh()
