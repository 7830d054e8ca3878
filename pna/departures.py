"""Every place where the released code departs from the paper: one table, from which all switches come.

A specification is a choice among these departures. `described` has none of them: the paper as it is written. `released`
has all: the code that the published numbers come from. D1 to D16 are numbered as in the comparison with the released
code. Two more, on which the paper is silent but which change the results, have a word for a name.
"""

from dataclasses import dataclass
from typing import Literal

__all__ = ["DEPARTURES", "SPECS", "SWITCHES", "Departure", "departures_of"]

SPECS = ("described", "released")

_EXTREMES = ("pna", "pna-no-scalers", "mpnn-max", "mean-max-min")
_SCALED = ("pna", "pna-soft", *(f"moments-{n}" for n in range(1, 6)))
_ODD_MOMENTS = ("moments-3", "moments-4", "moments-5")


@dataclass(frozen=True)
class Departure:
    """One place where the released code departs from the paper, and its switch.

    `part` says what it changes: the data, the networks, their training or the baseline. "protocol" is how settings are
    chosen, and has no switch; nor has "none", which changes nothing that is computed here. A departure concerns all
    models and all trainings, or only those that it names.
    """

    id: str
    part: Literal["data", "network", "training", "baseline", "protocol", "none"]
    field: str
    described: str
    released: str
    models: tuple[str, ...] | None = None
    trainings: tuple[str, ...] | None = None

    def touches(self, training: str, model: str) -> bool:
        """Whether this departure changes a model of a training."""
        return (
            self.part in ("data", "network", "training")
            and (self.models is None or model in self.models)
            and (self.trainings is None or training in self.trainings)
        )


DEPARTURES: tuple[Departure, ...] = (
    Departure(
        "D1",
        "data",
        "connected",
        "the label says whether the graph is connected",
        "the label says whether some power of the adjacency matrix is positive: connected and not bipartite",
    ),
    Departure(
        "D2",
        "data",
        "toggling",
        "an edge is toggled with probability P_e, a missing edge with P_m",
        "the sum of two U[0, 1/2] draws is compared with a probability, which makes toggling much rarer",
    ),
    Departure(
        "D3",
        "data",
        "evaluation_sizes",
        "validation and test graphs have the training graphs' sizes, 15 to 24",
        "validation and test graphs have the first five of these sizes, 15 to 19",
        trainings=(
            *("multitask", "standard", "single-task", "no-gru", "mean-readout"),
            *("tuned", "dropout-tuning", "tuned-dropout"),
        ),
    ),
    Departure(
        "D4",
        "data",
        "extrapolation_validation",
        "extrapolation is validated on sizes 25 to 29",
        "extrapolation is validated on sizes 15 to 19",
        trainings=("extrapolation", "depth-diameter", "depth-convergence", "depth-varied"),
    ),
    Departure(
        "D5",
        "network",
        "swapped_extremes",
        "max and min aggregate M(x_i, x_j) over j",
        "max and min aggregate M(x_j, x_i), the two roles swapped",
        models=_EXTREMES,
    ),
    Departure(
        "D6",
        "network",
        "mispaired_attention",
        "GAT's attention is over the neighbours j of i, on the pair (x_i, x_j)",
        "GAT's logits pair the wrong nodes and are normalised over receivers",
        models=("gat",),
    ),
    Departure(
        "D7",
        "network",
        "position_norm",
        "batch normalisation is over features",
        "batch normalisation in GIN is over node positions where N equals the number of features",
        models=("gin",),
    ),
    Departure(
        "D8",
        "none",
        "",
        "std with self-loops has their mean",
        "the mean inside the variance drops the self-loops, which the paper's networks do not have",
    ),
    Departure("D9", "none", "", "moments are of a node", "in a file that made no published number, of the whole batch"),
    Departure("D10", "none", "", "softmax is finite", "exponents are taken as they are: above 88, float32 overflows"),
    Departure(
        "D11",
        "network",
        "batched_delta",
        "δ is the mean of log(d + 1) over the training set's nodes",
        "δ is the mean of the training batches' means, each batch of another size",
        models=_SCALED,
    ),
    Departure(
        "D12",
        "network",
        "centred_once",
        "an odd moment of two neighbours is 0",
        "messages are centred once, and rounding makes it 0 or ±ε^(1/n), by chance",
        models=_ODD_MOMENTS,
    ),
    Departure(
        "D13",
        "training",
        "infinite_validation",
        "nothing is said of a validation loss that is not finite; here it ends a run",
        "it is an epoch without improvement, and the run goes on",
    ),
    Departure(
        "D14",
        "baseline",
        "batched_mean",
        "the baseline predicts the training set's mean label",
        "the baseline predicts the mean of the training batches' means, each batch of another size",
    ),
    Departure(
        "D15",
        "protocol",
        "",
        "hyper-parameters are tuned on the validation set, and the ten runs have values close to the tuned ones",
        "one setting for every model and run, and no code that tunes; the recorded runs here have that setting, too",
    ),
    Departure(
        "D16",
        "none",
        "",
        "nothing is said of the loss that the first epochs are compared with",
        "it is 10,001: a run whose validation loss stays above it for 1,000 epochs ends without weights",
    ),
    Departure(
        "init",
        "network",
        "small_initialisation",
        "nothing is said of the initialisation; here it is torch's",
        "every fully-connected layer starts Xavier-uniform with gain 1/in, with a bias of zero",
    ),
    Departure(
        "outputs",
        "network",
        "activated_outputs",
        "nothing is said of an activation of the outputs; here there is none",
        "a LeakyReLU follows the last layer of both heads",
    ),
)

SWITCHES: tuple[str, ...] = tuple(d.id for d in DEPARTURES if d.part not in ("protocol", "none"))


def departures_of(spec: str, among: tuple[str, ...] = SWITCHES) -> tuple[str, ...]:
    """The departures of a specification, in the table's order.

    It is named described, released, departures joined by + as in D1+D5, or released less some, as in released-D11.
    """
    base, *less = spec.split("-")
    named = {"described": [], "released": list(among)}.get(base, base.split("+"))
    if unknown := [name for name in (*named, *less) if name not in among]:
        raise ValueError(
            f"spec must be described, released, released less departures (released-{among[0]}) or departures joined by "
            f"+ ({'+'.join(among[:2])}), out of {', '.join(among)}; got {', '.join(map(repr, unknown))}"
            + (f" in {spec!r}" if [spec] != unknown else "")
        )
    if less and base != "released":
        raise ValueError(f"spec may leave departures out of released alone, as released-{among[0]}; got {spec!r}")
    return tuple(name for name in among if name in named and name not in less)
