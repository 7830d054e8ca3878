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
        "the label says whether some power of the adjacency matrix is positive, that is, whether the graph is "
        "connected and not bipartite",
    ),
    Departure(
        "D2",
        "data",
        "toggling",
        "each edge is removed with probability P_e, and each missing edge is added with probability P_m",
        "the sum of two draws from U[0, 1/2] is compared with the probability, so edges are toggled much less often",
    ),
    Departure(
        "D3",
        "data",
        "evaluation_sizes",
        "validation and test graphs have the training graphs' sizes, 15 to 24",
        "validation and test graphs have the first five of these sizes, 15 to 19",
        trainings=(
            *("multitask", "standard", "single-task", "no-gru", "mean-readout"),
            *("tuning", "tuned", "dropout", "dropout-tuning", "tuned-dropout"),
        ),
    ),
    Departure(
        "D4",
        "data",
        "extrapolation_validation",
        "networks for extrapolation are validated on graphs of 25 to 29 nodes",
        "networks for extrapolation are validated on graphs of 15 to 19 nodes",
        trainings=("extrapolation", "depth-diameter", "depth-convergence", "depth-varied"),
    ),
    Departure(
        "D5",
        "network",
        "swapped_extremes",
        "max and min aggregate M(x_i, x_j) over j",
        "max and min aggregate M(x_j, x_i), with the two arguments swapped",
        models=_EXTREMES,
    ),
    Departure(
        "D6",
        "network",
        "mispaired_attention",
        "GAT attends over the neighbours j of node i, and computes each logit from the pair (x_i, x_j)",
        "GAT computes its logits from the wrong pairs of nodes, and normalises them over the receivers",
        models=("gat",),
    ),
    Departure(
        "D7",
        "network",
        "position_norm",
        "batch normalisation normalises each feature",
        "in GIN, batch normalisation normalises each node position instead where N equals the number of features",
        models=("gin",),
    ),
    Departure(
        "D8",
        "none",
        "",
        "if self-loops are added, the mean inside std includes them",
        "if self-loops are added, the mean inside std leaves them out; the paper's networks add none",
    ),
    Departure(
        "D9",
        "none",
        "",
        "every node has its own moments",
        "one file, which produced no published number, computes a single moment for the whole batch",
    ),
    Departure(
        "D10",
        "none",
        "",
        "softmax is finite for all finite messages",
        "softmax exponentiates without subtracting the maximum, so that float32 overflows for messages above 88",
    ),
    Departure(
        "D11",
        "network",
        "batched_delta",
        "δ is the mean of log(d + 1) over the training set's nodes",
        "δ is the mean of the training batches' means, although the batches differ in size",
        models=_SCALED,
    ),
    Departure(
        "D12",
        "network",
        "centred_once",
        "an odd moment of two neighbours is 0",
        "messages are centred only once, so that rounding decides whether this moment is 0, ε^(1/n) or -ε^(1/n)",
        models=_ODD_MOMENTS,
    ),
    Departure(
        "D13",
        "training",
        "infinite_validation",
        "the paper does not say what follows if the validation loss is not finite; here the run ends",
        "such an epoch counts as one without improvement, and the run continues",
    ),
    Departure(
        "D14",
        "baseline",
        "batched_mean",
        "the baseline predicts the training set's mean label",
        "the baseline predicts the mean of the training batches' means, although the batches differ in size",
    ),
    Departure(
        "D15",
        "protocol",
        "",
        "hyper-parameters are tuned on the validation set, and the ten runs use values close to the tuned ones",
        "every model and run uses the same setting, and no code tunes it; the runs recorded here use that setting, too",
    ),
    Departure(
        "D16",
        "none",
        "",
        "the paper does not say which loss the first epochs are compared with",
        "they are compared with 10,001; a run whose validation loss stays above that for 1,000 epochs has no weights",
    ),
    Departure(
        "init",
        "network",
        "small_initialisation",
        "the paper does not say how weights are initialised; here PyTorch's default is used",
        "fully-connected layers have Xavier-uniform weights, with a gain of 1/(number of inputs), and a bias of zero",
    ),
    Departure(
        "outputs",
        "network",
        "activated_outputs",
        "the paper mentions no activation of the outputs; here there is none",
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
