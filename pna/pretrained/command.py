"""`python -m pna predict graph.edgelist`: what a trained network says of a graph in a file, beside the truth."""

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
    """Predict six properties of a graph in a file, and show them beside the truth."""
    parser = argparse.ArgumentParser(prog="pna predict", description=predict.__doc__)
    what = f"an undirected graph; weights are passed over. Its name ends in one of {', '.join(FORMATS)}"
    parser.add_argument("graph", nargs="?", type=Path, metavar="FILE", help=what)
    parser.add_argument("--cell", default=CELL, help="the trained network (default: %(default)s); --list shows all")
    parser.add_argument("--list", action="store_true", help="print the trained networks that are here")
    parser.add_argument("--source", metavar="NODE", help="where shortest paths start (default: the file's first node)")
    parser.add_argument("--seed", type=int, help="which of the trained networks (default: the best on validation)")
    parser.add_argument(
        "--depth", metavar="RULE", help="layers: cap (default: no more than in training), N/2, N, diameter or a number"
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
    graph = read_graph(options.graph)
    network = load(options.cell, options.seed, options.depth)
    if not isinstance(network, MultiTaskNetwork):
        raise ValueError(f"cell must be of the multi-task benchmark, as {CELL}; got {options.cell!r}")
    source = None if options.source is None else _node(graph, options.source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it warns of is part of what is printed
        found = network.predict(graph, source)
    if options.json:
        print(json.dumps(found.facts, allow_nan=False))
        for words in found.outside:
            print(f"pna predict: {words}", file=sys.stderr)
    else:
        print(found)


def _node(graph: nx.Graph, text: str) -> object:
    """The node that is written so: in some formats it is a number."""
    return next((node for node in graph if str(node) == text), text)
