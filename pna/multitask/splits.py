"""The splits of the paper's data sets: sizes, counts and families, as a function of the specification.

Sections 4 and 5.1 of the paper, its appendix H, and departures D3 and D4.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Self

from pna.multitask.families import FAMILIES, family_named
from pna.multitask.generate import ROLES, check_size
from pna.multitask.real import GROUPS, RealSplit
from pna.multitask.specification import Spec

__all__ = ["COLLECTIONS", "Split", "extrapolation", "families", "multitask", "multitask_all_sizes", "real"]
__all__ += ["real_subgraphs", "redrawn"]


@dataclass(frozen=True)
class Split:
    """A split of `per_size` graphs of each of `sizes`, ordered by size, from one family or, with None, the mixture.

    Splits of different roles share no graph. Two of the same role have the same graphs of a size, as far as the
    shorter one goes, unless they begin at different numbers: `first` is the number of the first graph of each size.
    """

    name: str
    role: str
    sizes: tuple[int, ...]
    per_size: int
    family: str | None = None
    first: int = 0

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise ValueError(f"role must be one of {', '.join(ROLES)}; got {self.role!r}")
        object.__setattr__(self, "sizes", tuple(self.sizes))
        if not self.sizes:
            raise ValueError("sizes must name at least one number of nodes, got none")
        if len(set(self.sizes)) < len(self.sizes):
            raise ValueError(f"sizes must differ from each other, got {self.sizes}")
        if isinstance(self.per_size, bool) or not isinstance(self.per_size, int) or self.per_size < 1:
            raise ValueError(f"per_size must be a positive integer, got {self.per_size!r}")
        if isinstance(self.first, bool) or not isinstance(self.first, int) or self.first < 0:
            raise ValueError(f"first must be an integer from 0 on, got {self.first!r}")
        for N in self.sizes:
            check_size(N)
            for family in [family_named(self.family)] if self.family is not None else FAMILIES:
                family.check_size(N)
        object.__setattr__(self, "sizes", tuple(map(int, self.sizes)))  # numpy's integers are not JSON's

    def __len__(self) -> int:
        return len(self.sizes) * self.per_size

    def locate(self, index: int) -> tuple[int, int]:
        """The size of the index-th graph and its number among the graphs of that size."""
        if not 0 <= index < len(self):
            raise IndexError(f"index must be from 0 to {len(self) - 1}, got {index}")
        return self.sizes[index // self.per_size], self.first + index % self.per_size

    def thinned(self, step: int, divisor: int) -> Self:
        """Every `step`-th size, with at least two graphs and otherwise 1 / `divisor` of the graphs of each."""
        return replace(self, sizes=self.sizes[::step], per_size=max(2, self.per_size // divisor))


_TRAIN = Split("train", "train", tuple(range(15, 25)), 512)


def _evaluation(spec: Spec, role: str, graphs: int, family: str | None = None) -> Split:
    """A validation or test split (D3): `graphs` graphs of the training sizes, or of the first five of them."""
    sizes = _TRAIN.sizes if spec.evaluation_sizes == "described" else _TRAIN.sizes[:5]
    return Split(family or role, role, sizes, graphs // len(sizes), family)


@cache  # every cell of every figure asks for them
def multitask(spec: Spec) -> tuple[Split, ...]:
    """Splits of section 5.1: 5,120 graphs to train on, 640 to validate on and 1,280 to test on."""
    return _TRAIN, _evaluation(spec, "validation", 640), _evaluation(spec, "test", 1280)


@cache
def multitask_all_sizes(spec: Spec) -> tuple[Split, ...]:
    """Splits that test on the training sizes, 15 to 24, whatever D3 says: those of the published numbers."""
    return _TRAIN, _evaluation(replace(spec, evaluation_sizes="described"), "test", 1280)


@cache
def extrapolation(spec: Spec) -> tuple[Split, ...]:
    """Splits of section 5.1's last paragraph: validation on 25 to 29 nodes (D4: 15 to 19), tests on ever larger graphs.

    The paper shows the tests from 20 to 50 nodes; the three larger ones are the released code's.
    """
    first = 25 if spec.extrapolation_validation == "described" else 15
    validation = Split("validation", "validation", tuple(range(first, first + 5)), 128)
    starts = (20, 25, 30, 35, 40, 45, 60, 75, 95)
    tests = (Split(f"test_{start}_{start + 5}", "test", tuple(range(start, start + 5)), 256) for start in starts)
    return _TRAIN, validation, *tests


@cache
def families(spec: Spec) -> tuple[Split, ...]:
    """Splits of appendix H, "Graph type experiments": training on the mixture, tests on each family alone."""
    tests = (_evaluation(spec, "test", 1280, family.name) for family in FAMILIES)
    return _TRAIN, _evaluation(spec, "validation", 640), *tests


REDRAWS, APART = 5, 1_024  # test sets, and how far apart the numbers of their first graphs are


@cache
def redrawn(spec: Spec) -> tuple[Split, ...]:
    """Five more test sets of 1,280 graphs of 15 to 24 nodes: how much does the draw of the test graphs matter?"""
    test = multitask_all_sizes(spec)[-1]
    return _TRAIN, *(replace(test, name=f"test_{k}", first=k * APART) for k in range(1, REDRAWS + 1))


@cache
def real(spec: Spec) -> tuple[Split | RealSplit, ...]:
    """Beyond the paper: real networks of 15 to 100 nodes, and subgraphs of larger ones, group by group."""
    return _TRAIN, *(RealSplit(group, "test", group) for group in GROUPS if group not in ROLES)


@cache
def real_subgraphs(spec: Spec) -> tuple[RealSplit, ...]:
    """Beyond the paper: subgraphs of real networks to train and to validate on, of 15 to 24 nodes."""
    return RealSplit("train", "train", "train"), RealSplit("validation", "validation", "validation")


COLLECTIONS: dict[str, Callable[[Spec], tuple[Split | RealSplit, ...]]] = {
    "multitask": multitask,
    "multitask-15-24": multitask_all_sizes,
    "extrapolation": extrapolation,
    "families": families,
    "redrawn": redrawn,
    "real": real,
    "real-subgraphs": real_subgraphs,
}
