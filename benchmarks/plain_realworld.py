"""Figure 6's PNA network written with torch_geometric alone: the alternative in benchmarks.realworld."""

import itertools
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import BatchNorm, PNAConv, global_add_pool

from pna.experiments import Figure6Run
from pna.realworld.data.datasets import Dataset
from pna.realworld.data.graphs import Graphs
from pna.realworld.hyperparameters import LAYERS, TOWERS, Hyperparameters

__all__ = ["PlainNetwork", "as_data", "time_plain", "wait"]

WARM_UP = 5  # batches


class PlainNetwork(nn.Module):
    """Figure 6's network with torch_geometric's own layers."""

    def __init__(self, model: Hyperparameters, data: Dataset, deg: Tensor) -> None:
        super().__init__()
        self.data = data
        sizes = [*[model.hidden] * LAYERS, model.out]
        self.embedding = _embedding(data.node_categories, data.node_numbers, model.hidden)
        edge_dim = model.edge_dim or None
        self.edge_embedding = _embedding(data.edge_categories, data.edge_numbers, edge_dim) if edge_dim else None
        arguments = (list(model.aggregators), list(model.scalers), deg, edge_dim, TOWERS)
        self.convolutions = nn.ModuleList(
            PNAConv(a, b, *arguments, divide_input=True) for a, b in itertools.pairwise(sizes)
        )
        self.norms = nn.ModuleList(BatchNorm(size) for size in sizes[1:])
        self.p = model.dropout
        parts = [model.out, model.out // 2, model.out // 4, data.outputs]
        layers = [nn.Sequential(nn.Linear(a, b), nn.ReLU()) for a, b in itertools.pairwise(parts)]
        self.readout = nn.Sequential(*layers[:-1], layers[-1][0])

    def forward(self, batch: Data) -> Tensor:
        """Predictions, [graphs, outputs]."""
        x = self.embedding(batch.x)
        edge = None if self.edge_embedding is None else self.edge_embedding(batch.edge_attr)
        scale = torch.bincount(batch.batch).rsqrt()[batch.batch].unsqueeze(1)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            y = norm(convolution(x, batch.edge_index, edge) * scale)
            y = functional.leaky_relu(functional.dropout(y, self.p, self.training))
            x = x + y if x.shape == y.shape else y
        return self.readout(global_add_pool(x, batch.batch))

    def loss(self, batch: Data) -> Tensor:
        """Loss of the data set's task: L1 or cross-entropy."""
        out = self(batch)
        if self.data.task == "classes":
            return functional.cross_entropy(out, batch.y)
        return functional.l1_loss(out.squeeze(1), batch.y)


def _embedding(categories: tuple[int, ...], numbers: int, features: int) -> nn.Module:
    """Layer that embeds a category, or maps numbers, to the hidden features."""
    return nn.Embedding(categories[0], features) if categories else nn.Linear(numbers, features)


def as_data(data: Dataset, graphs: Graphs) -> list[Data]:
    """Convert the graphs to torch_geometric's Data."""
    dtype = torch.long if data.node_categories else torch.float32
    out = []
    for g in range(len(graphs)):
        nodes = slice(*graphs.node_ptr[g : g + 2])
        messages = slice(*graphs.message_ptr[[nodes.start, nodes.stop]])
        target = np.repeat(np.arange(nodes.stop - nodes.start), graphs.degree[nodes])
        edges = np.stack([graphs.source[messages].astype(np.int64), target])
        x, edge = (torch.from_numpy(t).to(dtype) for t in (graphs.x[nodes], graphs.edge[messages]))
        if data.node_categories:
            x, edge = x.squeeze(1), edge.squeeze(1)
        y = torch.tensor([graphs.y[g]], dtype=torch.long if data.task == "classes" else torch.float32)
        out.append(Data(x=x, edge_index=torch.from_numpy(edges), edge_attr=edge, y=y, num_nodes=len(x)))
    return out


def time_plain(run: Figure6Run, batches: int) -> dict[str, float]:
    """Seconds per epoch and run of the plain implementation, reckoned from some batches."""
    data, model = run.dataset, run.model
    train, validation = run.data["train"], run.data["validation"]
    wanted = min(len(train), batches * model.batch)
    loader = DataLoader(as_data(data, train.take(np.arange(wanted))), batch_size=model.batch, shuffle=True)
    held_out = DataLoader(as_data(data, validation), batch_size=model.batch)
    torch.manual_seed(0)
    deg = torch.from_numpy(np.bincount(train.degree))
    network = PlainNetwork(model, data, deg).to(run.device)
    adam = torch.optim.Adam(network.parameters(), lr=model.learning_rate, weight_decay=model.weight_decay)

    def step(batch: Data) -> None:
        """Train on one batch."""
        adam.zero_grad()
        network.loss(batch.to(run.device)).backward()
        adam.step()

    network.train()
    for batch in itertools.islice(loader, WARM_UP):
        step(batch)
    count, seconds = _timed(loader, step, run.device)
    network.eval()
    with torch.no_grad():
        _, evaluation = _timed(held_out, lambda batch: network.loss(batch.to(run.device)), run.device)
    in_epoch = -(-len(train) // model.batch)
    epoch = seconds / count * in_epoch + evaluation
    return {"seconds_per_epoch": epoch, "seconds_per_epoch_and_run": epoch, "runs": 1, "timed_batches": count}


def _timed(batches: DataLoader, work: Callable[[Data], object], device: str) -> tuple[int, float]:
    """Number of batches, and the seconds that `work` takes on all of them."""
    wait(device)
    start, count = time.perf_counter(), 0
    for batch in batches:
        work(batch)
        count += 1
    wait(device)
    return count, time.perf_counter() - start


def wait(device: str) -> None:
    """Wait until the device has finished."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()
