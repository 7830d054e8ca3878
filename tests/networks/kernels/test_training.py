"""Trainings by the kernels to their end: replicas leave until one is left, for every model; and on another device."""

import pytest
import torch

from pna import DegreeStatistics
from pna.experiments.multitask import MultiTaskTrainer
from pna.networks import MODELS, RELEASED, build
from pna.training.replicas import Replicas
from pna.training.trainer import Settings


def train(graphs, model, hidden, architecture, sizes, seeds, device, depth="N/2", varied=False):
    """Which replicas take part in each epoch: one after another has its last, since it began with one epoch more."""
    A = graphs.adjacency(0, *sizes)
    batch = graphs.batch(A, torch.rand(sizes[0] * sizes[1], 2), torch.float, device)
    networks = [build(model, hidden, RELEASED, DegreeStatistics(1.3, 3.0), architecture, depth) for _ in range(seeds)]
    settings = Settings(0.003, 1e-6, epochs=seeds)
    trainer = MultiTaskTrainer(networks[0].to(device), [batch], [batch], settings, varied)
    theta, state = trainer.lifted.stack([network.to(device) for network in networks])
    replicas = Replicas.fresh(range(seeds), theta, state, torch.ones(seeds, 6, device=device), 0.003, 1e-6)
    replicas.epoch += torch.arange(seeds, device=device).flip(0)
    epochs = [index.tolist() for index in trainer.epochs(replicas)]
    assert replicas.theta.isfinite().all()
    return epochs


@pytest.mark.parametrize("model", ["pna", "moments-5", "pna-soft", "gcn", "gat", "gin"])  # each way of a kernel
def test_the_last_replica_trains_on(model, graphs, device, kernels):
    """With one row, what a kernel keeps for its backward pass must not be a view of the state that moves in place."""
    assert train(graphs, model, 8, "recurrent", (2, 6), 2, device) == [[0, 1], [1]]


@pytest.mark.parametrize(
    ("model", "depth", "varied"),
    [
        ("mpnn-max", "convergence:0.1", False),
        ("mpnn-max", "N/2", True),
        ("gin", "convergence:0.1", False),
        ("gin", "diameter", False),
    ],
)
def test_a_depth_for_each_graph(model, depth, varied, graphs, device, kernels):
    assert train(graphs, model, 8, "recurrent", (3, 6), 2, device, depth, varied) == [[0, 1], [1]]


@pytest.mark.gpu
@pytest.mark.parametrize(("depth", "varied"), [("diameter", False), ("convergence:0.1", False), ("N/2", True)])
@pytest.mark.parametrize("model", ["pna", "mpnn-max", "mpnn-sum", "gin"])
def test_depths_of_their_own_at_the_papers_size(model, depth, varied, graphs, device):
    assert train(graphs, model, 16, "recurrent", (64, 20), 3, device, depth, varied) == [[0, 1, 2], [1, 2], [2]]


@pytest.mark.gpu
@pytest.mark.parametrize("architecture", ["recurrent", "standard"])
@pytest.mark.parametrize("hidden", [16, 20])
@pytest.mark.parametrize("model", MODELS)
def test_the_last_replica_trains_on_at_the_papers_size(model, hidden, architecture, graphs, device):
    assert train(graphs, model, hidden, architecture, (64, 20), 3, device) == [[0, 1, 2], [1, 2], [2]]


@pytest.mark.gpu
@pytest.mark.parametrize("model", MODELS)
def test_kernels_launch_where_the_tensors_are(model, graphs):
    """Whatever the current device is."""
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two CUDA devices")
    with torch.cuda.device(0):
        assert train(graphs, model, 16, "recurrent", (16, 10), 2, "cuda:1") == [[0, 1], [1]]
