"""The dropout that section 4 mentions: does it lower the validation loss of the multi-task networks?

The paper tuned dropout, too, and says neither where it is nor which rates were tried; the released code has none. The
cell dropout/SPEC/MODEL/16 trains the same four seeds with each of four rates, all else equal, and is never tested. The
features that a convolution returns are dropped, before the GRU sees them. The recorded cells were computed layer by
layer, before the kernels for whole networks had dropout, and so for a part of the epochs.

Set before the runs, for pna and gcn as described: a rate gains something if the mean log10 of the least validation
losses is lower with it than without dropout by more than MARGIN, that of results/plan.json. If none does, the campaign
stays without dropout.

As some do, dropout is tuned for every model. The cell dropout-tuning/SPEC/MODEL/16 searches for its rate, with the best
learning rate and weight decay of tuning/SPEC/MODEL/16, and is never tested. The cell tuned-dropout/SPEC/MODEL/16 has
runs like those of tuned/SPEC/MODEL/16, with the best rate of dropout.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import nn

from pna.errors import MissingData
from pna.experiments.cells import Cell, Profile
from pna.experiments.multitask import MultiTaskRun
from pna.experiments.tuning import TunedRun, training_command
from pna.networks.dropout import Dropped
from pna.training.replicas import Replicas
from pna.training.store import Result, load

__all__ = ["MARGIN", "RATES", "SEARCHED", "DropoutRun", "DropoutTuningRun", "TunedDropoutRun"]
__all__ += ["best_rate", "gains", "validation_losses"]

RATES = (0.0, 0.02, 0.1, 0.3)
SEEDS = 4  # for each rate
FIRST_SEED = 2_000  # initialisations that no other cell uses
MARGIN = 0.1
SHARE = 0.15  # of the profile's epochs: 1,500 of the paper's

SEARCHED = (0.0, 0.005, 0.02, 0.05, 0.1, 0.2)
SEARCH_SEEDS = 5  # for each of these rates
TUNED_SEEDS = 20  # at the paper's budget
FIRST_SEARCH_SEED, FIRST_TUNED_SEED = 3_000, 4_000


class RunWithDropout(MultiTaskRun):
    """Runs whose convolutions have dropout, each replica with its own rate, in `dropout`.

    Their weights are not shipped: the wrapped convolutions have other names than those of the networks that load them.
    """

    ships = False
    dropout: list[float]

    @property
    def configuration(self) -> dict:
        """Everything that decides the result, as JSON: that of the other runs, with the rate of each replica."""
        return super().configuration | {"dropout": self.dropout}

    def network(self, seed: int, rate: float = 0.0) -> nn.Module:
        """The network of one seed, with its initial weights and a rate of dropout."""
        network = super().network(seed)
        network.GC_1, network.GC_m = Dropped(network.GC_1, rate, 2 * seed), Dropped(network.GC_m, rate, 2 * seed + 1)
        return network.to(self.dtype)

    def networks(self) -> list[nn.Module]:
        """The networks of all replicas, one for each rate and seed."""
        return [self.network(seed, rate) for seed, rate in zip(self.seeds, self.dropout, strict=True)]

    def set_replicas(self, rates: Sequence[float], seeds: Sequence[int]) -> None:
        """Let each rate of dropout have a replica of each seed."""
        self.dropout, self.seeds = map(list, zip(*itertools.product(rates, seeds), strict=True))


class DropoutRun(RunWithDropout):
    """All rates and seeds of the study for one model, as replicas of one training."""

    own_seeds = True

    def __init__(self, cell: Cell, profile: Profile, device: str = "cpu", dtype: torch.dtype = torch.float32) -> None:
        super().__init__(cell, profile, device, dtype)
        self.settings = replace(self.settings, epochs=max(1, round(SHARE * profile.epochs)))
        self.set_replicas(RATES, range(FIRST_SEED, FIRST_SEED + SEEDS))
        self.learning_rates = [self.settings.learning_rate] * len(self.seeds)
        self.weight_decays = [self.settings.weight_decay] * len(self.seeds)


class DropoutTuningRun(RunWithDropout, TunedRun):
    """The search for the rate of dropout of one model, with the best learning rate and weight decay of its search."""

    own_seeds = True

    def __init__(self, cell: Cell, profile: Profile, device: str = "cpu", dtype: torch.dtype = torch.float32) -> None:
        super().__init__(cell, profile, device, dtype)
        rates, seeds = (SEARCHED, SEARCH_SEEDS) if profile.divisor == 1 else (SEARCHED[::5], 1)
        self.set_replicas(rates, range(FIRST_SEARCH_SEED, FIRST_SEARCH_SEED + seeds))
        self.set_learning_rates()

    def set_learning_rates(self) -> None:
        """Give every replica the best learning rate and weight decay of the search, if it is recorded."""
        if best := self.best_draw():
            self.learning_rates = [best.learning_rate] * len(self.seeds)
            self.weight_decays = [best.weight_decay] * len(self.seeds)


class TunedDropoutRun(RunWithDropout, TunedRun):
    """Runs as those of TunedRun, with the best rate of dropout; both searches must be recorded."""

    def __init__(self, cell: Cell, profile: Profile, device: str = "cpu", dtype: torch.dtype = torch.float32) -> None:
        super().__init__(cell, profile, device, dtype)
        if not profile.planned:  # the plan has no such cell
            count = TUNED_SEEDS if profile.full else profile.seeds
            self.seeds = list(range(FIRST_TUNED_SEED, FIRST_TUNED_SEED + count))
        self.set_learning_rates()
        tuning = replace(cell, training="dropout-tuning")
        self.dropout_search = DropoutTuningRun(tuning, self._searched(profile), device, dtype)
        path = self.dropout_search.result
        self.dropout = [best_rate(load(path)) if path.exists() else 0.0] * len(self.seeds)

    @property
    def ready(self) -> bool:
        """Whether both searches are recorded."""
        return super().ready and self.dropout_search.result.exists()

    def fresh(self) -> Replicas:
        """The replicas before the first epoch; a search that is not recorded raises MissingData."""
        if super().ready and not self.ready:
            path, how = self.dropout_search.result, training_command(self.dropout_search)
            raise MissingData(f"{path} is missing: search for the rate of dropout first, {how}")
        return super().fresh()


def validation_losses(result: Result) -> dict[float, list[float]]:
    """The least validation loss of each seed of a recorded cell, by rate; infinite if none was finite."""
    losses: dict[float, list[float]] = {}
    for rate, replica in zip(result.configuration["dropout"], result.replicas, strict=True):
        losses.setdefault(rate, []).append(math.inf if replica.validation is None else replica.validation)
    return losses


def gains(result: Result) -> dict[float, tuple[float, float]]:
    """Mean log10 of the least validation losses of a recorded cell, and how much lower it is than at 0, by rate."""
    losses = validation_losses(result)
    means = {rate: sum(map(math.log10, values)) / len(values) for rate, values in losses.items()}
    return {rate: (mean, means[0.0] - mean) for rate, mean in means.items()}


def best_rate(result: Result) -> float:
    """The rate of dropout with the least mean log10 of the least validation losses of a recorded cell."""
    table = gains(result)
    return min(table, key=lambda rate: table[rate][0])
