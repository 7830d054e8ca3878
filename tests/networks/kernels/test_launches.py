"""How many launches a training step takes, counted with kernels that do nothing: at ten replicas each costs as much."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pna import DegreeStatistics
from pna.experiments.multitask import MultiTaskTrainer
from pna.networks import RELEASED, build
from pna.networks.kernels import packing, recurrence, set2set
from pna.training.replicas import Replicas
from pna.training.trainer import Settings

NOTHING = ("empty", "detach", "unsafe_view", "reshape_alias", "split", "unbind")  # is launched by these, nor by views


class Counter(TorchDispatchMode):
    """Counts torch's operations, and what is launched as `self.launch`."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def launch(self, *_, **__):
        self.count += 1

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self.count += not (operation.is_view or any(name in str(operation) for name in NOTHING))
        return operation(*args, **(kwargs or {}))


@pytest.mark.skipif(torch.cuda.is_available(), reason="the kernels' emulation is replaced")
@pytest.mark.parametrize(("model", "most"), [("pna", 26), ("mpnn-max", 26), ("gcn", 27), ("gat", 27), ("gin", 52)])
def test_launches_of_a_step(model, most, graphs, kernels, monkeypatch):
    """GIN has launches for every layer, of which there are three."""
    counter = Counter()
    for module in (recurrence, set2set):
        monkeypatch.setattr(module, "compiled", lambda *_: counter.launch)
    monkeypatch.setattr(type(packing.gather), "__getitem__", lambda kernel, grid: counter.launch)
    batch = graphs.batch(graphs.adjacency(0, 4, 6), dtype=torch.float)
    network = build(model, 16, RELEASED, DegreeStatistics(1.3, 3.0))
    trainer = MultiTaskTrainer(network, [batch], [batch], Settings(0.003, 1e-6, epochs=1))
    replicas = Replicas.fresh(range(2), *trainer.lifted.stack([network] * 2), torch.ones(2, 6), 0.003, 1e-6)
    trainer._step(replicas, batch)  # what is made once
    counter.count = 0
    with counter:
        trainer._step(replicas, batch)
    assert 20 <= counter.count <= most
