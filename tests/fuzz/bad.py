"""Calls with one invalid argument, each with the word that the refusal must hold."""

import inspect
import math
import random
import warnings
from collections.abc import Callable

import torch
import torch_geometric.nn as pyg
from torch import nn

from pna import DegreeStatistics, Neighbourhoods, PNAConv, PNASimpleConv
from pna import scalers as degree_scalers
from pna.aggregators import moment, resolve

Call = tuple[str, Callable[[], object]]
NOT_INTEGERS = [0, -3, 2.5, "3", None, True, 10**30, float("nan"), [4], 4_000_000]
NOT_NAMES = ["median", "", None, 3, ["mean"], "moment1", "moment1000", "Mean", b"mean", torch.tensor(1)]
NOT_SCALERS = ["log", "", None, ["identity"], float("nan"), float("inf"), True, 1j, "Identity", 10**400, -(10**400)]
NOT_NUMBERS = [float("nan"), float("inf"), -float("inf"), True, None, "1", 1j, 10**400, [1.0]]
NOT_LISTS = ["mean", None, 3, [], (), {"mean"}, torch.ones(2)]
NOT_FLAGS = [None, 1, 0, "yes", [True], 2.0]
CONSTRUCTOR = {
    "in_channels": [v for v in NOT_INTEGERS if v != -1],
    "out_channels": NOT_INTEGERS,
    "towers": NOT_INTEGERS,
    "pre_layers": NOT_INTEGERS,
    "post_layers": NOT_INTEGERS,
    "edge_dim": [v for v in NOT_INTEGERS if v is not None],
    "divide_input": NOT_FLAGS,
    "train_norm": NOT_FLAGS,
    "cached": NOT_FLAGS,
    "swap_extremes": NOT_FLAGS,
    "flow": ["sideways", None, 0, "", ["source_to_target"], "SOURCE_TO_TARGET"],
    "act": ["reluu", 3, [nn.ReLU()], ""],
    "act_kwargs": [{"nonsense": 1}, 3, [1]],
    "deg": [
        *([1, 2], 3, "x", torch.ones(3, device="meta"), torch.ones(3) + 0j, torch.ones(3).to_sparse()),
        *map(torch.tensor, ([], [4, 0], [1.0, math.nan], [-1, 4], [1.0, math.inf], True)),
    ],
}
GOOD = {"in_channels": 4, "out_channels": 6, "aggregators": ["mean", "std"], "scalers": ["identity", "amplification"]}
GOOD |= {"deg": torch.tensor([0, 3, 5])}


def constructor(rng: random.Random) -> Call:
    name = rng.choice([*CONSTRUCTOR, "aggregators", "scalers", "aggregator", "scaler"])
    if name in CONSTRUCTOR:
        values = CONSTRUCTOR[name]
    elif name in ("aggregators", "scalers"):
        values = NOT_LISTS
    else:
        values = [["mean", v] for v in NOT_NAMES] if name == "aggregator" else [["identity", v] for v in NOT_SCALERS]
    argument = name + "s" if name in ("aggregator", "scaler") else name
    change = {argument: rng.choice(values)}
    kinds = [PNAConv, PNASimpleConv] if argument in inspect.signature(PNASimpleConv).parameters else [PNAConv]
    return name, lambda: rng.choice(kinds)(**GOOD | change)


def shares(rng: random.Random) -> Call:
    towers = rng.choice((4, 5, 7))
    if rng.random() < 0.5:
        return "out_channels", lambda: PNAConv(**GOOD | {"towers": towers})
    return "in_channels", lambda: PNAConv(**GOOD | {"towers": 3, "divide_input": True})


def forward(rng: random.Random) -> Call:
    edge_dim = rng.choice((None, 3))
    conv = PNAConv(**GOOD, edge_dim=edge_dim)
    good = {"x": torch.randn(5, 4), "edge_index": torch.randint(0, 5, (2, 8))}
    if edge_dim:
        good["edge_attr"] = torch.randn(8, 3)
    x, edges, edge = good["x"], good["edge_index"], torch.randn(8, 3)
    changes = {
        "x": [None, [1], 3, "x", {}, x[:, 0], x[:, :3], x[..., None], x.long(), x.double(), x.half(), x.bool()],
        "edge_index": [None, [[0], [1]], 3, (), edges[[0, 1, 1]], edges[0], edges.float(), edges + 5, edges - 9],
        "edge_attr": [edge[1:], edge[:, 0], edge[:, :2], edge.double(), edge.long(), edge.tolist(), edge.to("meta"), 3],
    }
    changes["x"] += [x.to("meta"), (x,), (x, None), (x, x[:, :3]), x.to_sparse(), x.to_sparse_csr(), x + 0j]
    changes["edge_index"] += [torch.ones(5).to_sparse(), torch.ones(5, 5, 2).to_sparse(), edges + 0j, edges.to_sparse()]
    changes["edge_index"] += [csr(5, k) for k in (-1, 5, 77)]
    changes["edge_attr"] += [edge.to_sparse(), edge.to_sparse_csr(), edge + 0j, edge[None]]
    changes["edge_index"] += [edges.bool(), edges.short(), edges.to("meta"), torch.eye(5), torch.eye(4).to_sparse()]
    changes["edge_attr"] += [None] if edge_dim else []
    name = rng.choice([*changes])
    value = rng.choice(changes[name])
    return name, lambda: conv(**good | {name: value})


def csr(N: int, node: int) -> torch.Tensor:
    """An adjacency matrix with one entry, in the column of a node that is not there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the layout is in beta
        invariants = torch.sparse.check_sparse_tensor_invariants(enable=False)
        ptr, column = torch.tensor([0] + [1] * N), torch.tensor([node])
        with invariants:
            return torch.sparse_csr_tensor(ptr, column, torch.ones(1), (N, N))


def by_hand(rng: random.Random) -> Call:
    """Neighbourhoods that were put together by hand, with one wrong tensor."""
    conv = PNAConv(**GOOD, pre_layers=rng.choice((1, 2)), edge_dim=rng.choice((None, 3)))
    graph, x = Neighbourhoods.of(torch.randint(0, 5, (2, 8)), 5)._replace(flow=None), torch.randn(5, 4)
    place = rng.randrange(8)
    name, value = rng.choice(
        [
            ("source", changed(graph.source, place, rng.choice((-1, 5, 10**6)))),
            ("source", graph.source.float()),
            ("source", None),
            ("order", changed(graph.order, place, rng.choice((-1, 8, int(graph.order[place - 1]))))),
            ("order", graph.order[1:]),
            ("ptr", changed(graph.ptr, 0, rng.choice((-1, 1)))),
            ("ptr", changed(graph.ptr, 5, rng.choice((7, 9)))),
            ("ptr", changed(graph.ptr, 2, 99)),
            ("ptr", graph.ptr.double()),
            ("ptr", graph.ptr[None]),
        ]
    )
    edge_attr = None if conv.edge_dim is None else torch.randn(8, 3)
    return name, lambda: conv(x, graph._replace(**{name: value}), edge_attr)


def changed(t: torch.Tensor, place: int, value: int) -> torch.Tensor:
    t = t.clone()
    t[place] = value
    return t


def sorting(rng: random.Random) -> Call:
    graph = Neighbourhoods.of(torch.randint(0, 5, (2, 8)), 5)
    values = [None, 3, [1.0] * 8, torch.randn(9, 3), torch.randn(7), torch.tensor(1.0), torch.randn(8, 3).to_sparse()]
    return "edge_attr", lambda: graph.sort(rng.choice(values))


def scalers(rng: random.Random) -> Call:
    d, number = torch.rand(5) * 9, rng.choice(NOT_NUMBERS)
    positive = rng.choice([*NOT_NUMBERS, 0.0, -1.0, *map(torch.tensor, (0.0, math.nan, math.inf, -2.0, 3, True))])
    degrees = rng.choice([None, 3.0, [1.0], d + 0j, d > 1, d - 20, d / 0, d * math.nan, d.to_sparse()])
    return rng.choice(
        [
            ("alpha", lambda: degree_scalers.S(d, number, 1.3)),
            ("delta", lambda: degree_scalers.S(d, 1.0, positive)),
            ("d must", lambda: degree_scalers.S(degrees, 1.0, 1.3)),
            ("power", lambda: degree_scalers.linear(d, number, 1.3)),
            ("mean_degree", lambda: degree_scalers.linear(d, 1.0, positive)),
            ("d must", lambda: degree_scalers.linear(degrees, 1.0, 1.3)),
            ("scaler", lambda: degree_scalers.scale(d, rng.choice(NOT_SCALERS), 1.3, 2.0)),
            ("delta", lambda: degree_scalers.scale(d, 1.0, positive, 2.0)),
            ("mean_degree", lambda: degree_scalers.scale(d, "linear", 1.3, positive)),
            ("d must", lambda: degree_scalers.scale(degrees, "linear", 1.3, 2.0)),
            ("scaler", lambda: degree_scalers.factors(d, ["identity", rng.choice(NOT_SCALERS)], 1.3, 2.0)),
        ]
    )


def compilers(rng: random.Random) -> Call:
    """What torch offers and the layer does not: refused in words."""
    conv, example = PNAConv(**GOOD), (torch.randn(5, 4), torch.randint(0, 5, (2, 8)))
    return rng.choice(
        [
            ("torch.jit.script", lambda: torch.jit.script(conv)),
            ("torch.jit.trace", lambda: torch.jit.trace(conv, example)),
        ]
    )


def graphs(rng: random.Random) -> Call:
    conv, x = PNAConv(**GOOD), torch.randn(5, 4)
    edges = torch.randint(0, 5, (2, 8))
    return rng.choice(
        [
            ("x", lambda: conv(x, Neighbourhoods.of(edges, 6))),
            ("flow", lambda: conv(x, Neighbourhoods.of(edges, 5, "target_to_source"))),
            ("x", lambda: conv((x, x), Neighbourhoods.of(edges, (6, 5)))),
            ("flow", lambda: Neighbourhoods.of(edges, 5, rng.choice(["sideways", None, 3]))),
            ("num_nodes", lambda: Neighbourhoods.of(edges, rng.choice([-1, 2.5, None, "5", (5, 5, 5), [5, 5]]))),
            ("edge_index", lambda: Neighbourhoods.of(edges, 5 - rng.randint(5, 5))),
            ("edge_index", lambda: Neighbourhoods.of(torch.eye(4).to_sparse_bsr((2, 2)), 4)),
            ("flow", lambda: Neighbourhoods.of(torch.eye(5).to_sparse(), 5, "target_to_source")),
            ("edge_index", lambda: Neighbourhoods.of(csr(5, rng.choice((-1, 5))), 5)),
            ("edge_index", lambda: Neighbourhoods.of(torch.ones(5).to_sparse(), 5)),
            ("loader", lambda: PNAConv.get_degree_histogram(rng.choice([None, 3, [None], [x]]))),
        ]
    )


def aggregators(rng: random.Random) -> Call:
    function, m, ptr = (
        resolve(rng.choice(["mean", "max", "std", "moment3", "softmin"])).function,
        torch.randn(5, 2),
        [0, 2, 5],
    )
    pointers = [torch.tensor(p) for p in ([0.0, 5.0], [[0, 5]], [0, 4], [1, 5], [0, 6, 5], [0, 4, 2, 5])]
    pointers += [torch.tensor([], dtype=torch.long), torch.tensor(5), [0, 5], None]
    bad_messages = [m.long(), torch.tensor(1.0), m.bool(), None, [[1.0]]]
    return rng.choice(
        [
            ("ptr", lambda: function(m, rng.choice(pointers))),
            ("m must", lambda: function(rng.choice(bad_messages), torch.tensor(ptr))),
            ("aggregator", lambda: resolve(rng.choice(NOT_NAMES))),
            ("n must", lambda: moment(rng.choice([1, 0, -3, 1000, 10**30, 2.0, "3", None, True]))),
        ]
    )


def statistics(rng: random.Random) -> Call:
    value = rng.choice([0.0, -1.0, float("nan"), float("inf"), None, "1", True, 1j])
    degrees = rng.choice([[1], None, *map(torch.tensor, ([1.5], [-1], [], [math.nan]))])
    return rng.choice(
        [
            ("delta", lambda: DegreeStatistics(value, 1.0)),
            ("mean_degree", lambda: DegreeStatistics(1.0, value)),
            ("degrees", lambda: DegreeStatistics.from_degrees(degrees)),
            ("deg", lambda: PNAConv(4, 6, ["mean"], ["amplification"])),
        ]
    )


class Louder(pyg.PNAConv):
    def update(self, inputs: torch.Tensor) -> torch.Tensor:
        return 2 * inputs


def theirs(rng: random.Random) -> Call:
    def take(change: Callable[[pyg.PNAConv], object], kind: type = pyg.PNAConv, **kwargs: object) -> Callable:
        conv = kind(**GOOD | {"towers": 2, "pre_layers": 2} | kwargs)
        change(conv)
        return lambda: PNAConv.from_pyg(conv)

    def nothing(*_: object) -> None:
        return None

    return rng.choice(
        [
            ("conv", lambda: PNAConv.from_pyg(rng.choice([None, nn.Linear(2, 2), 3]))),
            ("update", take(nothing, Louder)),
            ("hooks", take(lambda c: c.register_message_forward_hook(nothing))),
            ("hooks", take(lambda c: c.pre_nns[0][0].register_forward_hook(nothing))),
            ("activation", take(lambda c: c.pre_nns[0].__setitem__(1, nn.Tanh()))),
            ("aggregator", take(nothing, aggregators=[rng.choice(["median", "mul", pyg.SoftmaxAggregation(t=2.0)])])),
            ("semi_grad", take(nothing, aggregators=[pyg.aggr.VarAggregation(semi_grad=True)])),
            ("requires_grad", take(lambda c: c.pre_nns[0][0].requires_grad_(False))),
            ("pre_nns", take(lambda c: c.pre_nns[1].__setitem__(0, nn.Identity()))),
            ("lin", take(lambda c: setattr(c, "lin", nn.Identity()))),
        ]
    )


CALLS = [
    constructor,
    constructor,
    constructor,
    shares,
    forward,
    forward,
    forward,
    graphs,
    by_hand,
    sorting,
    scalers,
    compilers,
    aggregators,
    statistics,
    theirs,
]
