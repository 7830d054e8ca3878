"""The pictures of notebooks/explore.ipynb: a trained network on one graph, its training, ever larger graphs."""

import warnings
from collections.abc import Sequence

import networkx as nx
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pna.errors import MissingData
from pna.figures.runs import Curve
from pna.figures.style import GREY, MODEL_COLOURS, STYLE
from pna.multitask import DESCRIBED, FAMILIES, TASKS, Split, make_graph
from pna.places import results_folder, weights_folders
from pna.pretrained.multitask import MultiTaskNetwork
from pna.pretrained.prediction import Prediction
from pna.training.store import Result, load

__all__ = ["curves", "drawn", "extrapolation", "from_family", "pick", "scrub", "show"]

_OURS, _TRUE = MODEL_COLOURS["pna"], MODEL_COLOURS["mpnn-max"]
_NODE = [task for task in TASKS if task.level == "node"]
_GRAPH = [task for task in TASKS if task.level == "graph"]


# ---- graphs ----


def from_family(family: str, nodes: int, number: int = 0) -> nx.Graph:
    """A graph of one of the benchmark's ten families, as described; `number` tells graphs of one size apart."""
    names = [one.name for one in FAMILIES]
    if family not in names:
        raise ValueError(f"family must be one of {', '.join(names)}; got {family!r}")
    data = make_graph(DESCRIBED, Split("picked", "test", (nodes,), number + 1, family), number)[0]
    graph = nx.empty_graph(nodes)
    graph.add_edges_from(data.edge_index.T.tolist())
    return graph


def drawn(edges: str) -> nx.Graph:
    """A graph from an edge list: two nodes a line, or with commas between the edges."""
    graph = nx.Graph()
    for edge in filter(None, (part.split() for part in edges.replace(",", "\n").splitlines())):
        if len(edge) != 2 or edge[0] == edge[1]:
            raise ValueError(f"an edge must be two different nodes, as '0 1'; got {' '.join(edge)!r}")
        graph.add_edge(*(int(node) if node.isdecimal() else node for node in edge))
    if not graph:
        raise ValueError("edges must hold at least one edge, got none")
    return graph


# ---- one graph, node by node ----


def show(network: MultiTaskNetwork, graph: nx.Graph) -> Figure:
    """The graph, and what the network says of each node beside the truth; the graph's own properties above."""
    import matplotlib.pyplot as plt  # which tells a notebook how to show figures

    prediction = _predicted(network, graph)
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(1, 4, figsize=(10, 3.2), width_ratios=[1.2, 1, 1, 1], layout="constrained")
        plt.close(figure)
        _graph(axes[0], graph, prediction)
        for axis, task in zip(axes[1:], _NODE, strict=True):
            _nodes(axis, *prediction[task.name], task.title)
        figure.legend(*axes[1].get_legend_handles_labels(), loc="outside lower center", ncols=2)
        pairs = {task.title.lower(): prediction[task.name] for task in _GRAPH}
        words = ", ".join(f"{title} {ours:.2f} (true: {true:.4g})" for title, (ours, true) in pairs.items())
        figure.suptitle(
            "\n".join([words, *(f"Beware: {text.partition(':')[0]}" for text in prediction.outside)]), fontsize=8
        )
    return figure


def _graph(axis: Axes, graph: nx.Graph, prediction: Prediction) -> None:
    """Draw the graph, coloured by the true distance from the source, which has a ring."""
    place = nx.spring_layout(graph, seed=0)
    rings = [_OURS if node == prediction.source else GREY for node in prediction.nodes]
    nx.draw_networkx_edges(graph, place, ax=axis, edge_color=GREY, width=0.8)
    far = prediction["sssp"][1]
    style = {"cmap": "GnBu", "vmin": 0, "vmax": 1.6 * far.max() + 1, "edgecolors": rings, "linewidths": 2}
    nx.draw_networkx_nodes(graph, place, prediction.nodes, 130, far, ax=axis, **style)
    nx.draw_networkx_labels(graph, place, ax=axis, font_size=6)
    axis.set_title("the darker, the farther from the ringed node")
    axis.axis("off")


def _nodes(axis: Axes, predicted: np.ndarray, true: np.ndarray, title: str) -> None:
    order = np.argsort(true, kind="stable")
    places = np.arange(len(order))
    axis.vlines(places, true[order], predicted[order], color=GREY, lw=0.8)
    axis.plot(places, true[order], "o", ms=5, mfc="none", color=_TRUE, label="true")
    axis.plot(places, predicted[order], "o", ms=3, color=_OURS, label="predicted")
    axis.set(title=title, xlabel="nodes, by the truth", xticks=[])


def _predicted(network: MultiTaskNetwork, graph: nx.Graph) -> Prediction:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the picture says so itself
        return network.predict(graph)


# ---- its training ----


def _training(network: MultiTaskNetwork) -> Result:
    """The recorded result beside the weights that were loaded."""
    place = network.run.result.relative_to(results_folder())
    paths = [folder / place for folder in weights_folders() if (folder / place).exists()]
    if not paths:
        raise MissingData(f"{place} is not in {results_folder()}: learning curves come with a clone of the repository")
    return load(paths[0])


def curves(network: MultiTaskNetwork, until: int | None = None) -> Figure:
    """The validation loss of every seed up to an epoch; a dot where each was best so far."""
    import matplotlib.pyplot as plt

    every = [Curve.of(replica) for replica in _training(network).replicas]
    last = max(curve.last_epoch for curve in every)
    until = until or last
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(7, 2.8), layout="constrained")
        plt.close(figure)
        for curve in every:
            points = [(epoch, loss) for epoch, loss in curve.points if loss is not None and epoch <= until]
            colour = _OURS if curve.seed in network.seeds else "0.7"
            axis.loglog(*zip(*points, strict=True), color=colour, lw=0.8, zorder=2 + (colour == _OURS))
            axis.plot(*min(points, key=lambda point: point[1]), "o", ms=4, color=colour, zorder=3)
        axis.set(xlabel="epoch", ylabel="validation loss", xlim=(1, last))
        axis.set_title(f"{network.cell}, up to epoch {until:,} of {last:,}; in colour the seed that is kept")
    return figure


# ---- ever larger graphs ----


def extrapolation(
    network: MultiTaskNetwork, families: Sequence[str], sizes: Sequence[int], task: str = "sssp", graphs: int = 3
) -> Figure:
    """log10 of the mean squared error of one task on each family and size; the sizes of the training are shaded."""
    import matplotlib.pyplot as plt

    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(7, 2.8), layout="constrained")
        plt.close(figure)
        axis.axvspan(min(network.sizes), max(network.sizes), color="0.92", label="sizes of the training")
        for family in families:
            errors = [_error(network, [from_family(family, N, k) for k in range(graphs)], task) for N in sizes]
            axis.plot(sizes, np.log10(errors), "o-", ms=4, label=family.replace("_", " "))
        axis.set(xlabel="nodes", ylabel="log₁₀ MSE, in the\nproperty's own units", title=task)
        figure.legend(loc="outside right upper")
    return figure


def _error(network: MultiTaskNetwork, graphs: Sequence[nx.Graph], task: str) -> float:
    pairs = [_predicted(network, graph)[task] for graph in graphs]
    return float(np.mean([np.mean((predicted - true) ** 2) for predicted, true in pairs]))


# ---- with the mouse ----


def pick(network: MultiTaskNetwork) -> object:
    """Controls that choose a family, a size and a number, with `show` below them."""
    import ipywidgets as widgets
    from IPython.display import display

    controls = {
        "family": widgets.Dropdown(options=[one.name for one in FAMILIES], value="tree", description="family"),
        "nodes": widgets.IntSlider(18, min=10, max=60, description="nodes", continuous_update=False),
        "number": widgets.IntSlider(0, min=0, max=20, description="number", continuous_update=False),
    }
    seen = widgets.interactive_output(lambda **of: display(show(network, from_family(**of))), controls)
    return widgets.VBox([*controls.values(), seen])


def scrub(network: MultiTaskNetwork) -> object:
    """A slider that sets an epoch, with `curves` up to it below."""
    import ipywidgets as widgets
    from IPython.display import display

    last = max(replica.epochs for replica in _training(network).replicas)
    until = widgets.IntSlider(last, min=1, max=last, description="epoch", continuous_update=False)
    seen = widgets.interactive_output(lambda until: display(curves(network, until)), {"until": until})
    return widgets.VBox([until, seen])
