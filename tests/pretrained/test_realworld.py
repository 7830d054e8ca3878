"""Trained networks of figure 6: what they say of a molecule or an image."""

import io
import json
import os
import re
import sys

import networkx as nx
import numpy as np
import pytest
import torch
import yaml
from torch_geometric.data import Batch, Data

import pna
from pna.__main__ import main
from pna.pretrained import MultiTaskNetwork, RealWorldNetwork
from pna.realworld.batches import DeviceSplit
from pna.realworld.data.datasets import DATASETS
from pna.realworld.data.graphs import Graphs
from pna.realworld.data.molecules import zinc_graph

ZINC = "zinc/released/pna/edges"
ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"


@pytest.fixture
def kept(shelf):
    """A network of that name, kept as a training keeps it."""

    def put(name):
        run = shelf.run(name)
        return shelf.put(run, run.shipped, [0])[0].eval(), pna.load(name)

    return put


def as_data(graph):
    target = torch.arange(len(graph.x)).repeat_interleave(torch.from_numpy(graph.degree).long())
    edge_index = torch.stack([torch.from_numpy(graph.source).long(), target])
    return Data(x=torch.from_numpy(graph.x), edge_index=edge_index, edge_attr=torch.from_numpy(graph.edge))


def test_a_molecule_by_its_smiles_or_as_data_is_what_the_network_says_of_a_batch(kept):
    pytest.importorskip("rdkit")
    network, loaded = kept(ZINC)
    graph = zinc_graph((ASPIRIN, 0.0))
    resident = DeviceSplit(DATASETS["zinc"], Graphs.of([graph] * 3))
    with torch.no_grad():
        batch = resident.batch(torch.arange(3), resident.largest(3))
        expected = network(batch)
        torch.testing.assert_close(loaded(batch), expected)
    assert isinstance(loaded.predict(ASPIRIN), float)
    for molecule in (ASPIRIN, as_data(graph)):
        assert loaded.predict(molecule) == pytest.approx(expected[0].item(), rel=1e-4, abs=1e-5)


def test_the_order_of_the_edges_is_no_concern(kept):
    pytest.importorskip("rdkit")
    _, loaded = kept(ZINC)
    data = as_data(zinc_graph((ASPIRIN, 0.0)))
    order = torch.randperm(data.edge_index.shape[1])
    shuffled = Data(x=data.x, edge_index=data.edge_index[:, order], edge_attr=data.edge_attr[order])
    assert loaded.predict(shuffled) == pytest.approx(loaded.predict(data), rel=1e-4, abs=1e-5)


def test_of_molhiv_it_is_a_probability_and_edge_features_are_not_needed(kept):
    pytest.importorskip("ogb")
    _, loaded = kept("molhiv/released/pna/no-edges")
    assert 0 < loaded.predict(ASPIRIN) < 1
    ring = torch.arange(6)
    edge_index = torch.cat([torch.stack([ring, ring.roll(1)]), torch.stack([ring.roll(1), ring])], dim=1)
    assert 0 < loaded.predict(Data(x=torch.zeros(6, 9, dtype=torch.long), edge_index=edge_index)) < 1


def test_of_an_image_it_is_a_probability_for_each_class(kept):
    _, loaded = kept("mnist/released/pna/no-edges")
    data = Data(x=torch.rand(10, 3), edge_index=torch.randint(0, 10, (2, 40)))
    assert loaded.predict(data).shape == (10,)
    assert loaded.predict(data).sum().item() == pytest.approx(1, abs=1e-5)
    with pytest.raises(ValueError, match="graph must be a torch_geometric Data for MNIST, got the text 'CC'"):
        loaded.predict("CC")


BOND = torch.tensor([[0, 1], [1, 0]])
ATOMS = torch.zeros(2, 1, dtype=torch.long)


@pytest.mark.parametrize(
    ("graph", "error", "message"),
    [
        (7, TypeError, "graph must be a SMILES or a torch_geometric Data, got int"),
        (Data(edge_index=BOND), ValueError, "Data must have x, 1 a row; got none"),
        (Data(x=ATOMS), ValueError, "Data must have an edge_index, got none"),
        (Data(x=ATOMS, edge_index=BOND + 1), ValueError, "nodes from 0 to 1, got 1 to 2"),
        (Data(x=ATOMS[:0], edge_index=BOND[:, :0]), ValueError, "a row for each node, got a graph without nodes"),
        (Data(x=ATOMS, edge_index=BOND[:1]), ValueError, r"of shape \[2, E\], got int64 of shape \[1, 2\]"),
        (Data(x=ATOMS, edge_index=BOND.float()), ValueError, r"integers of shape \[2, E\], got float32"),
        (Data(x=ATOMS, edge_index=BOND[:, :0], edge_attr=torch.ones(0)), ValueError, "must have an edge, got"),
        ("C", ValueError, "must have an edge, got"),
        (Batch.from_data_list([Data(x=ATOMS, edge_index=BOND)] * 2), ValueError, "got a batch of 2"),
        (Data(x=torch.full((2, 1), 0.5), edge_index=BOND), ValueError, "x must be categories, whole numbers"),
        (Data(x=torch.full((2, 1), torch.nan), edge_index=BOND), ValueError, "x must be finite numbers"),
        (Data(x=ATOMS, edge_index=BOND), ValueError, "Data must have edge_attr, 1 a row; got none"),
        (Data(x=ATOMS, edge_index=BOND, edge_attr=torch.ones(3)), ValueError, "a row for each of 2 edges, got 3"),
        (Data(x=torch.zeros(2, 4), edge_index=BOND), ValueError, "x must have 1 number a row, got 4"),
        (Data(x=torch.full((2, 1), 28), edge_index=BOND), ValueError, r"x must be categories, .* less than \(28,\)"),
        (Data(x=ATOMS + 0.5, edge_index=BOND), ValueError, "x must be categories, whole numbers"),
        (Data(x=ATOMS * torch.nan, edge_index=BOND), ValueError, "x must be finite numbers"),
    ],
)
def test_what_it_cannot_take(kept, graph, error, message):
    if isinstance(graph, str):
        pytest.importorskip("rdkit")
    _, loaded = kept(ZINC)
    with pytest.raises(error, match=message):
        loaded.predict(graph)


def test_one_atom_without_bonds(kept):
    pytest.importorskip("rdkit")
    _, loaded = kept(ZINC)
    bonds = torch.zeros(0, 1, dtype=torch.long)
    for atom in ("C", Data(x=ATOMS[:1], edge_index=BOND[:, :0], edge_attr=bonds)):
        with pytest.raises(ValueError, match="graph must have an edge, got 1 node and no edge"):
            loaded.predict(atom)


def test_a_smiles_that_is_none(kept):
    pytest.importorskip("rdkit")
    _, loaded = kept(ZINC)
    with pytest.raises(ValueError, match="RDKit cannot read the SMILES 'no molecule'"):
        loaded.predict("no molecule")


# ---- on the command line, and on a model hub ----


def test_a_molecule_on_the_command_line(kept, capsys):
    pytest.importorskip("rdkit")
    _, loaded = kept(ZINC)
    assert main(["predict", "--smiles", "CCO", "--network", ZINC]) == 0
    assert capsys.readouterr().out == f"constrained solubility: {loaded.predict('CCO'):.4g}\n"
    assert main(["predict", "--smiles", "CCO", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"network": ZINC, "prediction": loaded.predict("CCO")}


def test_an_image_on_the_command_line(kept, capsys, tmp_path):
    name = "mnist/released/pna/no-edges"
    _, loaded = kept(name)
    data = Data(x=torch.rand(4, 3), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    np.savez(tmp_path / "image.npz", x=data.x.numpy(), edge_index=data.edge_index.numpy())
    assert main(["predict", str(tmp_path / "image.npz"), "--network", name, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["prediction"] == pytest.approx(loaded.predict(data).tolist())
    assert main(["predict", str(tmp_path / "image.npz"), "--network", name]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 10


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--smiles", "CCO", "--network", "mnist/released/pna/no-edges"], "must be a torch_geometric Data for MNIST"),
        (["a.edgelist", "--network", "mnist/released/pna/no-edges"], "takes an .npz with x"),
        (["missing.npz", "--network", "mnist/released/pna/no-edges"], "cannot be read"),
        (
            ["--smiles", "CCO", "--network", "mnist/released/pna/no-edges", "--source", "3"],
            "--source is for the networks",
        ),
    ],
)
def test_what_the_command_line_refuses(kept, capsys, words, message):
    kept("mnist/released/pna/no-edges")
    assert main(["predict", *words]) == 2
    assert message in capsys.readouterr().err


def npz(**arrays):
    """The content of an .npz file."""
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


WHOLE = npz(x=np.random.default_rng(0).random((4, 3), np.float32), edge_index=np.array([[0, 1], [1, 0]]))
MUST = "must be an .npz of x, edge_index and perhaps edge_attr"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", MUST),
        (b"neither zip nor npy", MUST),
        (WHOLE[: len(WHOLE) // 2], MUST),
        (WHOLE[:60] + bytes([WHOLE[60] ^ 255]) + WHOLE[61:], MUST),
        (WHOLE[WHOLE.index(b"PK", 2) :], MUST),
        (npz(x=np.array(["a"]), edge_index=np.zeros((2, 1), int)), MUST),
        (npz(x=np.array([None]), edge_index=np.zeros((2, 1), int)), MUST),
        (npz(x=np.zeros(1 << 26), edge_index=np.zeros((2, 1), int)), "would unpack to"),
        (npz(x=np.array(1.0), edge_index=np.zeros((2, 1), int)), "x of .* must be an array, got a single number"),
    ],
    ids=["empty", "junk", "cut", "flipped", "headless", "text", "objects", "bomb", "number"],
)
def test_a_damaged_or_wrong_file_of_arrays_is_refused_in_a_line(kept, capsys, tmp_path, content, message):
    name = "mnist/released/pna/no-edges"
    kept(name)
    (tmp_path / "image.npz").write_bytes(content)
    assert main(["predict", str(tmp_path / "image.npz"), "--network", name]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(message, line)


def test_a_pipe_of_arrays_is_refused_and_not_waited_for(kept, capsys, tmp_path):
    name = "mnist/released/pna/no-edges"
    kept(name)
    os.mkfifo(tmp_path / "image.npz")
    assert main(["predict", str(tmp_path / "image.npz"), "--network", name]) == 2
    assert "it is not a regular file" in capsys.readouterr().err


def test_a_file_or_a_molecule_but_not_both():
    for words in ([], ["a.edgelist", "--smiles", "CCO"]):
        with pytest.raises(SystemExit):
            main(["predict", *words])


def test_without_rdkit_the_error_says_what_to_install(kept, monkeypatch, capsys):
    _, loaded = kept(ZINC)
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(ImportError, match=r'pip install "pna\[realworld\]"'):
        loaded.predict("CCO")
    assert main(["predict", "--smiles", "CCO", "--network", ZINC]) == 2
    assert 'pip install "pna[realworld]"' in capsys.readouterr().err


@pytest.mark.parametrize("name", [ZINC, "multitask/released/pna/16", "single-task/described/gcn/16"])
def test_a_folder_for_a_model_hub_holds_weights_and_a_card_with_a_model_index(shelf, tmp_path, name):
    huggingface_hub = pytest.importorskip("huggingface_hub")
    run = shelf.run(name)
    shelf.put(run, run.shipped, list(range(6)) if "single" in name else [0])
    network = pna.load(name)
    with torch.no_grad():
        next(network.parameters()).add_(1)  # what is saved is the network as it is now
    network.save_pretrained(tmp_path / "hub")
    again = type(network).from_pretrained(str(tmp_path / "hub"))
    assert repr(again) == repr(network)
    other = MultiTaskNetwork if isinstance(network, RealWorldNetwork) else RealWorldNetwork
    with pytest.raises(
        ValueError, match=rf"load it with {type(network).__name__}\.from_pretrained, not {other.__name__}"
    ):
        other.from_pretrained(str(tmp_path / "hub"))
    for (key, a), b in zip(network.state_dict().items(), again.state_dict().values(), strict=True):
        assert torch.equal(a, b), key
    _, metadata, _ = (tmp_path / "hub" / "README.md").read_text().split("---\n", 2)
    index = yaml.safe_load(metadata)["model-index"][0]
    assert index["name"] == network.cell
    assert index["results"][0]["metrics"][0]["value"] == pytest.approx(network.validation, abs=1e-6)
    card = huggingface_hub.ModelCard.load(tmp_path / "hub" / "README.md")
    assert card.data.eval_results[0].dataset_name == network.run.cell.training


def test_a_network_from_a_folder_has_the_depth_it_was_saved_with(tmp_path):
    pytest.importorskip("huggingface_hub")
    network = pna.load("multitask/released/pna/16", depth="N")
    network.save_pretrained(tmp_path)
    again = MultiTaskNetwork.from_pretrained(str(tmp_path))
    assert again.depth == "N"
    assert "depth N" in repr(again)
    graph = nx.path_graph(30)
    with pytest.warns(UserWarning, match="30 nodes"):
        assert again.predict(graph).facts == network.predict(graph).facts
    assert MultiTaskNetwork.from_pretrained(str(tmp_path), depth="cap").depth == "cap"
    with pytest.raises(ValueError, match=r"depth must be one of .*; got '0'"):
        MultiTaskNetwork.from_pretrained(str(tmp_path), depth=0)


@pytest.mark.parametrize(
    "text",
    ["{}", '{"cell": "x", "budget": "paper"}', '{"cell": "multitask/released/pna/16", "budget": "no"}'],
)
def test_a_folder_with_another_configuration_is_refused_by_its_name(tmp_path, text):
    pytest.importorskip("huggingface_hub")
    pna.load("multitask/released/pna/16").save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=r"config\.json and weights\.safetensors do not hold a trained network"):
        MultiTaskNetwork.from_pretrained(str(tmp_path))


def test_a_prediction_leaves_the_network_in_its_mode(kept):
    _, loaded = kept(ZINC)
    before = loaded.predict(Data(x=ATOMS, edge_index=BOND, edge_attr=torch.ones(2, dtype=torch.long)))
    assert loaded.train().predict(Data(x=ATOMS, edge_index=BOND, edge_attr=torch.ones(2, dtype=torch.long))) == before
    assert loaded.training
