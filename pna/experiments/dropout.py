"""The dropout that section 4 mentions: does it lower the validation loss of the multi-task networks?

The paper tuned dropout, too, and says neither where it is nor which rates were tried; the released code has none. The
cell dropout/SPEC/MODEL/16 trains the same four seeds with each of four rates, all else equal, and is never tested. The
features that a convolution returns are dropped, before the GRU sees them. The recorded cells were computed layer by
layer, before the kernels for whole networks had dropout, and so for a part of the epochs.

Set before the runs, for pna and gcn as described: a rate gains something if the mean log10 of the least validation
losses is lower with it than without dropout by more than MARGIN, that of results/plan.json. If none does, the campaign
stays without dropout.
"""

import math
from dataclasses import replace

import torch
from torch import nn

from pna.experiments.cells import Cell, Profile
from pna.experiments.multitask import MultiTaskRun
from pna.multitask import TASKS
from pna.networks.dropout import Dropped
from pna.training.replicas import Replicas
from pna.training.store import Result

__all__ = ["MARGIN", "RATES", "DropoutRun", "gains"]

RATES = (0.0, 0.02, 0.1, 0.3)
SEEDS = 4  # for each rate
FIRST_SEED = 2_000  # initialisations that no other cell uses
MARGIN = 0.1
SHARE = 0.15  # of the profile's epochs: 1,500 of the paper's


class DropoutRun(MultiTaskRun):
    """All rates and seeds of one model, as replicas of one training."""

    ships = False

    def __init__(self, cell: Cell, profile: Profile, device: str = "cpu", dtype: torch.dtype = torch.float32) -> None:
        super().__init__(cell, profile, device, dtype)
        self.settings = replace(self.settings, epochs=max(1, round(SHARE * profile.epochs)))
        seeds = range(FIRST_SEED, FIRST_SEED + SEEDS)
        self.dropout, self.seeds = map(list, zip(*((rate, seed) for rate in RATES for seed in seeds), strict=True))

    @property
    def configuration(self) -> dict:
        """Everything that decides the result, as JSON: that of a multi-task cell, with the rate of each replica."""
        return super().configuration | {"dropout": self.dropout}

    @property
    def collections(self) -> tuple[str, ...]:
        """No test set: as in a search, the validation set decides."""
        return ()

    def network(self, seed: int, rate: float = 0.0) -> nn.Module:
        """The network of one seed, with its initial weights and a rate of dropout."""
        network = super().network(seed)
        network.GC_1, network.GC_m = Dropped(network.GC_1, rate, 2 * seed), Dropped(network.GC_m, rate, 2 * seed + 1)
        return network.to(self.dtype)

    def fresh(self) -> Replicas:
        """The replicas before the first epoch, one for each rate and seed."""
        networks = [self.network(seed, rate) for seed, rate in zip(self.seeds, self.dropout, strict=True)]
        theta, state = (t.to(self.device, self.dtype) for t in self.trainer.lifted.stack(networks))
        tasks = theta.new_ones(len(theta), len(TASKS))
        return Replicas.fresh(self.seeds, theta, state, tasks, self.settings.learning_rate, self.settings.weight_decay)


def gains(result: Result) -> dict[float, tuple[float, float]]:
    """Mean log10 of the least validation losses of a recorded cell, and how much lower it is than at 0, by rate."""
    losses: dict[float, list[float]] = {}
    for rate, replica in zip(result.configuration["dropout"], result.replicas, strict=True):
        losses.setdefault(rate, []).append(math.inf if replica.validation is None else replica.validation)
    means = {rate: sum(map(math.log10, values)) / len(values) for rate, values in losses.items()}
    return {rate: (mean, means[0.0] - mean) for rate, mean in means.items()}
