"""The models of the paper as one frozen table, from which networks are built."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import nn

from pna.degrees import DegreeStatistics
from pna.networks.architectures import ARCHITECTURES
from pna.networks.convolutions import GAT, GCN, GIN, PNA
from pna.networks.depths import depth_named
from pna.networks.specification import NetworkSpec

__all__ = ["MODELS", "Model", "build", "count_parameters"]

SCALERS = ("identity", "amplification", "attenuation")
NONE = ("identity",)


@dataclass(frozen=True)
class Model:
    """A graph convolution under its name in the paper."""

    title: str
    convolution: Callable[..., nn.Module]
    where: str


def _pna(title: str, aggregators: tuple[str, ...], scalers: tuple[str, ...], where: str) -> Model:
    """A row of the table for PNA with these aggregators and scalers."""
    return Model(title, partial(PNA, aggregators=aggregators, scalers=scalers), where)


_MOMENTS = ("mean", "std", "moment3", "moment4", "moment5")

MODELS: dict[str, Model] = {
    "pna": _pna("PNA", ("mean", "std", "max", "min"), SCALERS, "equations 7 and 8"),
    "pna-no-scalers": _pna("PNA (no scalers)", ("mean", "std", "max", "min"), NONE, "figure 4"),
    "mpnn-max": _pna("MPNN (max)", ("max",), NONE, "appendix F, equation 14"),
    "mpnn-sum": _pna("MPNN (sum)", ("sum",), NONE, "appendix F, equation 14"),
    "gat": Model("GAT", GAT, "appendix F, equation 12"),
    "gcn": Model("GCN", GCN, "appendix F, equation 11"),
    "gin": Model("GIN", GIN, "appendix F, equation 13"),
    "mean-max-min": _pna("mean, max & min", ("mean", "max", "min"), NONE, "appendix, standard architecture"),
    "pna-soft": _pna(
        "PNA (softmax, softmin)", ("mean", "std", "softmax", "softmin"), SCALERS, "section 2.1, equation 10"
    ),
    **{
        f"moments-{n}": _pna(f"{n} moment{'s' * (n > 1)}", _MOMENTS[:n], SCALERS, "appendix, normalised moments")
        for n in range(1, 6)
    },
}


def build(
    model: str,
    hidden: int = 16,
    spec: NetworkSpec = NetworkSpec(),  # noqa: B008 (frozen)
    degrees: DegreeStatistics = DegreeStatistics(1.0, 1.0),  # noqa: B008 (frozen)
    architecture: str = "recurrent",
    depth: str = "N/2",
) -> nn.Module:
    """Build the network of a model with weights drawn from torch's random generator.

    depth: a rule of pna.networks.depths; the standard architecture has a fixed depth and ignores it.
    """
    if model not in MODELS:
        raise ValueError(f"model must be one of {', '.join(MODELS)}; got {model!r}")
    if architecture not in ARCHITECTURES:
        raise ValueError(f"architecture must be one of {', '.join(ARCHITECTURES)}; got {architecture!r}")
    if isinstance(hidden, bool) or not isinstance(hidden, int) or hidden < 4 or hidden % 4:
        raise ValueError(f"hidden must be a positive multiple of 4 (towers and heads), got {hidden!r}")
    convolution = partial(MODELS[model].convolution, spec=spec, degrees=degrees)
    options = {} if architecture == "standard" else {"depth": depth_named(depth)}
    return ARCHITECTURES[architecture](convolution, hidden, spec, **options)


def count_parameters(network: nn.Module) -> int:
    """Number of learnt numbers in a network."""
    return sum(parameter.numel() for parameter in network.parameters())
