"""The pictures of notebooks/explore.ipynb: a trained network on one graph, its training, ever larger graphs."""

import warnings
from collections.abc import Hashable, Sequence

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

_READABLE = STYLE | dict.fromkeys(("font.size", "axes.labelsize", "axes.titlesize", "legend.fontsize"), 11)
_READABLE |= {"xtick.labelsize": 10, "ytick.labelsize": 10}  # in JupyterLab, which shows a picture at 100 dots an inch
_OURS, _TRUE = MODEL_COLOURS["pna"], MODEL_COLOURS["mpnn-max"]
_NODE = [task for task in TASKS if task.level == "node"]
_GRAPH = [task for task in TASKS if task.level == "graph"]
_TITLES = {task.name: task.title for task in TASKS}
_FAMILIES = {family.name: family.title for family in FAMILIES}


# ---- graphs ----


def from_family(family: str, nodes: int, number: int = 0) -> nx.Graph:
    """Generate a graph of one of the benchmark's ten families, as described; another `number` gives another graph."""
    names = [one.name for one in FAMILIES]
    if family not in names:
        raise ValueError(f"family must be one of {', '.join(names)}; got {family!r}")
    data = make_graph(DESCRIBED, Split("picked", "test", (nodes,), number + 1, family), number)[0]
    graph = nx.empty_graph(nodes)
    graph.add_edges_from(data.edge_index.T.tolist())
    return graph


def drawn(edges: str) -> nx.Graph:
    """Parse an edge list, with two nodes per edge, and edges separated by line breaks or commas."""
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
    """Draw a graph, its predicted properties as the title, and those of its nodes below, all next to the true ones."""
    import matplotlib.pyplot as plt  # which tells a notebook how to show figures

    prediction = _predicted(network, graph)
    with plt.rc_context(_READABLE):
        figure = plt.figure(figsize=(9, 6.6), layout="constrained")
        plt.close(figure)
        above, below = figure.subfigures(2, 1, height_ratios=[1.3, 1])
        axes = [above.subplots(), *below.subplots(1, 3)]
        _graph(axes[0], graph, prediction)
        for axis, task in zip(axes[1:], _NODE, strict=True):
            _nodes(axis, *prediction[task.name], task.title)
        below.legend(*axes[1].get_legend_handles_labels(), loc="outside lower center", ncols=2)
        pairs = {task.title.lower(): prediction[task.name] for task in _GRAPH}
        words = ", ".join(f"{title} {ours:.2f} (true: {true:.4g})" for title, (ours, true) in pairs.items())
        warned = [f"Beware: {text.partition(':')[0]}" for text in prediction.outside]
        figure.suptitle("\n".join([f"predicted: {words}", *warned]), fontsize=11)
    return figure


def _graph(axis: Axes, graph: nx.Graph, prediction: Prediction) -> None:
    """Draw the graph, coloured by the true distance from the source, which has a ring."""
    place = _places(graph)
    rings = [_OURS if node == prediction.source else GREY for node in prediction.nodes]
    nx.draw_networkx_edges(graph, place, ax=axis, edge_color=GREY, width=0.8)
    far = prediction["sssp"][1]
    style = {"cmap": "GnBu", "vmin": 0, "vmax": 1.6 * far.max() + 1, "edgecolors": rings, "linewidths": 2}
    nx.draw_networkx_nodes(graph, place, prediction.nodes, 330, far, ax=axis, **style)
    nx.draw_networkx_labels(graph, place, ax=axis, font_size=9)
    axis.set_title("the darker a node, the farther it is from the ringed one")
    axis.axis("off")


def _places(graph: nx.Graph) -> dict[Hashable, np.ndarray]:
    """Positions [2] of the nodes; the components of a graph stand side by side, each as wide as it needs."""
    places, left = {}, 0.0
    for part in sorted(nx.connected_components(graph), key=len, reverse=True):
        width = np.sqrt(len(part))
        for node, (x, y) in nx.kamada_kawai_layout(graph.subgraph(part)).items():
            places[node] = np.array([left + width * (1 + x), width * y])
        left += 2 * width + 1
    return places


def _nodes(axis: Axes, predicted: np.ndarray, true: np.ndarray, title: str) -> None:
    """Draw the predicted and the true value of every node [N], sorted by the true one."""
    order = np.argsort(true, kind="stable")
    places = np.arange(len(order))
    axis.vlines(places, true[order], predicted[order], color=GREY, lw=0.8)
    axis.plot(places, true[order], "o", ms=5, mfc="none", color=_TRUE, label="true")
    axis.plot(places, predicted[order], "o", ms=3, color=_OURS, label="predicted")
    axis.set(title=title, xlabel="nodes, sorted by true value", xticks=[])


def _predicted(network: MultiTaskNetwork, graph: nx.Graph) -> Prediction:
    """Predict a graph's properties without warnings; the prediction lists the reasons for them (`outside`)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the picture says so itself
        return network.predict(graph)


# ---- its training ----


def _training(network: MultiTaskNetwork) -> Result:
    """Load the recorded result of the training that produced the network's weights."""
    place = network.run.result.relative_to(results_folder())
    paths = [folder / place for folder in weights_folders() if (folder / place).exists()]
    if not paths:
        raise MissingData(f"{place} is not in {results_folder()}: learning curves come with a clone of the repository")
    return load(paths[0])


def curves(network: MultiTaskNetwork, until: int | None = None) -> Figure:
    """Draw the validation loss of every seed up to an epoch, with a dot where each is lowest."""
    import matplotlib.pyplot as plt

    every = [Curve.of(replica) for replica in _training(network).replicas]
    last = max(curve.last_epoch for curve in every)
    until = until or last
    with plt.rc_context(_READABLE):
        figure, axis = plt.subplots(figsize=(8, 3.4), layout="constrained")
        plt.close(figure)
        for curve in every:
            points = [(epoch, loss) for epoch, loss in curve.points if loss is not None and epoch <= until]
            colour = _OURS if curve.seed in network.seeds else "0.7"
            axis.loglog(*zip(*points, strict=True), color=colour, lw=0.8, zorder=2 + (colour == _OURS))
            axis.plot(*min(points, key=lambda point: point[1]), "o", ms=4, color=colour, zorder=3)
        axis.set(xlabel="epoch", ylabel="validation loss", xlim=(1, last))
        axis.set_title(f"{network.cell}, up to epoch {until:,} of {last:,}\nin colour: the seed that was kept")
    return figure


# ---- ever larger graphs ----


def extrapolation(
    network: MultiTaskNetwork, families: Sequence[str], sizes: Sequence[int], task: str = "sssp", graphs: int = 3
) -> Figure:
    """Draw log10 of the mean squared error of one task by family and size, with the sizes of the training shaded."""
    import matplotlib.pyplot as plt

    with plt.rc_context(_READABLE):
        figure, axis = plt.subplots(figsize=(8, 3.4), layout="constrained")
        plt.close(figure)
        axis.axvspan(min(network.sizes), max(network.sizes), color="0.92", label="training sizes")
        for family in families:
            errors = [_error(network, [from_family(family, N, k) for k in range(graphs)], task) for N in sizes]
            axis.plot(sizes, np.log10(errors), "o-", ms=4, label=_FAMILIES[family])
        axis.set(xlabel="nodes", ylabel="log₁₀ MSE, in the\nproperty's own units", title=_TITLES[task])
        figure.legend(loc="outside right upper")
    return figure


def _error(network: MultiTaskNetwork, graphs: Sequence[nx.Graph], task: str) -> float:
    """Mean squared error of one task over some graphs, each graph weighted equally."""
    pairs = [_predicted(network, graph)[task] for graph in graphs]
    return float(np.mean([np.mean((predicted - true) ** 2) for predicted, true in pairs]))


# ---- with the mouse ----

_LABEL, _TRACK, _READOUT = 60, 300, 60  # pixels of a slider: its description, its track, its number
_FEWEST, _MOST = 10, 60  # nodes that the slider offers


def pick(network: MultiTaskNetwork) -> object:
    """Create controls for a family, a size and a number, with the picture of `show` below."""
    import ipywidgets as widgets
    from IPython.display import display

    wide = {"continuous_update": False, "layout": widgets.Layout(width=f"{_LABEL + _TRACK + _READOUT}px")}
    wide["style"] = {"description_width": f"{_LABEL}px"}
    controls = {
        "family": widgets.Dropdown(options=[one.name for one in FAMILIES], value="tree", description="family"),
        "nodes": widgets.IntSlider(18, min=_FEWEST, max=_MOST, description="nodes", **wide),
        "number": widgets.IntSlider(0, min=0, max=20, description="number", **wide),
    }
    seen = widgets.interactive_output(lambda **of: display(show(network, from_family(**of))), controls)
    family, nodes, number = controls.values()
    return widgets.VBox([family, nodes, widgets.HTML(_trained_range(network.sizes)), number, seen])


def _trained_range(sizes: Sequence[int]) -> str:
    """HTML of a bar that marks the sizes of the training under the slider for the number of nodes."""
    first, last = (_LABEL + _TRACK * (size - _FEWEST) / (_MOST - _FEWEST) for size in (min(sizes), max(sizes)))
    bar = f"margin-left: {first:.0f}px; width: {last - first:.0f}px; border-top: 4px solid {_OURS}"
    words = f"trained on {min(sizes)} to {max(sizes)} nodes"
    return f'<div style="{bar}; white-space: nowrap; line-height: 1.3">{words}</div>'


def scrub(network: MultiTaskNetwork) -> object:
    """Create a slider for an epoch, with the picture of `curves` up to it below."""
    import ipywidgets as widgets
    from IPython.display import display

    last = max(replica.epochs for replica in _training(network).replicas)
    until = widgets.IntSlider(last, min=1, max=last, description="epoch", continuous_update=False)
    seen = widgets.interactive_output(lambda until: display(curves(network, until)), {"until": until})
    return widgets.VBox([until, seen])
