"""A benchmark of a few graphs, and training runs on it."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from pna.experiments import PROFILES, Profile, multitask
from pna.experiments.multitask import MultiTaskTrainer
from pna.multitask import COLLECTIONS, RELEASED, Split, make
from pna.networks import RELEASED as AS_RELEASED
from pna.networks import NetworkSpec, build
from pna.networks.batch import GraphBatch
from pna.training.replicas import Replicas
from pna.training.trainer import Settings
from tests.kills import rounds

RELEASED_NETWORK = replace(AS_RELEASED, centred_once=False)  # D12 is rounding, which no two computations share
TRAIN = Split("train", "train", (5, 8), 8)
VALIDATION = Split("validation", "validation", (5, 8), 4)
SMALL = {
    "multitask": (TRAIN, VALIDATION, Split("test", "test", (5, 8), 4)),
    "multitask-15-24": (TRAIN, Split("test", "test", (5, 6, 8), 4)),
    "redrawn": (TRAIN, *(Split(f"test_{k}", "test", (5, 8), 4, first=16 * k) for k in (1, 2))),
    "families": (TRAIN, VALIDATION, *(Split(name, "test", (5, 8), 4, name) for name in ("tree", "star"))),
    "extrapolation": (TRAIN, VALIDATION, *(Split(f"test_{N}_{N + 1}", "test", (N,), 4) for N in (10, 11))),
}
SETTINGS = Settings(0.003, 1e-6, epochs=10_000, patience=1_000)
HIDDEN = 8  # as many as nodes in the larger graphs, so that D7 is at work


class Small:
    """Networks, trainers and replicas of a model on the small benchmark, in float64."""

    def __init__(self):
        self.data = make(RELEASED, SMALL["multitask"])

    def batches(self, split, dtype=torch.double):
        return [GraphBatch.of(batch, "cpu", dtype) for batch in self.data[split].batches(512)]

    def network(self, model, seed, architecture="recurrent", spec: NetworkSpec = RELEASED_NETWORK):
        torch.manual_seed(seed)
        return build(model, HIDDEN, spec, self.data.degrees, architecture).double()

    def trainer(self, model, architecture="recurrent", **settings):
        network = self.network(model, 0, architecture)
        return MultiTaskTrainer(
            network, self.batches("train"), self.batches("validation"), replace(SETTINGS, **settings)
        )

    def replicas(self, model, seeds, architecture="recurrent", tasks=None):
        """One replica per seed; all tasks count unless `tasks` [R, 6] says otherwise."""
        networks = [self.network(model, seed, architecture) for seed in seeds]
        theta, state = MultiTaskTrainer(networks[0], [], [], SETTINGS).lifted.stack(networks)
        tasks = torch.ones(len(networks), 6) if tasks is None else tasks
        return Replicas.fresh(list(seeds), theta, state, tasks.double(), SETTINGS.learning_rate, SETTINGS.weight_decay)

    @staticmethod
    def run(trainer, replicas):
        """Trains to the end; training and validation loss [epochs, R, 2], nan where a replica took no part."""
        curves = []
        for took_part in trainer.epochs(replicas):
            losses = torch.full((len(replicas.train), 2), torch.nan, dtype=torch.double)
            losses[took_part] = torch.stack([replicas.train, replicas.validation], 1)[took_part]
            curves.append(losses)
        return torch.stack(curves)


@pytest.fixture(scope="session")
def small():
    return Small()


@pytest.fixture
def few_graphs(monkeypatch, tmp_path):
    """Small collections, made once for all tests, a smoke profile of two seeds and three epochs, and own folders."""
    for name, splits in SMALL.items():
        monkeypatch.setitem(COLLECTIONS, name, lambda spec, splits=splits: splits)
    monkeypatch.setattr(multitask, "make", lambda spec, splits: rounds.once(spec, tuple(splits)))
    profile = Profile("smoke", size_step=1, divisor=2, seeds=2, epochs=3, patience=1_000)
    monkeypatch.setitem(PROFILES, "smoke", profile)
    monkeypatch.setenv("PNA_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("PNA_RESULTS", str(tmp_path / "results"))
    return SimpleNamespace(profile=profile, folder=tmp_path)


@pytest.fixture(scope="session")
def warm(tmp_path_factory):
    """What a first training imports is imported here, and not in every process that is forked."""
    rounds.warm_up(tmp_path_factory.mktemp("warm"))
