"""The command `python -m pna predict`: a trained network's prediction for a graph in a file, or for a molecule."""

import argparse
import io
import json
import sys
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path

import networkx as nx
import numpy as np
import torch
from torch_geometric.data import Data

from pna.command_line import run_command
from pna.files import MOST_TEXT, read_whole
from pna.pretrained.graphs import FORMATS, MOST_NODES, read_graph
from pna.pretrained.loading import load, names
from pna.pretrained.realworld import RealWorldNetwork

__all__ = ["predict"]

CELL, MOLECULES = "multitask/released/pna/16", "zinc/released/pna/edges"
LARGE = 1000  # nodes, from which on a prediction takes more than a few seconds


def predict(arguments: Sequence[str]) -> int:
    """Predict six properties of a graph in a file beside the true values, or the property of a molecule or image."""
    parser = argparse.ArgumentParser(prog="pna predict", description=predict.__doc__)
    what = f"an undirected graph, whose weights are ignored; the name ends in one of {', '.join(FORMATS)}"
    arrays = "or for the networks of figure 6 .npz, with x, edge_index and edge_attr in the data set's features"
    parser.add_argument("graph", nargs="?", type=Path, metavar="FILE", help=f"{what}, {arrays}")
    parser.add_argument("--smiles", help="a molecule, as CCO, for the networks of ZINC and MolHIV")
    network = f"the trained network; --list shows all (default: {CELL}, and for a molecule {MOLECULES})"
    parser.add_argument("--network", "--cell", dest="cell", metavar="NAME", help=network)
    parser.add_argument("--list", action="store_true", help="list the trained networks that are here")
    parser.add_argument("--source", metavar="NODE", help="where shortest paths start (default: the file's first node)")
    parser.add_argument("--seed", type=int, help="which seed of the network (default: the lowest validation error)")
    parser.add_argument(
        "--depth", metavar="RULE", help="layers: cap (default, no more than in training), N/2, N, diameter or a number"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    options = parser.parse_args(arguments)
    if options.list:
        print("\n".join(names()))
        return 0
    if (options.graph is None) == (options.smiles is None):
        parser.error("a FILE or --smiles is needed, and not both")
    return run_command("predict", lambda: _predict(options))


def _predict(options: argparse.Namespace) -> None:
    """Print the network's predictions for the graph in a file, or for a molecule, as tables or as JSON."""
    network = load(options.cell or (CELL if options.smiles is None else MOLECULES), options.seed, options.depth)
    if isinstance(network, RealWorldNetwork):
        _print_real_world(network, options)
        return
    if options.smiles is not None:
        raise ValueError(f"--smiles is for the networks of ZINC and MolHIV, as {MOLECULES}; got {network.cell!r}")
    graph = read_graph(options.graph)
    if LARGE < len(graph) <= MOST_NODES:
        words = f"a graph of {len(graph):,} nodes may take a minute: the true values most of it, or many layers"
        print(f"pna predict: {words} (depth: {network.depth or 'fixed'})", file=sys.stderr)
    source = None if options.source is None else _node(graph, options.source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the warnings are printed below
        prediction = network.predict(graph, source)
    if options.json:
        print(json.dumps(prediction.facts, allow_nan=False))
        for words in prediction.outside:
            print(f"pna predict: {words}", file=sys.stderr)
    else:
        print(prediction)


def _print_real_world(network: RealWorldNetwork, options: argparse.Namespace) -> None:
    """Print what a network of figure 6 predicts: a number, or the probabilities of ten classes."""
    if options.source is not None:
        raise ValueError(f"--source is for the networks of the multi-task benchmark, as {CELL}; got {network.cell!r}")
    graph = options.smiles if options.smiles is not None else _arrays(options.graph, network)
    prediction = network.predict(graph)
    numbers = prediction if isinstance(prediction, float) else prediction.tolist()
    if options.json:
        print(json.dumps({"network": network.cell, "prediction": numbers}, allow_nan=False))
    elif isinstance(numbers, float):
        print(f"{network.target}: {numbers:.4g}")
    else:
        print("\n".join(f"{network.target} {k}: {number:.4f}" for k, number in enumerate(numbers)))


def _arrays(path: Path, network: RealWorldNetwork) -> Data:
    """Read x, edge_index and perhaps edge_attr of one graph from an .npz file."""
    if path.suffix.lower() != ".npz":
        raise ValueError(f"{network.cell} takes an .npz with x, edge_index and edge_attr, or --smiles; got {path}")
    try:
        content = read_whole(path)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > MOST_TEXT:
            raise ValueError(f"it would unpack to {size:,} bytes, more than {MOST_TEXT:,}")
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: torch.from_numpy(file[name]) for name in ("x", "edge_index", "edge_attr") if name in file}
    except Exception as error:  # a damaged zip file may raise almost anything
        raise ValueError(f"{path} must be an .npz of x, edge_index and perhaps edge_attr: {error}") from error
    if flat := [name for name, array in arrays.items() if array.dim() == 0]:
        raise ValueError(f"{flat[0]} of {path} must be an array, got a single number")
    return Data(**arrays)


def _node(graph: nx.Graph, text: str) -> object:
    """The node that the text names; some formats have numbers for nodes."""
    return next((node for node in graph if str(node) == text), text)
