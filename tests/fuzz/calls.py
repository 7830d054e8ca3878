"""The kinds of calls: each draws one, makes it, and gives a verdict."""

import copy
import math
import random
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch
import torch_geometric.nn as pyg
from torch_geometric import EdgeIndex
from torch_geometric.data import Data

from pna import DegreeStatistics, Neighbourhoods, PNAConv, PNASimpleConv, scalers
from pna.aggregators import resolve
from tests.fuzz import bad, files, reference

RIGHT, REFUSED, WRONG, OBSCURE, ACCEPTED = "right", "refused", "WRONG", "OBSCURE", "ACCEPTED"
NAMES = ["mean", "max", "min", "std", "var", "sum", "softmax", "softmin", "moment2", "moment3", "moment4", "moment7"]
SCALERS = ["identity", "amplification", "attenuation", "linear", "inverse_linear", 0.5, -0.5, 2]
ACTIVATIONS = ["relu", "elu", "tanh", None, torch.sin]


def layer(rng: random.Random) -> str:
    """A whole layer, with gradients of everything, in any form of the edges."""
    arguments = draw_arguments(rng)
    lazy = rng.random() < 0.1
    conv = PNAConv(**arguments | ({"in_channels": -1} if lazy else {}))
    dtype = torch.double if rng.random() < 0.7 else torch.float
    conv = conv.to(dtype)
    x, edge_index, edge_attr = draw_graph(rng, arguments, dtype)
    edges = draw_form(rng, edge_index, x, conv.flow, edge_attr)
    pair = isinstance(x, tuple)
    given = [t.requires_grad_() for t in (*(x if pair else (x,)), edge_attr) if t is not None]
    out = conv(x, edges, edge_attr)
    g = torch.randn_like(out)
    grads = torch.autograd.grad(out, [*given, *conv.parameters()], g, materialize_grads=True)
    exact, copies = copy.deepcopy(conv).double(), [t.detach().double().requires_grad_() for t in given]
    first, second = copies[:2] if pair else (copies[0], copies[0])
    if conv.flow == "target_to_source":
        first, second, edge_index = second, first, edge_index.flip(0)
    try:
        features = None if edge_attr is None else copies[-1]
        expected = reference.layer(exact, second, first, edge_index.t().tolist(), features)
    except reference.JumpError:
        return RIGHT
    wanted = torch.autograd.grad(expected, [*copies, *exact.parameters()], g.double(), materialize_grads=True)
    return verdict(zip((out, *grads), (expected, *wanted), strict=True), dtype)


def forward_mode(rng: random.Random) -> str:
    """A derivative in one direction, of x and the edge features, and a Hessian along two, by torch.func."""
    arguments = draw_arguments(rng)
    conv = PNAConv(**arguments).double()
    x, edge_index, edge_attr = draw_graph(rng, arguments, torch.double, pairs=False)
    edges = edge_index  # or sorted before: torch.func knows no sparse tensors
    if rng.random() < 0.5:
        edges = draw_form(rng, edge_index, x, conv.flow, edge_attr, sort=True)
    pairs = (edge_index if conv.flow == "source_to_target" else edge_index.flip(0)).t().tolist()
    inputs = (x,) if edge_attr is None else (x, edge_attr)
    along = tuple(map(torch.randn_like, inputs))

    def ours(*inputs: torch.Tensor) -> torch.Tensor:
        return conv(inputs[0], edges, *inputs[1:])

    def exact(*inputs: torch.Tensor) -> torch.Tensor:
        return reference.layer(conv, inputs[0], inputs[0], pairs, None if edge_attr is None else inputs[1])

    try:
        outputs = [along_both(f, inputs, along) for f in (ours, exact)]
    except reference.JumpError:
        return RIGHT
    return verdict(zip(*outputs, strict=True), torch.double)


def along_both(f: Callable[..., torch.Tensor], inputs: tuple, along: tuple) -> tuple[torch.Tensor, ...]:
    """The output of f, its derivative along `along`, and that of the gradient of its squares."""
    out, tangent = torch.func.jvp(f, inputs, along)
    gradient = torch.func.grad(lambda *inputs: f(*inputs).square().sum(), tuple(range(len(inputs))))
    return out, tangent, *torch.func.jvp(gradient, inputs, along)[1]


def simple_layer(rng: random.Random) -> str:
    """The layer without M, against the same sums by the reference."""
    arguments = {k: v for k, v in draw_arguments(rng).items() if k in ("in_channels", "out_channels", "deg", "flow")}
    names, scaled = rng.sample(NAMES, rng.randint(1, 4)), rng.sample(SCALERS, rng.randint(1, 3))
    conv = PNASimpleConv(**arguments, aggregators=names, scalers=scaled).double()
    x, edge_index, _ = draw_graph(rng, arguments, torch.double)
    senders = x if not isinstance(x, tuple) else x[0 if conv.flow == "source_to_target" else 1]
    receivers = x if not isinstance(x, tuple) else x[1 if conv.flow == "source_to_target" else 0]
    out = conv(x, draw_form(rng, edge_index, x, conv.flow, None))
    j, i = edge_index if conv.flow == "source_to_target" else edge_index.flip(0)
    rows = []
    for node in range(len(receivers)):
        m = senders[j[i == node]]
        if any(reference.jumps(name, m) for name in names):
            return RIGHT
        together = torch.cat([reference.aggregate(name, m) for name in names])
        factors = [reference.scale(s, len(m), conv.combined.delta, conv.combined.mean_degree) for s in scaled]
        rows.append(conv.U[0].weight[0] @ torch.cat([f * together for f in factors]) + conv.U[0].bias[0])
    return verdict([(out, torch.stack(rows) if rows else out[:0])], torch.double)


def aggregator(rng: random.Random) -> str:
    """An aggregator by itself, of messages of any shape and spread."""
    sizes = [rng.choice((0, 0, 1, 2, 3, 5, 20)) for _ in range(rng.randint(0, 6))]
    channels = rng.choice([(), (1,), (3,), (0,), (2, 3), (17,)])
    dtype = rng.choice([torch.double, torch.double, torch.float])
    offset, spread = rng.choice((0, 1, -1e4)), rng.choice((1e-6, 1, 1e4))
    m = (offset + spread * torch.randn(sum(sizes), *channels, dtype=torch.double)).to(dtype)
    ptr = torch.tensor([0, *sizes]).cumsum(0).to(rng.choice([torch.int64, torch.int32]))
    name = rng.choice(NAMES)
    out = resolve(name).function(m, ptr)
    parts = m.double().split(sizes) if sizes else ()
    if any(reference.jumps(name, part) for part in parts):
        return RIGHT
    expected = [reference.aggregate(name, part) for part in parts]
    expected = torch.stack(expected) if expected else m.new_zeros(0, *channels).double()
    return verdict([(out, expected)], dtype, scale=abs(offset) + spread)


def scaler(rng: random.Random) -> str:
    """A scaler at random degrees, and δ of a histogram."""
    degrees = [rng.randint(0, 50) for _ in range(rng.randint(1, 30))] + [1]
    statistics = DegreeStatistics.from_degrees(torch.tensor(degrees))
    delta = sum(math.log(d + 1) for d in degrees) / len(degrees)
    if not math.isclose(statistics.delta, delta, rel_tol=1e-9):
        return WRONG
    kind = rng.choice([*SCALERS, rng.uniform(-30, 30)])
    d = torch.tensor(degrees, dtype=torch.double)
    out = scalers.scale(d, kind, delta, statistics.mean_degree)
    expected = [
        reference.scale(kind, k, torch.tensor(delta, dtype=torch.double), statistics.mean_degree) for k in degrees
    ]
    expected = torch.stack([torch.as_tensor(e, dtype=torch.double) for e in expected])
    return RIGHT if torch.allclose(out, expected, rtol=1e-6, atol=0) else WRONG


def neighbourhoods(rng: random.Random) -> str:
    """The senders of each node, from edges in any form."""
    flow = rng.choice(["source_to_target", "target_to_source"])
    x, edge_index, _ = draw_graph(rng, {"in_channels": 1, "flow": flow}, torch.double)
    graph = draw_form(rng, edge_index, x, flow, None, sort=True)
    j, i = edge_index if flow == "source_to_target" else edge_index.flip(0)
    mine = [sorted(graph.source[graph.ptr[k] : graph.ptr[k + 1]].tolist()) for k in range(graph.num_nodes)]
    return RIGHT if mine == [sorted(j[i == k].tolist()) for k in range(graph.num_nodes)] else WRONG


def not_finite(rng: random.Random) -> str:
    """Features that are not finite: a row that the reference cannot compute must not come out as numbers."""
    arguments = draw_arguments(rng) | {"act": rng.choice(["relu", "elu", "tanh", None])}
    conv = PNAConv(**arguments).double()
    x, edge_index, edge_attr = draw_graph(rng, arguments, torch.double, pairs=False)
    features = x if edge_attr is None or rng.random() < 0.3 else edge_attr
    if features.numel() == 0:
        return RIGHT
    features[rng.randrange(len(features)), rng.randrange(features.shape[1])] = rng.choice(
        (math.inf, -math.inf, math.nan)
    )
    out = conv(x, draw_form(rng, edge_index, x, conv.flow, edge_attr), edge_attr)
    pairs = edge_index if conv.flow == "source_to_target" else edge_index.flip(0)
    try:
        expected = reference.layer(conv, x, x, pairs.t().tolist(), edge_attr)
    except reference.JumpError:
        return RIGHT
    bad_rows = ~expected.isfinite().all(1)
    return WRONG if out[bad_rows].isfinite().all(1).any() else RIGHT


def threads(rng: random.Random) -> str:
    """A layer without weights yet, first called by eight threads: all get the answer of the layer that it becomes."""
    arguments = draw_arguments(rng) | {"in_channels": -1, "divide_input": False}
    conv, known = PNAConv(**arguments), arguments | {"in_channels": rng.randint(1, 3)}
    x, edge_index, edge_attr = draw_graph(rng, known, torch.float, pairs=False)
    barrier = threading.Barrier(8)

    def call(_: int) -> torch.Tensor:
        barrier.wait()
        return conv(x, edge_index, edge_attr).detach()

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(call, range(8)))
    expected = conv(x, edge_index, edge_attr).detach()
    return RIGHT if all(torch.equal(answer, expected) for answer in answers) else WRONG


def from_pyg(rng: random.Random) -> str:
    """Their layer, taken over and given back, and its state loaded."""
    arguments = draw_arguments(rng)
    arguments["aggregators"] = rng.sample(["mean", "max", "min", "var", "sum", "softmax"], rng.randint(1, 4))
    arguments["scalers"] = rng.sample(SCALERS[:5], rng.randint(1, 3))
    arguments["act"] = rng.choice(["relu", "elu", "tanh"])
    if arguments.pop("swap_extremes", False):
        return RIGHT
    theirs = pyg.PNAConv(**arguments).double()
    ours = PNAConv.from_pyg(theirs)
    loaded = PNAConv(**arguments).double()
    loaded.load_state_dict(theirs.state_dict())
    x, edge_index, edge_attr = draw_graph(rng, arguments, torch.double, pairs=False)
    given = (x, edge_index) if edge_attr is None else (x, edge_index, edge_attr)
    expected = theirs(*given)
    return verdict([(conv(*given), expected) for conv in (ours, loaded, ours.to_pyg())], torch.double)


def histogram(rng: random.Random) -> str:
    """The degrees of a few graphs, some of which hold an edge to a node that is not there."""
    graphs, counts, invalid = [], {}, False
    for _ in range(rng.randint(1, 4)):
        n = rng.randint(1, 6)
        target = torch.tensor([rng.randrange(n) for _ in range(rng.randint(0, 9))], dtype=torch.long)
        if len(target) and rng.random() < 0.1:
            target[0], invalid = rng.choice([n, n + 7, -1]), True
        graphs.append(Data(edge_index=torch.stack([target.clamp(0, n - 1), target]), num_nodes=n))
        for node in range(n):
            d = int((target == node).sum())
            counts[d] = counts.get(d, 0) + 1
    if invalid:
        return refusal("edge_index", lambda: PNAConv.get_degree_histogram(graphs))
    out = PNAConv.get_degree_histogram(graphs).tolist()
    return RIGHT if out == [counts.get(d, 0) for d in range(max(counts) + 1)] else WRONG


def bad_argument(rng: random.Random) -> str:
    """One argument of a valid call made invalid: of constructors, calls, aggregators, scalers, graphs, their layers."""
    name, call = rng.choice(bad.CALLS)(rng)
    return refusal(name, call)


def file(rng: random.Random) -> str:
    """A file of JSON, tensors or arrays that somebody damaged: refused by name, or read as it was written."""
    path, read, held = files.damaged(rng)
    try:
        content = read()
    except ValueError as error:
        return REFUSED if str(path) in str(error) else f"{OBSCURE}: {error}"
    except Exception as error:
        return f"{OBSCURE}: {path.suffix}: {type(error).__name__}: {error}"
    finally:
        shutil.rmtree(path.parent)
    has_checksum = path.suffix != ".json"
    return WRONG if has_checksum and content != held else RIGHT


KINDS = {
    layer: 6,
    forward_mode: 1,
    simple_layer: 2,
    aggregator: 4,
    scaler: 1,
    neighbourhoods: 3,
    not_finite: 2,
    threads: 0.2,
    from_pyg: 2,
    histogram: 1,
    bad_argument: 6,
    file: 3,
}


# ---- verdicts ----


def verdict(pairs, dtype: torch.dtype, scale: float = 1.0) -> str:
    tolerance = 1e-7 if dtype == torch.double else 2e-3
    for out, expected in pairs:
        if out.shape != expected.shape:
            return f"{WRONG}: shape {tuple(out.shape)} for {tuple(expected.shape)}"
        size = max(scale, float(expected.detach().abs().max())) if expected.numel() else 1.0
        if not torch.allclose(out.double(), expected.double(), rtol=0, atol=tolerance * size):
            return f"{WRONG}: off by {float((out.double() - expected).abs().max()):.2e} of {size:.2e}"
    return RIGHT


def refusal(name: str, call: Callable[[], object]) -> str:
    try:
        call()
    except (TypeError, ValueError, RuntimeError, NotImplementedError) as error:
        return REFUSED if name in str(error) else f"{OBSCURE}: {name}: {type(error).__name__}: {error}"
    except Exception as error:
        return f"{OBSCURE}: {name}: {type(error).__name__}: {error}"
    return f"{ACCEPTED}: {name}"


# ---- what is drawn ----


def draw_arguments(rng: random.Random) -> dict:
    """A valid PNAConv."""
    towers, divide = rng.choice((1, 1, 2, 3)), rng.random() < 0.4
    swap = rng.random() < 0.1
    return {
        "in_channels": rng.randint(1, 3) * (towers if divide else 1),
        "out_channels": rng.randint(1, 3) * towers,
        "aggregators": rng.choices(NAMES, k=rng.randint(1, 4)),
        "scalers": rng.choices(SCALERS, k=rng.randint(1, 3)),
        "deg": torch.tensor([rng.randint(0, 4), rng.randint(1, 4), *(rng.randint(0, 4) for _ in range(3))]),
        "edge_dim": None if swap or rng.random() < 0.5 else rng.randint(1, 3),
        "towers": towers,
        "pre_layers": 1 if swap else rng.choice((1, 1, 2, 3)),
        "post_layers": rng.choice((1, 1, 2)),
        "divide_input": divide,
        "act": rng.choice(ACTIVATIONS),
        "train_norm": rng.random() < 0.3,
        "flow": rng.choice(["source_to_target", "target_to_source"]),
        "swap_extremes": swap,
    }


def draw_graph(rng: random.Random, arguments: dict, dtype: torch.dtype, pairs: bool = True) -> tuple:
    """x or a pair, edge_index and edge_attr, with loops, repeated edges and isolated nodes."""
    pair = pairs and rng.random() < 0.2
    n = [rng.choice((0, 1, 2, 3, 5, 6)) for _ in range(2)] if pair else [rng.choice((0, 1, 2, 4, 6))] * 2
    E = rng.choice((0, 1, 3, 8, 14)) if min(n) > 0 else 0
    edge_index = torch.tensor([[rng.randrange(k) for _ in range(E)] for k in n], dtype=torch.long)
    scale, F = rng.choice((1.0, 1.0, 1e-2, 30.0)), arguments["in_channels"]
    x = tuple(scale * torch.randn(k, F, dtype=dtype) for k in n) if pair else scale * torch.randn(n[0], F, dtype=dtype)
    edge_dim = arguments.get("edge_dim")
    return x, edge_index, None if edge_dim is None else torch.randn(E, edge_dim, dtype=dtype)


def draw_form(rng: random.Random, edge_index: torch.Tensor, x, flow: str, edge_attr, sort: bool = False):
    """The same edges in another form; sparse ones store them in an order of their own, so only without features."""
    pair = isinstance(x, tuple)
    sizes = (len(x[0]), len(x[1])) if pair else len(x)
    forms = ["plain", "int32", "strided", "Neighbourhoods"]
    if not pair:
        forms.append("EdgeIndex")
    if flow == "source_to_target":
        forms.append("COO")
        if edge_attr is None and edge_index.unique(dim=1).shape[1] == edge_index.shape[1]:
            forms += ["CSR", "CSC"]
    form = rng.choice(forms)
    n, k = sizes if pair else (sizes, sizes)
    if form in ("COO", "CSR", "CSC"):
        edges = torch.sparse_coo_tensor(edge_index.flip(0), torch.ones(edge_index.shape[1]), (k, n))
        edges = {"COO": lambda: edges, "CSR": edges.to_sparse_csr, "CSC": edges.to_sparse_csc}[form]()
    elif form == "EdgeIndex":
        edges = EdgeIndex(edge_index, sparse_size=(n, k))
    elif form == "strided":
        edges = edge_index.t().contiguous().t()
    else:
        edges = edge_index.int() if form == "int32" else edge_index
    return Neighbourhoods.of(edges, sizes, flow) if sort or form == "Neighbourhoods" else edges
