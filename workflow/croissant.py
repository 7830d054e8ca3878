"""`croissant.py METADATA DATA`: the multi-task benchmark as files that need no package of this project to be read.

Writes the graphs of each specification to the folder DATA, one JSON object a line, and METADATA, which describes them
in Croissant's terms. mlcroissant loads the records from it, after checking the files' hashes.
"""

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import mlcroissant as mlc
import numpy as np
import yaml
from numpy.typing import NDArray
from rdflib.term import URIRef

from pna.files import write_whole
from pna.multitask import DESCRIBED, RELEASED, TASKS, MultiTask, cached
from pna.multitask.families import FAMILIES
from pna.multitask.graphset import GraphSet
from pna.multitask.labels import NODE_TASKS

ROOT = Path(__file__).parents[1]
DESCRIPTION = (
    "Random graphs of ten families with six labels, as in Principal Neighbourhood Aggregation for Graph Nets (NeurIPS "
    "2020), section 4 and appendix G: three labels of each node and three of each graph. `described` follows the text "
    "of the paper, `released` the authors' code, in which graphs with bipartite components count as not connected and "
    "the validation and test graphs have 15 to 19 nodes. Labels are raw; divide them by `maxima`, the largest of the "
    "training set, to get the units in which networks are trained."
)
ATTRIBUTES: dict[str, tuple[URIRef, str]] = {  # each attribute's type and meaning; the six labels follow
    "split": (mlc.DataType.TEXT, "train, validation or test"),
    "family": (mlc.DataType.TEXT, f"The family of the graph: {', '.join(family.name for family in FAMILIES)}"),
    "nodes": (mlc.DataType.INTEGER, "The number of nodes N; they are numbered from 0 to N - 1"),
    "source": (mlc.DataType.INTEGER, "The source of the shortest-path task, marked by its first input feature"),
    "edges_from": (mlc.DataType.INTEGER, "The first node of each directed edge; an edge is listed both ways"),
    "edges_to": (mlc.DataType.INTEGER, "The second node of each directed edge, in the order of `edges_from`"),
    "x": (mlc.DataType.FLOAT, "The random input feature of each node"),
}
LISTS = {"edges_from", "edges_to", "x", *(task.name for task in NODE_TASKS)}


def main(metadata: str, data: str) -> int:
    """Write the graphs of both specifications, and the metadata last."""
    try:
        write({str(spec): cached("multitask", spec) for spec in (DESCRIBED, RELEASED)}, Path(metadata), Path(data))
    except OSError as error:
        print(f"croissant.py: {error}", file=sys.stderr)
        return 1
    return 0


def write(sets: dict[str, MultiTask], metadata: Path, folder: Path) -> None:
    """Write one file of graphs for each specification to a folder, and their description."""
    files = {spec: folder / f"multitask-{spec}.jsonl" for spec in sets}
    for spec, path in files.items():
        text = "".join(f"{json.dumps(graph)}\n" for graph in records(sets[spec]))
        write_whole(path, lambda file, text=text: file.write(text.encode()))
    described = json.dumps(describe(sets, files, metadata.parent).to_json(), indent=1, ensure_ascii=False)
    write_whole(metadata, lambda file: file.write(f"{described}\n".encode()))


def records(data: MultiTask) -> Iterator[dict]:
    """Yield every graph of a data set, split by split, with raw labels."""
    for split, graphs in data.sets.items():
        for place in range(len(graphs)):
            yield {"split": split} | _record(graphs, place)


def _record(graphs: GraphSet, place: int) -> dict:
    """One graph of a set as a JSON object: family, nodes, source, edges, random features and raw labels."""
    nodes = slice(*graphs.first_node[place : place + 2])
    edges = slice(*graphs.first_edge[[nodes.start, nodes.stop]])
    labels = [*graphs.node_labels[nodes].T, *graphs.graph_labels[place]]
    return {
        "family": FAMILIES[graphs.family[place]].name,
        "nodes": int(graphs.sizes[place]),
        "source": int(graphs.source[place]),
        "edges_from": graphs.neighbour[edges].tolist(),
        "edges_to": np.repeat(np.arange(graphs.sizes[place]), graphs.degree[nodes]).tolist(),
        "x": _shortest(graphs.x[nodes]),
    } | {task.name: _shortest(values) for task, values in zip(TASKS, labels, strict=True)}


def _shortest(values: NDArray[np.float32]) -> list[float] | float:
    """The values with as few digits as tell a float32 from its neighbours."""
    return [float(str(value)) for value in values] if values.ndim else float(str(values))


# ---- the description ----


def describe(sets: dict[str, MultiTask], files: dict[str, Path], base: Path) -> mlc.Metadata:
    """The Croissant description of the files, whose addresses are relative to a folder."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    ctx = mlc.Context()
    maker = mlc.Organization(ctx=ctx, id="contributors", name=citation["authors"][0]["name"])
    return mlc.Metadata(
        ctx=ctx,
        name="pna-multitask",
        description=DESCRIPTION,
        cite_as=_bibtex(citation["preferred-citation"]),
        creators=[maker],
        date_published=datetime.fromisoformat(str(citation["date-released"])),
        keywords=citation["keywords"],
        license=[f"https://spdx.org/licenses/{citation['license']}.html"],
        url=citation["preferred-citation"]["url"],
        version=citation["version"],
        distribution=[_file(ctx, spec, path, base) for spec, path in files.items()],
        record_sets=[_maxima(ctx, sets), *(_graphs(ctx, spec) for spec in files)],
    )


def _bibtex(paper: dict) -> str:
    """The paper as a BibTeX entry, from the preferred citation of CITATION.cff."""
    authors = " and ".join(f"{author['family-names']}, {author['given-names']}" for author in paper["authors"])
    return (
        f"@inproceedings{{corso2020principal, title={{{paper['title']}}}, author={{{authors}}}, "
        f"booktitle={{{paper['collection-title']}}}, volume={{{paper['volume']}}}, year={{{paper['year']}}}}}"
    )


def _file(ctx: mlc.Context, spec: str, path: Path, base: Path) -> mlc.FileObject:
    """The description of a file of graphs, with its size and SHA-256; its address is relative to `base`."""
    content = path.read_bytes()
    return mlc.FileObject(
        ctx=ctx,
        id=f"{spec}.jsonl",
        name=path.name,
        description=f"The graphs as {spec}, one JSON object a line.",
        content_url=Path(os.path.relpath(path, base)).as_posix(),
        content_size=f"{len(content)} B",
        encoding_formats=[mlc.EncodingFormat.JSON_LINES],
        sha256=hashlib.sha256(content).hexdigest(),
    )


def _graphs(ctx: mlc.Context, spec: str) -> mlc.RecordSet:
    """The description of the records of one specification, each of which is a graph."""
    labels = {
        task.name: (mlc.DataType.FLOAT, f"{task.title} of {'each node' if task in NODE_TASKS else 'the graph'}")
        for task in TASKS
    }
    return mlc.RecordSet(
        ctx=ctx,
        id=spec,
        name=spec,
        description=f"The graphs as {spec}, ordered by split and size.",
        fields=[_field(ctx, spec, name, *attribute) for name, attribute in (ATTRIBUTES | labels).items()],
    )


def _field(ctx: mlc.Context, spec: str, name: str, kind: URIRef, meaning: str) -> mlc.Field:
    """The description of one attribute of a graph: its type, its meaning, and whether it is a list."""
    return mlc.Field(
        ctx=ctx,
        id=f"{spec}/{name}",
        name=name,
        description=f"{meaning}.",
        data_types=[kind],
        is_array=True if name in LISTS else None,
        array_shape="-1" if name in LISTS else None,
        source=mlc.Source(ctx=ctx, file_object=f"{spec}.jsonl", extract=mlc.Extract(ctx=ctx, column=name)),
    )


def _maxima(ctx: mlc.Context, sets: dict[str, MultiTask]) -> mlc.RecordSet:
    """The largest label of each task over the training set, as records of their own."""
    kinds = {"specification": mlc.DataType.TEXT} | {task.name: mlc.DataType.FLOAT for task in TASKS}
    fields = [mlc.Field(ctx=ctx, id=f"maxima/{name}", name=name, data_types=[kind]) for name, kind in kinds.items()]
    rows = ((spec, *_shortest(data.maxima)) for spec, data in sets.items())
    return mlc.RecordSet(
        ctx=ctx,
        id="maxima",
        name="maxima",
        description="The largest label of each task over the training set.",
        fields=fields,
        data=[dict(zip((field.id for field in fields), row, strict=True)) for row in rows],
    )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
