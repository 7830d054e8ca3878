"""Two specifications of the networks: as the paper describes them, and as the authors' released code makes them."""

from dataclasses import dataclass

__all__ = ["DESCRIBED", "RELEASED", "NetworkSpec"]


@dataclass(frozen=True)
class NetworkSpec:
    """Which of the released code's departures a network has; any mix is a specification.

    Two more than the numbered ones are switches, since the paper says nothing of them and they change the results: the
    initialisation, and a LeakyReLU after the last layer of both heads. Where the labels may be negative, as the
    Laplacian features are, such an output can come to lie on the LeakyReLU's flat side, where gradients are small.
    """

    swapped_extremes: bool = False  # D5: max and min aggregate M(x_j, x_i), the two roles swapped
    mispaired_attention: bool = False  # D6: GAT's logits pair the wrong nodes and are normalised over receivers
    position_norm: bool = False  # D7: batch normalisation over node positions where N equals the number of features
    small_initialisation: bool = False  # every fully-connected layer starts Xavier-uniform with gain 1/in, zero bias
    activated_outputs: bool = False  # LeakyReLU after the last layer of the heads as well


DESCRIBED = NetworkSpec()
RELEASED = NetworkSpec(
    swapped_extremes=True,
    mispaired_attention=True,
    position_norm=True,
    small_initialisation=True,
    activated_outputs=True,
)
