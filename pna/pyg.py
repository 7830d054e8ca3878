"""Conversion from and to PyTorch Geometric's PNAConv, weights included; what cannot be converted is refused by name."""

import copy
import warnings
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch_geometric.nn import PNAConv as PyGConv
from torch_geometric.nn import aggr
from torch_geometric.nn.dense.linear import Linear

from pna.combined import CombinedAggregation
from pna.degrees import DegreeStatistics, check_histogram
from pna.dispatch import untouched
from pna.scalers import SCALERS
from pna.towers import EachTower, TowerLinear, in_towers

__all__ = ["LIBRARIES", "LibraryDeparture", "arguments", "compute_as", "convert", "copy_weights", "translate"]


class LibraryDeparture(NamedTuple):
    """One way in which a version of a library computes something other than the paper's layer."""

    library: str
    versions: str
    what: str
    ours: str  # what from_pyg does about it, when it is told the version


LIBRARIES: tuple[LibraryDeparture, ...] = (
    LibraryDeparture(
        "PyTorch Geometric",
        "before 2.1",
        "δ and the mean degree are averages over the bins of the degree histogram, not over nodes: "
        "δ = mean of log(count + 1)",
        "computed as then from deg",
    ),
    LibraryDeparture(
        "PyTorch Geometric",
        "before 2.2",
        "each scaler multiplies the result of the one before: identity, amplification, attenuation are 1, S, 1",
        "the same products, as exponents",
    ),
    LibraryDeparture("PyTorch Geometric", "before 2.2", "std of a node without neighbours is √10⁻⁵ instead of 0", "0"),
    LibraryDeparture("PyTorch Geometric", "2.2 and 2.3", "std is √max(σ², 10⁻⁵) instead of √(σ² + 10⁻⁵)", "equation 3"),
    LibraryDeparture("PyTorch Geometric", "since 2.4", "std is √σ², and 0 where σ² ≤ 10⁻⁵", "equation 3"),
    LibraryDeparture("DGL", "all", "std is √(σ² + 10⁻³⁰)", "not converted"),
    LibraryDeparture(
        "DGL", "all", "moments average over all nodes of one degree and all features, to one number", "not converted"
    ),
    LibraryDeparture(
        "DGL",
        "all",
        "a layer includes division by √N, batch normalisation, dropout, LeakyReLU and a residual connection",
        "not converted",
    ),
)

_NAMES = {
    aggr.MeanAggregation: "mean",
    aggr.MaxAggregation: "max",
    aggr.MinAggregation: "min",
    aggr.StdAggregation: "std",
    aggr.VarAggregation: "var",
    aggr.SumAggregation: "sum",
    aggr.SoftmaxAggregation: "softmax",
}
_BY_EXPONENT = {power: name for name, (kind, power) in SCALERS.items() if kind == "logarithmic"}
_STEPS = frozenset(("__call__", "forward", "propagate", "message", "aggregate", "message_and_aggregate", "update"))
_TOWERS = {"pre_nns": "M", "post_nns": "U"}
_OTHERS = {
    "lin.weight": "mix.weight",
    "lin.bias": "mix.bias",
    "aggr_module.avg_deg_log": "combined.delta",
    "aggr_module.avg_deg_lin": "combined.mean_degree",
}


def translate(state: dict[str, Tensor], prefix: str = "") -> None:
    """Translate the state dict of PyTorch Geometric's layer to ours, in place: names change, and towers are stacked."""
    if f"{prefix}pre_nns.0.0.weight" not in state:
        return
    towers = defaultdict(dict)
    for key in [key for key in state if key.startswith(prefix)]:
        where = key.removeprefix(prefix)
        part, *place = where.split(".")
        numbered = part in _TOWERS and len(place) > 2 and all(number.isdecimal() for number in place[:2])
        if numbered and int(place[1]) % 2:  # an activation's
            t, k, *name = place
            state[".".join([prefix + _TOWERS[part], k, t, *name])] = state.pop(key)
        elif numbered and len(place) == 3:
            t, k, name = place
            towers[f"{prefix}{_TOWERS[part]}.{k}.{name}"][int(t)] = state.pop(key)
        elif where in _OTHERS:
            value = state.pop(key)
            state[prefix + _OTHERS[where]] = value.view(()) if part == "aggr_module" else value
    for key, parts in towers.items():
        state[key] = torch.stack([parts[t] for t in sorted(parts)])  # [T, ...]


def _translate_back(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Translate our state dict to that of PyTorch Geometric's layer."""
    theirs, parts, others = {}, *({ours: name for name, ours in names.items()} for names in (_TOWERS, _OTHERS))
    for key, value in state.items():
        part, *place = key.split(".")
        if part in parts and int(place[0]) % 2:  # an activation's
            k, t, *name = place
            theirs[".".join([parts[part], t, k, *name])] = value
        elif part in parts:
            theirs |= {f"{parts[part]}.{t}.{'.'.join(place)}": tower for t, tower in enumerate(value)}
        else:
            theirs[others.get(key, key)] = value.view(1) if part == "combined" else value
    return theirs


# ---- from theirs ----


def arguments(conv: PyGConv) -> dict[str, Any]:
    """The arguments of our constructor for a layer of the same sizes, aggregators and scalers as `conv`."""
    _check(conv)
    scaled = conv.aggr_module
    return {
        "in_channels": conv.in_channels,
        "out_channels": conv.out_channels,
        "aggregators": [_name(module) for module in getattr(scaled.aggr, "aggrs", [scaled.aggr])],
        "scalers": list(scaled.scaler),
        "deg": DegreeStatistics(delta=scaled.init_avg_deg_log, mean_degree=scaled.init_avg_deg_lin),
        "edge_dim": conv.edge_dim,
        "towers": conv.towers,
        "pre_layers": (len(conv.pre_nns[0]) + 1) // 2,
        "post_layers": (len(conv.post_nns[0]) + 1) // 2,
        "divide_input": conv.divide_input,
        "train_norm": isinstance(scaled.avg_deg_log, nn.Parameter),
        "flow": conv.flow,
    }


@torch.no_grad()
def copy_weights(conv: PyGConv, layer: nn.Module) -> None:
    """Copy weights, activations, dtype, device and mode of `conv` to `layer`, which has its arguments."""
    copies: dict[int, Any] = {}  # a module that stands in several places stays one
    for mine, theirs in ((layer.M, conv.pre_nns), (layer.U, conv.post_nns)):
        for k in range(1, len(mine), 2):
            mine[k] = in_towers(copy.deepcopy([tower[k] for tower in theirs], copies))
    layer.to(conv.lin.weight).train(conv.training)
    layer.load_state_dict(conv.state_dict())
    weights = conv.named_parameters(remove_duplicate=False)
    trained = {name: torch.tensor(weight.requires_grad) for name, weight in weights}
    translate(trained)
    for name, weight in layer.named_parameters():
        if len(trained[name].unique()) > 1:
            raise ValueError(f"conv has towers of which some are frozen (requires_grad=False) and some are not: {name}")
        weight.requires_grad_(bool(trained[name].all()))


def _check(conv: PyGConv) -> None:
    """Raise an error if `conv` has something that our layer cannot have."""
    if not isinstance(conv, PyGConv):
        raise TypeError(f"conv must be a torch_geometric.nn.PNAConv, got {type(conv).__module__}.{type(conv).__name__}")
    for kind in type(conv).__mro__[: type(conv).__mro__.index(PyGConv)]:
        written = f"{kind.__module__}_{kind.__name__}"  # the module of a propagate() that PyTorch Geometric wrote
        for step in _STEPS.intersection(vars(kind)):
            if not vars(kind)[step].__module__.startswith(written):
                raise TypeError(f"conv must be a plain torch_geometric.nn.PNAConv; {kind.__name__} has its own {step}")
    if type(conv.aggr_module) is not aggr.DegreeScalerAggregation:
        raise ValueError(f"conv has the aggregation {conv.aggr_module}, which is not taken over")
    if conv.explain or conv.decomposed_layers > 1:
        raise ValueError("conv is being explained or has decomposed_layers, which is not taken over")
    _check_hooks("conv", conv)
    _check_towers("pre_nns", conv.pre_nns)
    _check_towers("post_nns", conv.post_nns)
    for name in ("lin", *(() if conv.edge_dim is None else ("edge_encoder",))):
        _check_linear(name, getattr(conv, name))


def _check_hooks(what: str, layer: nn.Module) -> None:
    """Raise an error if a hook is registered on a layer or on one of its modules."""
    for name, module in layer.named_modules():
        for key, hooks in vars(module).items():
            if key.endswith("_hooks") and "state_dict" not in key and hooks:
                raise ValueError(f"{what} has hooks, which are not taken over: {key.strip('_')} of {name or what}")


def _check_towers(part: str, towers: nn.ModuleList) -> None:
    """Raise an error unless the towers are linear maps with the same activations between them."""
    for tower in towers:
        if type(tower) is not nn.Sequential or len(tower) != len(towers[0]):
            raise ValueError(f"conv.{part} must have towers of one kind, got {tower}")
        for k, module in enumerate(tower):
            if k % 2 == 0:
                _check_linear(part, module)
            elif _settings(module) != _settings(towers[0][k]):
                raise ValueError(f"conv.{part} has different activations in its towers, {towers[0][k]} and {module}")


def _check_linear(name: str, module: nn.Module) -> None:
    """Raise an error unless a module of `conv` is a linear map with a bias."""
    if type(module) not in (Linear, nn.Linear) or module.bias is None:
        raise ValueError(f"conv.{name} must be linear with a bias, got {module}")


def _settings(module: nn.Module) -> tuple:
    """Type and public attributes of an activation, by which those of two towers are compared."""
    return type(module), {k: v for k, v in vars(module).items() if not k.startswith("_") and k != "training"}


def _name(module: aggr.Aggregation) -> str:
    """Our name for an aggregator of PyTorch Geometric; raise a ValueError if there is none."""
    learned = any(True for _ in module.parameters())
    partly = any(getattr(part, "semi_grad", False) for part in module.modules())
    if type(module) not in _NAMES or learned or partly or getattr(module, "t", 1.0) != 1.0:
        more = " with semi_grad=True" if partly else ""
        raise ValueError(f"conv has the aggregator {module}{more}; those taken over are {', '.join(_NAMES.values())}")
    return _NAMES[type(module)]


def compute_as(layer: nn.Module, version: str, deg: Tensor | None) -> None:
    """Make a layer compute as a version of PyTorch Geometric did, and warn about every difference from today's."""
    try:
        release = tuple(int(number) for number in version.split(".")[:2])
    except (AttributeError, ValueError):
        release = ()
    if len(release) != 2:
        raise ValueError(f"trained_with must be a version of torch_geometric, as '2.1.0', got {version!r}")
    differences = []
    if release < (2, 1):
        if deg is None:
            raise ValueError(f"deg is missing: torch_geometric {version} took δ from the histogram's bins")
        check_histogram("deg", deg)
        counts = deg.double()
        combined = layer.combined
        combined.statistics = DegreeStatistics(float(counts.log1p().mean()), float(counts.mean()))
        combined.reset_parameters()
        differences.append(LIBRARIES[0])
    if release < (2, 2):
        layer.combined.scalers = _chained(layer.combined.scalers)
        differences.append(LIBRARIES[1])
    if release < (2, 4) and "std" in layer.combined.aggregators:
        differences.append(LIBRARIES[2 if release < (2, 2) else 3])
    for difference in differences:
        warnings.warn(
            f"weights of torch_geometric {version}: {difference.what} (here: {difference.ours})", stacklevel=3
        )


def _chained(scalers: Sequence[str]) -> tuple[str | float, ...]:
    """Scalers whose factors are those of the given ones, each multiplied by all that come before it."""
    powers, chained = {"logarithmic": 0.0, "linear": 0.0}, []
    for scaler in scalers:
        kind, power = SCALERS[scaler]
        powers[kind] += power
        logarithmic, linear = powers.values()
        if linear and (logarithmic or abs(linear) > 1):
            raise ValueError(
                f"the product of the scalers {list(scalers)} is no scaler of ours: it mixes log(d + 1) and d"
            )
        chained.append(("linear" if linear > 0 else "inverse_linear") if linear else logarithmic or "identity")
    return tuple(chained)


# ---- to theirs ----


@torch.no_grad()
def convert(layer: nn.Module) -> PyGConv:
    """Convert a pna.PNAConv to a torch_geometric.nn.PNAConv, with a copy of its weights."""
    combined = layer.combined
    _check_ours(layer)
    conv = PyGConv(
        layer.in_channels, layer.out_channels, list(combined.aggregators), _named(combined.scalers),
        torch.tensor([0, 1]), layer.edge_dim, layer.towers, (len(layer.M) + 1) // 2, (len(layer.U) + 1) // 2,
        layer.divide_input, train_norm=_has_learned_statistics(combined), flow=layer.flow,
    )  # fmt: skip
    copies: dict[int, Any] = {}  # a module that stands in several places stays one
    for mine, theirs in ((layer.M, conv.pre_nns), (layer.U, conv.post_nns)):
        for k in range(1, len(mine), 2):
            for t, tower in enumerate(theirs):
                tower[k] = copy.deepcopy(mine[k][t] if isinstance(mine[k], EachTower) else mine[k], copies)
    conv.to(layer.mix.weight).train(layer.training)
    conv.load_state_dict(_translate_back(layer.state_dict()))
    conv.aggr_module.init_avg_deg_log = combined.statistics.delta
    conv.aggr_module.init_avg_deg_lin = combined.statistics.mean_degree
    weights = layer.named_parameters(remove_duplicate=False)
    trained = {name: torch.full(weight.shape[:1], weight.requires_grad) for name, weight in weights}
    trained = _translate_back(trained)
    for name, weight in conv.named_parameters():
        if name in trained:  # not δ or the mean degree where no scaler depends on it
            weight.requires_grad_(bool(trained[name].all()))
    return conv


def _named(scalers: Sequence[str | float]) -> list[str | float]:
    """The scalers with names in place of the exponents 1, -1 and 0."""
    return [_BY_EXPONENT.get(scaler, scaler) for scaler in scalers]


def _has_learned_statistics(combined: CombinedAggregation) -> bool:
    """Whether δ or the mean degree is a parameter: train_norm."""
    return isinstance(combined.delta, nn.Parameter) or isinstance(combined.mean_degree, nn.Parameter)


def _check_ours(layer: nn.Module) -> None:
    """Raise an error if `layer` has something that PyTorch Geometric's layer cannot have."""
    if layer.in_channels == -1:
        raise ValueError("the layer has in_channels=-1 and no weights yet: call it once")
    if layer.combined.alpha is not None:
        raise ValueError("torch_geometric.nn.PNAConv has no train_alpha: its scalers have fixed exponents")
    if layer.swap_extremes:
        raise ValueError("torch_geometric.nn.PNAConv has no swap_extremes (D5)")
    for kind, names, allowed in (
        ("aggregators", layer.combined.aggregators, [*_NAMES.values()]),
        (
            "scalers",
            _named(layer.combined.scalers),
            ["identity", "amplification", "attenuation", "linear", "inverse_linear"],
        ),
    ):
        for name in names:
            if name not in allowed:
                raise ValueError(f"torch_geometric.nn.PNAConv has no {name!r} among its {kind}: {', '.join(allowed)}")
    _check_hooks("the layer", layer)
    networks = (layer.M, layer.U)
    maps = [module for network in networks for module in network[::2]]
    alternating = all(len(network) % 2 for network in networks) and all(type(m) is TowerLinear for m in maps)
    if not (untouched(layer) and alternating and type(layer.mix) is nn.Linear):
        raise ValueError("the layer has other modules in the place of its own, which are not carried over")
    for activation in (module for network in networks for module in network[1::2]):
        if not isinstance(activation, EachTower) and [*activation.parameters(), *activation.buffers()]:
            raise ValueError(f"torch_geometric.nn.PNAConv would have {activation} in each tower: here all share it")
