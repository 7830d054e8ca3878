"""Two specifications of the benchmark: as the paper describes it, and as the authors' released code makes it.

What the paper leaves open follows the released code under both specifications:

- shortest-path lengths are 0 for the nodes that the source does not reach,
- the eccentricity of a node is taken over the nodes that it reaches, and the diameter is the largest of them,
- a graph with an isolated node is drawn again with the same family (and new parameters),
- "sizes 15 to 25" leaves out the upper end, as a range does: 15, 16, ..., 24,
- with an odd number of nodes a ladder has one node more, hung on node 0; N = mk "as close as possible" makes of a
  prime N a line (grid) or one clique (caveman).
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Literal, Self, get_args

from pna.departures import DEPARTURES, departures_of

__all__ = ["DESCRIBED", "RELEASED", "Spec"]

Side = Literal["described", "released"]

_FIELDS = {departure.id: departure.field for departure in DEPARTURES if departure.part == "data"}  # D1 to D4


@dataclass(frozen=True)
class Spec:
    """A specification of the data: for each departure "described" or "released", in any mix."""

    connected: Side = "described"
    toggling: Side = "described"
    evaluation_sizes: Side = "described"
    extrapolation_validation: Side = "described"

    def __post_init__(self) -> None:
        for field in fields(self):
            side = getattr(self, field.name)
            if side not in get_args(Side):
                raise ValueError(f"{field.name} must be 'described' or 'released', got {side!r}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse "described", "released", or the departures to take, as in "D1+D3"."""
        return cls.of(departures_of(text, tuple(_FIELDS)))

    @classmethod
    def of(cls, departures: Iterable[str]) -> Self:
        """Build a specification from departures; those that do not concern the data are ignored."""
        return cls(**{_FIELDS[id]: "released" for id in departures if id in _FIELDS})

    def __str__(self) -> str:
        taken = [id for id, field in _FIELDS.items() if getattr(self, field) == "released"]
        return {0: "described", len(_FIELDS): "released"}.get(len(taken), "+".join(taken))


DESCRIBED = Spec()
RELEASED = Spec.parse("released")
