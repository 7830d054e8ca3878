"""The figures that the READMEs of the local data sets state, where the data sets are to hand."""

import csv
import gzip

import numpy as np
import pytest

from pna.realworld.data.datasets import DATASETS, SPLITS
from pna.realworld.data.local import molhiv_rows, zinc_rows
from pna.realworld.data.molecules import ATOM_TYPES, molhiv_graph, read_molecule, zinc_graph
from pna.realworld.data.official import describe
from pna.realworld.data.superpixels import Superpixels, dropped, edges, edges_together
from tests.realworld.penalised_logp import penalised_logp

SAMPLE = 150  # superpixel graphs whose edges are made


@pytest.fixture(scope="session")
def zinc(shared):
    pytest.importorskip("rdkit")
    rows = zinc_rows(DATASETS["zinc"], shared / "zinc")
    return rows, {split: [zinc_graph(row) for row in rows[split]] for split in SPLITS}


@pytest.fixture(scope="session")
def molhiv(shared):
    pytest.importorskip("ogb")
    return molhiv_rows(DATASETS["molhiv"], shared / "molhiv")


# ---- ZINC ----


def test_zincs_rows_are_the_official_ones(zinc):
    rows = {split: [*zinc[0][split]] for split in SPLITS}
    assert describe(DATASETS["zinc"], DATASETS["zinc"].sizes, rows) == "official"
    rows["train"][17], rows["test"][3] = rows["train"][18], (rows["test"][3][0], 0.0)
    assert describe(DATASETS["zinc"], DATASETS["zinc"].sizes, rows) == (
        "unofficial: 11,998 of 12,000 rows are the official molecules, all but row 17 of train, row 3 of test"
    )
    rows["train"].reverse()
    assert describe(DATASETS["zinc"], DATASETS["zinc"].sizes, rows).startswith("unofficial: 1,999 of 12,000 rows are")


@pytest.mark.parametrize(
    ("split", "figures"),
    [
        ("train", (10_000, 0.0153, 2.0108, -42.0366, 3.8048, 23.1664, 49.856)),
        ("validation", (1_000, 0.0315, 1.9846, -20.3405, 3.7425, 23.083, 49.692)),
        ("test", (1_000, 0.0124, 2.0170, -9.6760, 3.4535, 23.117, 49.720)),
    ],
)
def test_zincs_graphs_and_labels(zinc, split, figures):
    graphs = zinc[1][split]
    y = np.array([graph.y for graph in graphs])
    nodes, messages = (np.mean([len(getattr(graph, name)) for graph in graphs]) for name in ("x", "source"))
    statistics = (len(graphs), y.mean(), y.std(), y.min(), y.max(), nodes, messages)
    assert statistics == pytest.approx(figures, abs=6e-4)


def test_zincs_sizes_and_atom_types(zinc):
    graphs = [graph for split in SPLITS for graph in zinc[1][split]]
    sizes = np.array([len(graph.x) for graph in graphs])
    assert (sizes.min(), sizes.max()) == (9, 37)
    assert (sizes.mean(), sizes.std()) == pytest.approx((23.1553, 4.4811), abs=5e-5)  # as published
    small = [graph.y for graph in graphs if len(graph.x) < 27]
    assert (np.mean(small), np.std(small)) == pytest.approx((-0.1368, 1.9928), abs=5e-5)  # as published
    counts = np.bincount(np.concatenate([graph.x[:, 0] for graph in zinc[1]["train"]]), minlength=len(ATOM_TYPES))
    assert (counts[:21] > 0).all()
    assert counts[21:].sum() == 0


@pytest.mark.parametrize(("split", "every"), [("validation", 1), ("test", 1), ("train", 5)])
def test_zincs_labels_are_recomputed(zinc, split, every):
    rows = zinc[0][split][::every]
    worst = max(abs(penalised_logp(smiles) - y) for smiles, y in rows)
    assert worst < 1e-6


# ---- MolHIV ----


def test_molhivs_splits_and_positives(molhiv):
    assert [len(molhiv[split]) for split in SPLITS] == [32_901, 4_113, 4_113]
    assert [sum(y for _, y in molhiv[split]) for split in SPLITS] == [1_232, 81, 130]
    assert len({smiles for split in SPLITS for smiles, _ in molhiv[split]}) == 41_127


def test_molhivs_atoms_and_bonds(molhiv):
    molecules = [read_molecule(smiles) for split in SPLITS for smiles, _ in molhiv[split]]
    atoms, bonds = (np.array([getattr(mol, name)() for mol in molecules]) for name in ("GetNumAtoms", "GetNumBonds"))
    assert (atoms.mean(), bonds.mean()) == pytest.approx((25.51, 27.47), abs=5e-3)
    assert atoms.max() <= 255
    assert (atoms < DATASETS["molhiv"].min_nodes).sum() == 16
    large = [mol for mol in molecules[: len(molhiv["train"])] if mol.GetNumAtoms() >= DATASETS["molhiv"].min_nodes]
    degrees = np.bincount([atom.GetDegree() for mol in large for atom in mol.GetAtoms()])
    assert np.log1p(np.arange(len(degrees))) @ degrees / degrees.sum() == pytest.approx(1.11234, abs=5e-6)  # δ


def test_molhivs_molecules_that_rdkit_does_not_sanitise(shared, molhiv):
    from rdkit import Chem

    with gzip.open(shared / "molhiv" / "mol.csv.gz", "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in (137, 987, 12882, 18293, 30784, 30785, 35728):
        smiles = rows[row]["smiles"]
        assert rows[row]["y"] == "0"
        assert Chem.MolFromSmiles(smiles) is None
        raw = Chem.MolFromSmiles(smiles, sanitize=False)
        graph = molhiv_graph((smiles, 0.0))
        assert (len(graph.x), len(graph.source)) == (raw.GetNumAtoms(), 2 * raw.GetNumBonds())


def test_molhivs_features_are_ogbs(molhiv):
    from ogb.utils import smiles2graph

    for smiles, y in molhiv["validation"][::100]:
        ours, theirs = molhiv_graph((smiles, y)), smiles2graph(smiles)
        assert ours.x.tolist() == theirs["node_feat"].tolist()
        assert len(ours.source) == theirs["edge_index"].shape[1]


# ---- superpixels ----

NODES = {
    "mnist": ((55_000, 3_880_965, 40, 75), (5_000, 353_062, 42, 75), (10_000, 705_641, 42, 75)),
    "cifar10": ((45_000, 5_294_119, 85, 150), (5_000, 587_924, 95, 145), (10_000, 1_175_962, 94, 139)),
}
FIRST = {"mnist": ((69, 7), (71, 5), (74, 7)), "cifar10": ((110, 6), (123, 6), (118, 3))}  # nodes and label
DEGREES = {"mnist": (2.05, 2.1687), "cifar10": (1.93, 2.1723)}  # deviation, mean of log(d + 1)
DROPPED = np.array([24, 20, 16, 13, 10, 7, 5, 3, 1]) / 100  # the nearest, the second nearest, …


@pytest.mark.parametrize("name", NODES)
def test_superpixels_nodes_and_labels(shared, name):
    data = DATASETS[name]
    for k, file in enumerate(data.files):
        with np.load(shared / "superpixels" / file) as arrays:
            nodes, label = np.diff(arrays["node_ptr"]), arrays["label"]
        assert (len(nodes), nodes.sum(), nodes.min(), nodes.max()) == NODES[name][k]
        assert len(nodes) == data.sizes[k]
        assert (nodes[0], label[0]) == FIRST[name][k]


@pytest.mark.parametrize("name", NODES)
def test_superpixels_edges_and_degrees(shared, name):
    """Some of the test graphs are compared; the README's own figures are from samples too."""
    data = DATASETS[name]
    with np.load(shared / "superpixels" / data.files[2]) as arrays:
        ptr, position = arrays["node_ptr"], arrays["pos"]
    graphs, drops = [], []
    for g in range(SAMPLE):
        image = Superpixels(position[ptr[g] : ptr[g + 1]], data.side, g)
        drops += dropped([image])
        graphs.append(edges(image._replace(dropped=drops[-1])))
    few = slice(40)
    nodes, rows = np.diff(ptr)[few].astype(np.uint8), slice(ptr[40])
    together = edges_together(nodes, position[rows], np.concatenate(drops[few]), data.side, "cpu")
    for one_by_one, all_at_once in zip(zip(*graphs[few], strict=True), together, strict=True):
        assert np.array_equal(np.concatenate(one_by_one), all_at_once)
    degree, _, weight = (np.concatenate(part) for part in zip(*graphs, strict=True))
    assert len(weight) == 8 * len(degree)
    deviation, log = DEGREES[name]
    assert degree.std() == pytest.approx(deviation, abs=0.03)
    assert np.log1p(degree.astype(float)).mean() == pytest.approx(log, abs=0.0015)
    assert degree.max() <= 18
    assert (degree == 0).mean() < 1e-3
    assert weight.astype(float).mean() == pytest.approx(0.341, abs=0.003)
    assert weight.min() > 0.005
    assert np.bincount(np.concatenate(drops)) / len(degree) == pytest.approx(DROPPED, abs=0.012)
