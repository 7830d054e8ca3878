"""Molecules as graphs, from their SMILES: ZINC's 28 atom types and 3 bond types, MolHIV's features of ogb.

RDKit and ogb are imported when a molecule is read, so that prepared data sets can be used without them.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pna.realworld.data.graphs import Graph, sort_by_target

if TYPE_CHECKING:
    from rdkit.Chem import Atom, Bond, Mol

__all__ = ["ATOM_TYPES", "BOND_TYPES", "molhiv_graph", "read_molecule", "zinc_graph"]

# The dictionary of the Benchmarking GNNs v1 data: element, explicit hydrogens, sign of the charge.
ATOM_TYPES = (
    *("C", "O", "N", "F", "C H1", "S", "Cl", "O -", "N H1 +", "Br", "N H3 +", "N H2 +", "N +", "N -", "S -", "I", "P"),
    *("O H1 +", "N H1 -", "O +", "S +", "P H1", "P H2", "C H2 -", "P +", "S H1 +", "C H1 -", "P H1 +"),
)
BOND_TYPES = ("NONE", "SINGLE", "DOUBLE", "TRIPLE")  # 0 stands for no edge


def zinc_graph(row: tuple[str, float]) -> Graph:
    """Read ZINC's graph from (SMILES, label): one atom type per node, the kekulised bond type per edge."""
    from rdkit import Chem

    smiles, y = row
    mol = Chem.MolFromSmiles(smiles)
    if mol is None:
        raise ValueError(f"RDKit cannot read the SMILES {smiles!r}")
    Chem.Kekulize(mol, clearAromaticFlags=True)
    x = np.array([[_atom_type(atom, smiles)] for atom in mol.GetAtoms()], dtype=np.uint8)
    bonds = [[_bond_type(bond, smiles)] for bond in mol.GetBonds()]
    return _graph(mol, x, np.array(bonds, dtype=np.uint8).reshape(-1, 1), y)


def _atom_type(atom: "Atom", smiles: str) -> int:
    """The atom's place in ATOM_TYPES. A neutral nitrogen's hydrogens do not count, as in pyrrole's [nH]."""
    charge, hydrogens = atom.GetFormalCharge(), atom.GetNumExplicitHs()
    if atom.GetSymbol() == "N" and charge == 0:
        hydrogens = 0
    parts = [atom.GetSymbol()]
    parts += [f"H{hydrogens}"] * (hydrogens > 0)
    parts += ["+" if charge > 0 else "-"] * (charge != 0)
    name = " ".join(parts)
    if name not in ATOM_TYPES:
        raise ValueError(f"atom type must be one of ZINC's {len(ATOM_TYPES)}, got {name!r} in {smiles!r}")
    return ATOM_TYPES.index(name)


def _bond_type(bond: "Bond", smiles: str) -> int:
    """The bond's place in BOND_TYPES."""
    name = bond.GetBondType().name
    if name not in BOND_TYPES[1:]:
        raise ValueError(f"bond type must be one of {', '.join(BOND_TYPES[1:])}, got {name} in {smiles!r}")
    return BOND_TYPES.index(name)


def molhiv_graph(row: tuple[str, float]) -> Graph:
    """Read MolHIV's graph from (SMILES, label): ogb's nine features per node and three per edge."""
    from ogb.utils.features import atom_to_feature_vector, bond_to_feature_vector

    smiles, y = row
    mol = read_molecule(smiles)
    x = np.array([atom_to_feature_vector(atom) for atom in mol.GetAtoms()], dtype=np.uint8)
    bonds = [bond_to_feature_vector(bond) for bond in mol.GetBonds()]
    return _graph(mol, x, np.array(bonds, dtype=np.uint8).reshape(-1, 3), y)


def read_molecule(smiles: str) -> "Mol":
    """Read a molecule, without a check of its valences where they are not RDKit's (seven of MolHIV's)."""
    from rdkit import Chem, RDLogger

    RDLogger.DisableLog("rdApp.*")  # RDKit writes a warning for each of those
    mol = Chem.MolFromSmiles(smiles)
    if mol is None:
        mol = Chem.MolFromSmiles(smiles, sanitize=False)
        if mol is None:
            raise ValueError(f"RDKit cannot read the SMILES {smiles!r}")
        mol.UpdatePropertyCache(strict=False)
        Chem.SanitizeMol(mol, Chem.SANITIZE_ALL ^ Chem.SANITIZE_PROPERTIES)
    return mol


def _graph(mol: "Mol", x: NDArray, bonds: NDArray, y: float) -> Graph:
    """Build a graph from a molecule: each bond is two edges, one in each direction."""
    ends = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in mol.GetBonds()]
    pairs = np.array(ends, dtype=np.int64).reshape(-1, 2)
    edges = np.concatenate([pairs, pairs[:, ::-1]]).T  # [2, m]
    degree, source, order = sort_by_target(edges, len(x))
    return Graph(x, degree, source, np.concatenate([bonds, bonds])[order], y)
