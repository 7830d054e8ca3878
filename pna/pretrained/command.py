"""The command `python -m pna predict graph.edgelist`: a trained network's predictions for a graph in a file."""

import argparse
import json
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import networkx as nx

from pna.command_line import run_command
from pna.pretrained.graphs import FORMATS, read_graph
from pna.pretrained.loading import load, names
from pna.pretrained.multitask import MultiTaskNetwork

__all__ = ["predict"]

CELL = "multitask/released/pna/16"


def predict(arguments: Sequence[str]) -> int:
    """Predict six properties of a graph in a file, and print them beside the true values."""
    parser = argparse.ArgumentParser(prog="pna predict", description=predict.__doc__)
    what = f"an undirected graph, whose weights are ignored; the name ends in one of {', '.join(FORMATS)}"
    parser.add_argument("graph", nargs="?", type=Path, metavar="FILE", help=what)
    parser.add_argument("--cell", default=CELL, help="the trained network (default: %(default)s); --list shows all")
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
    if options.graph is None:
        parser.error("a FILE is needed")
    return run_command("predict", lambda: _predict(options))


def _predict(options: argparse.Namespace) -> None:
    """Print the network's predictions for the graph in a file, as tables or as JSON."""
    graph = read_graph(options.graph)
    network = load(options.cell, options.seed, options.depth)
    if not isinstance(network, MultiTaskNetwork):
        raise ValueError(f"cell must be of the multi-task benchmark, as {CELL}; got {options.cell!r}")
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


def _node(graph: nx.Graph, text: str) -> object:
    """The node that the text names; some formats have numbers for nodes."""
    return next((node for node in graph if str(node) == text), text)
