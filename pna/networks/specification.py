"""Two specifications of the networks: as the paper describes them, and as the authors' released code builds them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from pna.departures import DEPARTURES, SWITCHES

__all__ = ["DESCRIBED", "RELEASED", "NetworkSpec"]

_FIELDS = {departure.id: departure.field for departure in DEPARTURES if departure.part == "network"}


@dataclass(frozen=True)
class NetworkSpec:
    """Which of the released code's departures a network has (see pna.departures); any mix is a specification.

    Where labels may be negative, as the Laplacian features are, an activated output can end up on the LeakyReLU's flat
    side, where gradients are small.
    """

    swapped_extremes: bool = False  # D5
    mispaired_attention: bool = False  # D6
    position_norm: bool = False  # D7
    batched_delta: bool = False  # D11: applied where δ is computed, from the training set
    centred_once: bool = False  # D12
    small_initialisation: bool = False
    activated_outputs: bool = False

    @classmethod
    def of(cls, departures: Iterable[str]) -> Self:
        """The specification with these departures; those that do not concern the networks are ignored."""
        return cls(**{_FIELDS[id]: True for id in departures if id in _FIELDS})


DESCRIBED = NetworkSpec()
RELEASED = NetworkSpec.of(SWITCHES)
