"""Two specifications of the benchmark: as the paper describes it, and as the authors' released code makes it.

What the paper leaves open follows the released code under both specifications:

- shortest-path lengths are 0 for the nodes that the source does not reach,
- the eccentricity of a node is taken over the nodes that it reaches, and the diameter is the largest of them,
- a graph with an isolated node is drawn again with the same family (and new parameters),
- "sizes 15 to 25" leaves out the upper end, as a range does: 15, 16, ..., 24,
- with an odd number of nodes a ladder has one node more, hung on node 0; N = mk "as close as possible" makes of a
  prime N a line (grid) or one clique (caveman).
"""

from dataclasses import dataclass, fields
from typing import Literal, Self, get_args

__all__ = ["DEPARTURES", "DESCRIBED", "RELEASED", "Departure", "Spec"]

Side = Literal["described", "released"]


@dataclass(frozen=True)
class Departure:
    """One place where the released code is not what the paper says, and the field of Spec that decides it."""

    id: str
    field: str
    described: str
    released: str


DEPARTURES: tuple[Departure, ...] = (
    Departure(
        "D1",
        "connected",
        "the label says whether the graph is connected",
        "the label says whether some power of the adjacency matrix is positive: connected and not bipartite",
    ),
    Departure(
        "D2",
        "toggling",
        "an edge is toggled with probability P_e, a missing edge with P_m",
        "the sum of two U[0, 1/2] draws is compared with a probability, which makes toggling much rarer",
    ),
    Departure(
        "D3",
        "evaluation_sizes",
        "validation and test graphs have the training graphs' sizes, 15 to 24",
        "validation and test graphs have the first five of these sizes, 15 to 19",
    ),
    Departure(
        "D4",
        "extrapolation_validation",
        "extrapolation is validated on sizes 25 to 29",
        "extrapolation is validated on sizes 15 to 19",
    ),
)


@dataclass(frozen=True)
class Spec:
    """Which side each departure takes: "described" or "released". Any mix is a specification."""

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
        """From "described", "released", or the departures it takes over, as in "D1+D3"."""
        sides = {departure.id: departure.field for departure in DEPARTURES}
        taken = {"described": [], "released": list(sides)}.get(text, text.split("+"))
        if unknown := [id for id in taken if id not in sides]:
            raise ValueError(
                f"spec must be described, released or departures joined by + out of {', '.join(sides)}; "
                f"got {text!r}, in which {', '.join(map(repr, unknown))} is none of them"
            )
        return cls(**{sides[id]: "released" for id in taken})

    def __str__(self) -> str:
        taken = [departure.id for departure in DEPARTURES if getattr(self, departure.field) == "released"]
        return {0: "described", len(DEPARTURES): "released"}.get(len(taken), "+".join(taken))


DESCRIBED = Spec()
RELEASED = Spec.parse("released")
