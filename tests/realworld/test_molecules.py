"""Molecules as graphs, beside ogb's own conversion and networkx's cycles."""

import networkx
import numpy as np
import pytest

from pna.realworld.data.molecules import ATOM_TYPES, BOND_TYPES, molhiv_graph, read_molecule, zinc_graph
from tests.realworld.penalised_logp import longest_cycle, penalised_logp

Chem = pytest.importorskip("rdkit.Chem")

SMILES = [
    "CCO",
    "c1ccccc1",
    "C[C@H](N)C(=O)[O-]",
    "c1ccc2[nH]ccc2c1",
    "C[NH+](C)CC#N",
    "O=S(=O)(Cl)c1ccc(Br)cc1",
    "[NH3+]CC(=O)N1CCC(F)(F)C1",
    "C",
    "[Na+].[Cl-]",
]


def edges(graph):
    target = np.repeat(np.arange(len(graph.x)), graph.degree)
    return {(int(j), int(i)): tuple(e) for j, i, e in zip(graph.source, target, graph.edge.tolist(), strict=True)}


@pytest.mark.parametrize("smiles", SMILES)
def test_molhiv_is_ogbs_graph(smiles):
    theirs = pytest.importorskip("ogb.utils").smiles2graph(smiles)
    ours = molhiv_graph((smiles, 1.0))
    assert ours.x.tolist() == theirs["node_feat"].tolist()
    pairs = map(tuple, theirs["edge_index"].T.tolist())
    assert edges(ours) == dict(zip(pairs, map(tuple, theirs["edge_feat"].tolist()), strict=True))


def test_a_molecule_that_rdkit_will_not_sanitise_is_read_whole():
    smiles = "CC1=[O+][Cu-3]2([O+]=C(C)C1)[O+]=C(C)CC(C)=[O+]2N(C)(C)(C)(C)C"
    assert Chem.MolFromSmiles(smiles) is None
    mol = read_molecule(smiles)
    raw = Chem.MolFromSmiles(smiles, sanitize=False)
    assert (mol.GetNumAtoms(), mol.GetNumBonds()) == (raw.GetNumAtoms(), raw.GetNumBonds())
    assert len(molhiv_graph((smiles, 0.0)).x) == mol.GetNumAtoms()


@pytest.mark.parametrize("read", [molhiv_graph, zinc_graph])
def test_what_is_no_molecule_is_named(read):
    with pytest.raises(ValueError, match="cannot read the SMILES 'C1CC'"):
        read(("C1CC", 0.0))


def types(smiles):
    return [ATOM_TYPES[t] for t in zinc_graph((smiles, 0.0)).x[:, 0]]


def test_zincs_atom_types():
    assert len(ATOM_TYPES) == len(set(ATOM_TYPES)) == 28
    assert types("C[C@H](N)C(=O)[O-]") == ["C", "C H1", "N", "C", "O", "O -"]
    assert types("c1cc[nH]c1") == ["C", "C", "C", "N", "C"]  # the hydrogen of [nH] does not count
    assert types("C[NH+](C)C") == ["C", "N H1 +", "C", "C"]
    assert types("[NH3+]CS(=O)(=O)Cl") == ["N H3 +", "C", "S", "O", "O", "Cl"]


def test_zincs_bonds_are_kekulised():
    bonds = sorted(edge[0] for edge in edges(zinc_graph(("c1ccccc1", 0.0))).values())
    assert [BOND_TYPES[b] for b in bonds] == ["SINGLE"] * 6 + ["DOUBLE"] * 6
    assert {BOND_TYPES[e[0]] for e in edges(zinc_graph(("CC#N", 0.0))).values()} == {"SINGLE", "TRIPLE"}


def test_an_atom_that_zinc_does_not_know_is_named():
    with pytest.raises(ValueError, match="must be one of ZINC's 28, got 'Na \\+'"):
        zinc_graph(("[Na+].[Cl-]", 0.0))


@pytest.mark.parametrize(("smiles", "bond"), [("C$C", "QUADRUPLE"), ("N->C", "DATIVE")])
def test_a_bond_that_zinc_does_not_know_is_named(smiles, bond):
    with pytest.raises(ValueError, match=f"bond type must be one of SINGLE, DOUBLE, TRIPLE, got {bond}"):
        zinc_graph((smiles, 0.0))


def test_every_bond_is_two_edges():
    for smiles in SMILES[:-1]:
        bonds = edges(zinc_graph((smiles, 0.0)))
        assert all(bonds[i, j] == e for (j, i), e in bonds.items())


# ---- the label ----


def neighbours(graph):
    return [sorted(graph[v]) for v in range(len(graph))]


@pytest.mark.parametrize("n", [1, 3, 6, 7, 12])
def test_the_longest_cycle_of_a_ring(n):
    graph = networkx.cycle_graph(n) if n > 2 else networkx.path_graph(n)
    assert longest_cycle(neighbours(graph)) == (n if n > 2 else 0)


def test_the_longest_cycle_of_a_tree_and_of_two_parts():
    assert longest_cycle(neighbours(networkx.balanced_tree(2, 3))) == 0
    both = networkx.disjoint_union(networkx.cycle_graph(4), networkx.cycle_graph(9))
    assert longest_cycle(neighbours(both)) == 9


@pytest.mark.parametrize("seed", range(20))
def test_it_is_a_cycle_of_some_basis_of_networkx(seed):
    """networkx starts where it likes; from the lowest node it finds the same cycles."""
    graph = networkx.gnm_random_graph(14, 17, seed=seed)
    graph = networkx.Graph((a, b) for a in sorted(graph) for b in sorted(graph[a]))  # neighbours ascending
    relabelled = {v: k for k, v in enumerate(sorted(graph))}
    parts = [networkx.cycle_basis(graph, min(part)) for part in networkx.connected_components(graph)]
    expected = max((len(cycle) for cycles in parts for cycle in cycles), default=0)
    lists = [sorted(relabelled[w] for w in graph[v]) for v in sorted(graph)]
    assert longest_cycle(lists) == expected


def test_labels_by_hand():
    assert penalised_logp("COCc1ccc(C(=O)Oc2ccc(F)cc2)cc1") == pytest.approx(2.4657564038763278, abs=1e-6)
