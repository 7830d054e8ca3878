"""Small random data sets in the place of the real ones, and the real ones where they are to hand."""

import gzip
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pna.degrees import DegreeStatistics
from pna.files import write_arrays
from pna.kernels import operators, selection
from pna.realworld.batches import DeviceSplit
from pna.realworld.data.datasets import DATASETS, SPLITS
from pna.realworld.data.graphs import Graph, Graphs, sort_by_target
from pna.realworld.data.storage import FORMAT, archive_path
from pna.realworld.hyperparameters import HYPERPARAMETERS
from pna.realworld.networks import Network

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def shared():
    """The folder of the local data sets."""
    folder = Path(os.environ.get("PNA_SHARED_DATA") or ROOT.parent / "shared" / "data")
    if not folder.exists():
        pytest.skip("the local data sets are not here: set PNA_SHARED_DATA")
    return folder


class Toys:
    """Random graphs with the features and labels of a data set; some nodes receive no message."""

    degrees = DegreeStatistics(delta=1.1, mean_degree=2.0)

    @staticmethod
    def graphs(name, G=12, seed=0, sizes=(6, 15)):
        data, rng = DATASETS[name], np.random.default_rng(seed)

        def features(rows, categories, numbers):
            if categories:
                return np.stack([rng.integers(0, c, rows) for c in categories], axis=1).astype(np.uint8)
            return rng.random((rows, numbers)).astype(np.float16)

        graphs = []
        for _ in range(G):
            n = int(rng.integers(*sizes))
            pairs = np.unique(rng.integers(0, n, (2, 3 * n)), axis=1)
            pairs = pairs[:, (pairs[0] != pairs[1]) & (pairs[1] != n - 1)]
            degree, source, _ = sort_by_target(pairs, n)
            edge = features(len(source), data.edge_categories, data.edge_numbers)
            y = {"regression": rng.normal(), "classes": rng.integers(0, 10), "binary": rng.integers(0, 2)}[data.task]
            graphs.append(Graph(features(n, data.node_categories, data.node_numbers), degree, source, edge, y))
        if data.task == "binary":  # both labels are there
            graphs = [graph._replace(y=k % 2) for k, graph in enumerate(graphs)]
        return Graphs.of(graphs)

    @staticmethod
    def strange():
        """A graph, one without a message, one of a single node, one without nodes, one of repeated edges and loops."""
        pairs = [[(0, 1), (1, 0), (2, 1)], [], [], [], [(0, 1), (0, 1), (1, 1), (0, 0), (0, 1)]]
        rng, graphs = np.random.default_rng(0), []
        for n, edges in zip((3, 4, 1, 0, 2), pairs, strict=True):
            degree, source, _ = sort_by_target(np.array(edges, dtype=np.int64).reshape(-1, 2).T, n)
            x, edge = (rng.integers(0, k, (rows, 1)).astype(np.uint8) for rows, k in ((n, 28), (len(source), 4)))
            graphs.append(Graph(x, degree, source, edge, rng.normal()))
        return Graphs.of(graphs)

    @classmethod
    def resident(cls, name, G=12, seed=0, **options):
        return DeviceSplit(DATASETS[name], cls.graphs(name, G, seed), dtype=torch.double, **options)

    @staticmethod
    def model(name, model="pna", edges="no-edges", **changes):
        """The row of the table, made narrow."""
        row = HYPERPARAMETERS[name, model, edges]
        sizes = {"hidden": 10, "out": 5, "edge_dim": min(row.edge_dim, 3)}
        if row.layer != "pna":  # eight heads, and a residual in every layer
            sizes = {"hidden": 16, "out": 16, "edge_dim": 16 * (row.edge_dim > 0)}
        return replace(row, **(sizes | {"batch": 5} | changes))

    @classmethod
    def network(cls, name, model="pna", edges="no-edges", seed=0, **changes):
        torch.manual_seed(seed)
        network = Network(cls.model(name, model, edges, **changes), DATASETS[name], cls.degrees).double()
        with torch.no_grad():  # larger than the released draw, so that no part is lost in rounding
            for layer in network.layers:
                for parameter in (p for p in layer.parameters() if p.dim() > 1):
                    parameter.normal_(0, 0.3)
        return network


@pytest.fixture(scope="session")
def toys():
    return Toys


@pytest.fixture
def kernels(monkeypatch):
    """A call after which the kernels serve, on a CPU in Triton's interpreter, or do not."""

    def serve(yes=True):
        for module in (selection, operators):
            monkeypatch.setattr(module, "usable", lambda t: yes)

    return serve


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """A data folder with small random archives of ZINC and MolHIV, and one for results."""
    monkeypatch.setenv("PNA_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("PNA_RESULTS", str(tmp_path / "results"))
    write_archive("zinc", "unofficial: 3 of 20 rows are the official molecules")
    write_archive("molhiv", "official")
    return tmp_path


def write_archive(name, train):
    """A small random data set, whose training set is what `train` says, and is another for other words."""
    seeds = (*train.encode(), 0), 1, 2
    sets = {split: Toys.graphs(name, 20, seed) for seed, split in zip(seeds, SPLITS, strict=True)}
    arrays = {f"{split}/{key}": array for split, graphs in sets.items() for key, array in graphs.arrays().items()}
    write_arrays(archive_path(name), arrays, {"name": name, "origin": "local", "train": train}, FORMAT)


SMILES = ["CCO", "c1ccccc1", "CC(=O)NC", "C[C@H](N)C", "CCCl", "CC#N"]


class Local:
    """Local files of a few molecules."""

    @staticmethod
    def csv(path, header, rows):
        path.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.writelines(",".join(map(str, row)) + "\n" for row in (header, *rows))

    @classmethod
    def zinc(cls, folder):
        for name, shift in (("train", 0), ("val", 1), ("test", 2)):
            rows = [(smiles, k + shift / 10) for k, smiles in enumerate(SMILES)]
            cls.csv(folder / "zinc" / f"{name}.csv.gz", ("smiles", "y"), rows)

    @classmethod
    def molhiv(cls, folder):
        cls.csv(folder / "molhiv" / "mol.csv.gz", ("smiles", "y"), [(s, k % 2) for k, s in enumerate(SMILES)])
        for name, rows in (("train", (0, 1, 2, 3)), ("valid", (4,)), ("test", (5,))):
            cls.csv(folder / "molhiv" / f"split_{name}.csv.gz", ("row",), [(row,) for row in rows])


@pytest.fixture(scope="session")
def local():
    return Local
