"""ZINC's label, the penalised logP: y = a logP - b SA - c cycle + d, normalised. It needs RDKit.

logP is Crippen's, SA the score of synthetic accessibility that RDKit contributes, and cycle the length beyond six of
the longest cycle of a basis: that of the depth-first spanning tree, not RDKit's smallest rings, which give another
value for one molecule in two hundred. The four constants were fitted to the 2,000 official labels of validation and
test set.
"""

import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType

__all__ = ["CONSTANTS", "longest_cycle", "penalised_logp"]

CONSTANTS = (0.6976317998192963, -1.1981676000973294, -3.4751391383253534, 2.111829975656568)


def penalised_logp(smiles: str) -> float:
    """The label of a molecule."""
    from rdkit import Chem
    from rdkit.Chem.Crippen import MolLogP

    mol = Chem.MolFromSmiles(smiles)
    neighbours = [sorted(atom.GetIdx() for atom in atom.GetNeighbors()) for atom in mol.GetAtoms()]
    a, b, c, d = CONSTANTS
    return a * MolLogP(mol) + b * _sascorer().calculateScore(mol) + c * max(0, longest_cycle(neighbours) - 6) + d


def longest_cycle(neighbours: Sequence[Sequence[int]]) -> int:
    """The longest cycle of a spanning tree's basis: depth-first from the lowest node, neighbours ascending; 0 if none.

    Paton's algorithm (1969), as networkx had it: a node's neighbours that are not in the tree yet are all hung below it
    and put on the stack, and an edge to a node met before closes a cycle through their common ancestors.
    """
    longest, seen = 0, set()
    for root in range(len(neighbours)):
        if root in seen:
            continue
        parent, used, stack = {root: root}, {root: set()}, [root]
        while stack:
            node = stack.pop()
            for other in neighbours[node]:
                if other not in used:
                    parent[other], used[other] = node, {node}
                    stack.append(other)
                elif other not in used[node]:
                    length, step = 2, parent[node]
                    while step not in used[other]:
                        length, step = length + 1, parent[step]
                    longest = max(longest, length + 1)
                    used[other].add(node)
        seen |= parent.keys()
    return longest


@cache
def _sascorer() -> ModuleType:
    """RDKit's contributed module, which lies beside the package rather than in it."""
    from rdkit.Chem import RDConfig

    folder = str(Path(RDConfig.RDContribDir) / "SA_Score")
    if folder not in sys.path:
        sys.path.append(folder)
    import sascorer

    return sascorer
