"""`python -m pna predict`: a graph in a file."""

import json
import os
import re

import networkx as nx
import pytest

from pna.__main__ import main
from pna.pretrained import names
from pna.pretrained.graphs import FORMATS, one_graph, read_graph

GRAPH = nx.connected_watts_strogatz_graph(16, 4, 0.3, seed=1)


def write_json(graph, path):
    path.write_text(json.dumps(nx.node_link_data(graph, edges="edges")))


def write_old_json(graph, path):
    path.write_text(json.dumps(nx.node_link_data(graph, edges="links")))


def write_adjacency(graph, path):
    path.write_text(json.dumps(nx.adjacency_data(graph)))


WRITERS = {
    "a.edgelist": nx.write_edgelist,
    "a.txt": lambda graph, path: nx.write_edgelist(graph, path, data=False),
    "a.csv": lambda graph, path: nx.write_edgelist(graph, path, data=False, delimiter=","),
    "a.adjlist": nx.write_adjlist,
    "a.graphml": nx.write_graphml,
    "a.gml": nx.write_gml,
    "a.g6": nx.write_graph6,
    "a.json": write_json,
    "old.json": write_old_json,
    "adjacency.json": write_adjacency,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_graph(tmp_path, name):
    WRITERS[name](GRAPH, tmp_path / name)
    found = nx.relabel_nodes(read_graph(tmp_path / name), int)
    assert {frozenset(edge) for edge in found.edges} == {frozenset(edge) for edge in GRAPH.edges}


def test_every_format_is_tried_above():
    assert {"." + name.rpartition(".")[2] for name in WRITERS} == set(FORMATS)


def test_weights_in_an_edge_list_are_passed_over(tmp_path):
    path = tmp_path / "a.edgelist"
    path.write_text("# a comment\na b 0.5\nb c 1.5\n")
    assert sorted(map(sorted, read_graph(path).edges)) == [["a", "b"], ["b", "c"]]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "a, b\nb ,c\n"),
        ("a.csv", "source,target,weight\na,b,1\nb,c,2\n"),
        ("a.csv", '"a","b"\n"b","c"\n'),
        ("a.csv", "From,To\r\na,b\r\nb,c\r\n,\r\n"),
        ("A.TXT", "a\tb  # a comment\n\nb\tc\n"),
        ("a.edgelist", "\ufeffa b\nb c\nb a\n"),
    ],
)
def test_edge_lists_as_other_programs_write_them(tmp_path, name, text):
    (tmp_path / name).write_bytes(text.encode())
    assert sorted(map(sorted, read_graph(tmp_path / name).edges)) == [["a", "b"], ["b", "c"]]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "id_1,id_2\n1,2\n2,3\n"),
        ("a.csv", "# of a table\nsource,target\n1,2\n2,3\n"),
        ("a.txt", "node_a node_b weight\n1 2 0.5\n2 3 0.5\n"),
        ("a.txt", "% sym unweighted\n% 2 3 3\n1 2\n2 3\n"),
    ],
)
def test_names_of_columns_are_no_edge(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert sorted(read_graph(tmp_path / name).edges) == [("1", "2"), ("2", "3")]


@pytest.mark.parametrize("text", ["a,b\n", "a,b\n1,a\n", "a,1\n1,2\n"])
def test_a_first_edge_that_may_be_one_is_kept(tmp_path, text):
    (tmp_path / "a.csv").write_text(text)
    assert read_graph(tmp_path / "a.csv").number_of_edges() == len(text.split())


@pytest.fixture
def file(tmp_path):
    nx.write_edgelist(GRAPH, tmp_path / "graph.edgelist")
    return str(tmp_path / "graph.edgelist")


def test_it_prints_both_tables(file, capsys):
    assert main(["predict", file, "--source", "3"]) == 0
    out, err = capsys.readouterr()
    assert re.match(r"multitask/released/pna/16, seed \d+: a graph of 16 nodes and 32 edges\n", out)
    assert "path from 3" in out
    assert err == ""


def test_as_json(file, capsys):
    assert main(["predict", file, "--json", "--cell", "multitask/described/gat/16"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["cell"] == "multitask/described/gat/16"
    assert facts["true"]["diameter"] == nx.diameter(GRAPH)
    assert sorted(map(int, facts["nodes"])) == list(range(16))
    assert {len(facts["predicted"][name]) for name in ("sssp", "eccentricity", "laplacian")} == {16}


def test_a_graph_outside_the_training_is_said(tmp_path, capsys):
    nx.write_graph6(nx.petersen_graph(), tmp_path / "petersen.g6")
    assert main(["predict", str(tmp_path / "petersen.g6")]) == 0
    assert "Beware: the graph has 10 nodes" in capsys.readouterr().out
    assert main(["predict", str(tmp_path / "petersen.g6"), "--json", "--source", "9"]) == 0
    out, err = capsys.readouterr()
    assert err.startswith("pna predict: the graph has 10 nodes")
    assert json.loads(out)["source"] == 9


def test_another_depth(tmp_path, capsys):
    """The same up to the size of training; on a larger graph what is said depends on it."""
    nx.write_graph6(nx.path_graph(40), tmp_path / "path.g6")
    said = {}
    for depth in ([], ["--depth", "cap"], ["--depth", "12"], ["--depth", "N/2"]):
        assert main(["predict", str(tmp_path / "path.g6"), "--json", *depth]) == 0
        out, err = capsys.readouterr()
        said[" ".join(depth)] = json.loads(out)["predicted"]
        assert ("its layers stay at most 12" in err) == (depth in ([], ["--depth", "cap"]))
    usual, capped, twelve, papers = said.values()
    assert usual == capped == twelve != papers
    assert main(["predict", str(tmp_path / "path.g6"), "--depth", "deep"]) == 2
    assert "depth must be one of N/2, " in capsys.readouterr().err


def test_of_a_large_graph_it_says_beforehand_that_it_takes_long(file, capsys, monkeypatch):
    for largest, said in ((16, False), (15, True)):
        monkeypatch.setattr("pna.pretrained.command.LARGE", largest)
        assert main(["predict", str(file), "--depth", "N/2"]) == 0
        err = capsys.readouterr().err
        assert (
            err.startswith("pna predict: a graph of 16 nodes may take a minute")
            == err.endswith("(depth: N/2)\n")
            == said
        )


def test_list(capsys):
    assert main(["predict", "--list"]) == 0
    assert capsys.readouterr().out.split() == names()


# ---- bad input ----


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.png", "", "must end in one of .edgelist"),
        ("a", "", "must end in one of .edgelist"),
        ("a.edgelist", "", "from 2 to 4,096 nodes, got 0"),
        ("a.edgelist", "1 1\n2 3\n", "graph must have no loops"),
        ("a.edgelist", "1 2\n3\n", "line 2 must hold two nodes, got '3'"),
        ("a.csv", "1;2\n2;3\n", "line 1 must hold two nodes with a comma between them, got '1;2'"),
        ("a.graphml", "<graphml", "does not hold one graph in the format of .graphml"),
        ("a.gml", "graph [ node", "does not hold one graph in the format of .gml"),
        ("a.gml", 'graph [ directed 1 node [ id 0 label "a" ] node [ id 1 label "b" ] ]', "must be undirected"),
        ("a.json", "{}", "format of .json: networkx's node-link data or adjacency data are wanted"),
        ("a.json", "[1, 2]", "format of .json: networkx's node-link data or adjacency data are wanted"),
        ("a.json", "no", "does not hold one graph in the format of .json"),
        ("a.g6", "Bw\nBw\n", "must hold one graph, got several"),
        ("a.g6", "\x01", "does not hold one graph in the format of .g6"),
    ],
)
def test_a_file_that_holds_no_such_graph_is_told_in_words(tmp_path, capsys, name, text, words):
    (tmp_path / name).write_text(text)
    assert main(["predict", str(tmp_path / name)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("pna predict: ")
    assert words in err


def test_a_file_that_is_not_there_or_not_text(tmp_path, capsys):
    assert main(["predict", str(tmp_path / "a.edgelist")]) == 2
    assert "a.edgelist cannot be read: No such file" in capsys.readouterr().err
    (tmp_path / "b.edgelist").write_bytes(b"\xff\xfe\x00\x80 \x81\n")
    assert main(["predict", str(tmp_path / "b.edgelist")]) == 2
    assert "b.edgelist does not hold one graph" in capsys.readouterr().err
    (tmp_path / "c.edgelist").mkdir()
    assert main(["predict", str(tmp_path / "c.edgelist")]) == 2
    assert "c.edgelist cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--cell", "multitask/released/pna/61"], 2, "name near it: multitask/released/pna/16"),
        (["--cell", "multitask/released/pna/64"], 4, "no weights of multitask/released/pna/64 are here"),
        (["--cell", "x"], 2, "got 'x'; python -m pna predict --list names the "),
        (["--source", "99"], 2, "source must be a node of the graph"),
        (["--seed", "99"], 2, "seed must be one of 100, 101"),
    ],
)
def test_other_bad_values(file, capsys, options, code, words):
    assert main(["predict", file, *options]) == code
    assert words in capsys.readouterr().err


def test_a_network_of_molecules_is_not_asked_about_a_graph(file, shelf, capsys):
    run = shelf.run("zinc/released/pna/edges")
    shelf.put(run, run.shipped, [0])
    assert main(["predict", file, "--cell", "zinc/released/pna/edges"]) == 2
    assert "takes an .npz with x, edge_index and edge_attr, or --smiles" in capsys.readouterr().err


def test_a_file_is_needed():
    with pytest.raises(SystemExit) as stop:
        main(["predict"])
    assert stop.value.code == 2


@pytest.mark.parametrize("write", [write_json, write_old_json, write_adjacency])
def test_json_that_does_not_say_what_it_is_is_a_simple_graph(write, tmp_path):
    """networkx would take it for a multigraph."""
    write(GRAPH, path := tmp_path / "a.json")
    facts = json.loads(path.read_text())
    path.write_text(
        json.dumps({name: value for name, value in facts.items() if name not in ("multigraph", "directed")})
    )
    found = read_graph(path)
    assert not found.is_multigraph()
    assert nx.utils.graphs_equal(nx.Graph(found.edges), nx.Graph(GRAPH.edges))


def test_a_table_may_name_its_columns_anywhere(tmp_path):
    (path := tmp_path / "a.csv").write_text("weight,Source,Target\n0.5,a,b\n0.7,b,c\n")
    assert set(read_graph(path).edges) == {("a", "b"), ("b", "c")}


def test_an_adjacency_list_is_not_taken_for_edges(tmp_path):
    (path := tmp_path / "a.txt").write_text("0 1 2 3\n1 2\n")
    with pytest.raises(ValueError, match=r"line 1 must hold two nodes; an adjacency list is to be named .adjlist"):
        read_graph(path)
    path.write_text("0 1 7\n1 2 5\n")  # weights
    assert set(read_graph(path).edges) == {("0", "1"), ("1", "2")}


# ---- files of strangers ----


def test_pipes_and_endless_devices_are_not_waited_for(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe.edgelist")
    (tmp_path / "endless.json").symlink_to("/dev/zero")
    for name in ("pipe.edgelist", "endless.json"):
        assert main(["predict", str(tmp_path / name)]) == 2
        assert "cannot be read: it is not a regular file" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "[" * 10**5,
        '{"nodes": [{"id": NaN}, {"id": NaN}], "edges": [{"source": NaN, "target": NaN}]}',
        '{"nodes": [{"id": Infinity}], "edges": []}',
    ],
)
def test_json_that_is_too_deep_or_has_no_numbers_is_refused_in_a_line(tmp_path, capsys, text):
    (path := tmp_path / "a.json").write_text(text)
    assert main(["predict", str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "does not hold one graph in the format of .json" in line


def test_nodes_that_do_not_equal_themselves_are_refused():
    graph = nx.Graph([(float("nan"), 1), (float("nan"), 2), (1, 2)])
    with pytest.raises(ValueError, match="nodes that equal themselves, got nan"):
        one_graph(graph, None, None)


def test_names_do_not_reach_the_terminal_as_commands(tmp_path, capsys):
    """An edge list cuts names at blanks; a table and JSON keep them."""
    name = "\x1b]0;title\x07\x1b[2J\u202eevil"
    (path := tmp_path / "a.json").write_text(
        json.dumps(nx.node_link_data(nx.relabel_nodes(nx.path_graph(16), {0: name}), edges="edges"))
    )
    assert main(["predict", str(path)]) == 0
    out = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\u202e"} & set(out)
    assert r"\x1b]0;title\x07\x1b[2J\u202eevil" in out
