"""Section 2 of the paper in the most naive way, in float64: node by node, message by message, all concatenated."""

import math

import torch

EPSILON = 1e-5


def aggregate(name, m):
    """One aggregator of the messages [d, ...] of one node; 0 for none."""
    if len(m) == 0:
        return m.new_zeros(m.shape[1:])
    c = m - m[:1].detach()
    c = c - c.mean(0)
    if name.startswith("moment"):
        n = int(name.removeprefix("moment"))
        e = (c**n).mean(0)
        return e.sign() * (e.abs() + EPSILON) ** (1 / n)
    return {
        "mean": lambda: m.mean(0),
        "sum": lambda: m.sum(0),
        "max": lambda: m.amax(0),
        "min": lambda: m.amin(0),
        "var": lambda: c.square().mean(0),
        "std": lambda: (c.square().mean(0) + EPSILON).sqrt(),
        "softmax": lambda: (torch.softmax(m, 0) * m).sum(0),
        "softmin": lambda: (torch.softmax(-m, 0) * m).sum(0),
    }[name]()


def jumps(name, m):
    """Whether the aggregate has a jump so near that rounding decides: a moment of nearly 0, or of equal messages."""
    if not name.startswith("moment") or len(m) < 2:
        return False
    n = int(name.removeprefix("moment"))
    c = m - m[:1]
    c = c - c.mean(0)
    s = c.abs().amax(0)
    e = (c**n).mean(0).abs()
    return bool(((e < 1e-4 * s**n) | (s < 1e-5 * (m.abs().amax(0) + 1e-3))).any())


def scale(scaler, d, delta, mean_degree):
    """One scaler at degree d, by the text; at d = 0 as pna.scalers says."""
    kind = {"identity": 0, "amplification": 1, "attenuation": -1}
    if scaler in ("linear", "inverse_linear"):
        power = 1 if scaler == "linear" else -1
        return ((d if power > 0 else max(d, 1)) / mean_degree) ** power
    alpha = kind.get(scaler, scaler)
    if d == 0 and alpha > 0:
        return 0 * delta
    return (math.log(max(d, 1) + 1) / delta) ** alpha


class JumpError(Exception):
    """The answer hangs on rounding."""


def layer(conv, x_i, x_j, edges, edge_attr):
    """Equation 8 of a PNAConv in float64: edges are pairs (j, i)."""
    T, F = conv.towers, conv.F_in
    towers = []
    for t in range(T):
        own, other = ((x[:, t * F : (t + 1) * F] if conv.divide_input else x) for x in (x_i, x_j))
        rows = []
        for i in range(len(own)):
            incoming = [e for e, (_, to) in enumerate(edges) if to == i]
            m, swapped = (_messages(conv, t, own, other, edges, incoming, edge_attr, s) for s in (False, True))
            aggregates = []
            for name in conv.combined.aggregators:
                given = swapped if conv.swap_extremes and name in ("max", "min") else m
                if jumps(name, given):
                    raise JumpError
                aggregates.append(aggregate(name, given))
            together = torch.cat(aggregates)
            d, statistics = len(incoming), (conv.combined.delta, conv.combined.mean_degree)
            scaled = [scale(scaler, d, *statistics) * together for scaler in conv.combined.scalers]
            rows.append(_network(conv.U, t, torch.cat([own[i], *scaled])))
        towers.append(torch.stack(rows) if rows else own.new_zeros(0, conv.F_out))
    return torch.cat(towers, 1) @ conv.mix.weight.t() + conv.mix.bias


def _messages(conv, t, own, other, edges, incoming, edge_attr, swapped):
    rows = []
    for e in incoming:
        j, i = edges[e]
        parts = [other[j], own[i]] if swapped else [own[i], other[j]]
        if edge_attr is not None:
            parts.append(conv.edge_encoder.weight @ edge_attr[e] + conv.edge_encoder.bias)
        rows.append(_network(conv.M, t, torch.cat(parts)))
    return torch.stack(rows) if rows else own.new_zeros(0, conv.F_in)


def _network(modules, t, v):
    for k, module in enumerate(modules):
        v = module.weight[t] @ v + module.bias[t] if k % 2 == 0 else module(v)
    return v
