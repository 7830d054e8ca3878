"""Public downloads: ZINC, CIFAR10 and MNIST through torch_geometric, MolHIV through ogb. They need a network."""

import tempfile
from pathlib import Path
from urllib.error import URLError

import numpy as np
from numpy.typing import NDArray

from pna.realworld.data.datasets import SPLITS, Dataset
from pna.realworld.data.graphs import Graph, Graphs, sort_by_target

__all__ = ["download"]


def download(data: Dataset) -> tuple[dict[str, NDArray], dict]:
    """Download a data set: the arrays of all splits, by "split/name", and the facts about them; no raw file is kept."""
    with tempfile.TemporaryDirectory() as folder:
        read, arrays = _molhiv if data.name == "molhiv" else _torch_geometric, {}
        try:
            sets = read(data, folder)
        except URLError as error:
            raise ConnectionError(
                f"the public files of {data.title} cannot be fetched ({error.reason}); files that are already at hand "
                "are read with --source FOLDER"
            ) from error
        for split, graphs in sets.items():
            arrays |= {f"{split}/{name}": array for name, array in Graphs.of(graphs).arrays().items()}
    return arrays, {"origin": "public download", "train": "official"}


def _torch_geometric(data: Dataset, folder: str) -> dict[str, list[Graph]]:
    """Download the splits of ZINC or of a superpixel data set by torch_geometric."""
    from torch_geometric.datasets import ZINC, GNNBenchmarkDataset

    sets = {}
    for split, name in zip(SPLITS, ("train", "val", "test"), strict=True):
        if data.name == "zinc":
            graphs = ZINC(folder, subset=True, split=name)
        else:
            graphs = GNNBenchmarkDataset(folder, data.title, split=name)
        sets[split] = [_from_pyg(data, graph) for graph in graphs]
    return sets


def _from_pyg(data: Dataset, graph: object) -> Graph:
    """Convert a torch_geometric Data: ZINC's categories, or colours and positions as the published files have them."""
    x, edge = graph.x.numpy(), graph.edge_attr.numpy().reshape(graph.edge_index.shape[1], -1)
    if data.superpixels:
        x, edge = np.concatenate([x, graph.pos.numpy()], axis=1).astype(np.float16), edge.astype(np.float16)
    else:
        x, edge = x.reshape(len(x), -1).astype(np.uint8), edge.astype(np.uint8)
    degree, source, order = sort_by_target(graph.edge_index.numpy(), len(x))
    return Graph(x, degree, source, edge[order], graph.y.item())


def _molhiv(data: Dataset, folder: str) -> dict[str, list[Graph]]:
    """Read ogb's raw files by ogb; its processed ones are pickles, which torch does not open by default."""
    import pandas
    from ogb.io.read_graph_raw import read_csv_graph_raw
    from ogb.utils.url import download_url, extract_zip

    url = "http://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/hiv.zip"
    extract_zip(download_url(url, folder), folder)
    root = Path(folder) / "hiv"
    graphs = read_csv_graph_raw(str(root / "raw"), add_inverse_edge=True)
    labels = pandas.read_csv(root / "raw" / "graph-label.csv.gz", header=None).values[:, 0]
    sets = {}
    for split, name in zip(SPLITS, ("train", "valid", "test"), strict=True):
        rows = pandas.read_csv(root / "split" / "scaffold" / f"{name}.csv.gz", header=None).values[:, 0]
        sets[split] = [_from_ogb(graphs[row], float(labels[row])) for row in rows]
    return sets


def _from_ogb(graph: dict, y: float) -> Graph:
    """Convert a graph of ogb, its messages sorted by target."""
    degree, source, order = sort_by_target(graph["edge_index"], graph["num_nodes"])
    return Graph(graph["node_feat"].astype(np.uint8), degree, source, graph["edge_feat"][order].astype(np.uint8), y)
