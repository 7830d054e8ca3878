"""The toy problem of notebooks/introduction.ipynb: graphs whose labels need a spread and a degree."""

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from pna.figures.style import MODEL_COLOURS, WIDTH

__all__ = ["fit", "plot", "toy_graphs"]

_COLOURS = {
    "PNA": MODEL_COLOURS["pna"],
    "PNA (no scalers)": MODEL_COLOURS["pna-no-scalers"],
    "max": MODEL_COLOURS["mpnn-max"],
}


def toy_graphs(count: int, nodes: int = 20) -> list[Data]:
    """Generate random undirected graphs; a node's label is the std of its neighbours' features times log(d + 1)."""
    return [_toy_graph(nodes) for _ in range(count)]


def _toy_graph(nodes: int) -> Data:
    """Random undirected graph with features x [N, 1], and labels y [N, 1] as `toy_graphs` describes them."""
    x = torch.rand(nodes, 1)
    upper = torch.triu(torch.rand(nodes, nodes) < 0.05 + 0.4 * torch.rand(1), diagonal=1)
    adjacency = (upper | upper.T).float()
    degree = adjacency.sum(dim=1, keepdim=True).clamp(min=1)
    mean = adjacency @ x / degree
    variance = (adjacency @ x**2 / degree - mean**2).clamp(min=0)
    return Data(x=x, edge_index=adjacency.nonzero().T.contiguous(), y=variance.sqrt() * (degree + 1).log())


def fit(conv: nn.Module, train: DataLoader, test: DataLoader, epochs: int = 30, device: str = "cpu") -> list[float]:
    """Train a layer and a linear map; return the test MSE after each epoch, relative to predicting the mean label."""
    network = nn.ModuleList([conv, nn.Linear(conv.out_channels, 1)]).to(device)
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    labels = torch.cat([batch.y for batch in test])
    variance = float(labels.var())
    curve = []
    for _ in range(epochs):
        for batch in train:
            loss = _error(network, batch.to(device)).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        with torch.no_grad():
            errors = torch.cat([_error(network, batch.to(device)) for batch in test])
        curve.append(float(errors.mean()) / variance)
    return curve


def _error(network: nn.ModuleList, batch: Data) -> Tensor:
    """Squared error of a network, the layer and its linear map, at each node of a batch, [N, 1]."""
    conv, head = network
    return (head(conv(batch.x, batch.edge_index).relu()) - batch.y) ** 2


def plot(curves: dict[str, list[float]]) -> Figure:
    """Draw learning curves by name into one figure, on a logarithmic axis."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(WIDTH, 2.8), layout="constrained")
    for name, curve in curves.items():
        axis.semilogy(range(1, len(curve) + 1), curve, label=name, color=_COLOURS.get(name, "0.5"))
    axis.set(xlabel="epoch", ylabel="test MSE / variance of the labels")
    figure.legend(loc="outside upper center", ncols=len(curves))
    plt.close(figure)
    return figure
