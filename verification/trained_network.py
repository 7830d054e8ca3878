"""Theorem 1 on a trained network: outputs of the first layer of PNA as trained on the multi-task benchmark.

The layer is GC_1 of figure 3, as described in the paper: four towers, mean, std, max and min, three scalers, linear M
and U, a mixing layer; LeakyReLU after it is injective and left out. Its float32 weights are exact dyadic rationals and
are taken as they are, from `certificates/weights/trained_network.json`, which names the training and the SHA-256 of its
file in `results/`; the checker knows the SHA-256 of the weights. Neighbours j of a node i have the random feature t_j,
one number each, and nothing else varies; so a message is m(t) = slope · t + constant, and output k is
    g_k(X) = Σ_o mix_ko Σ_s S_s(n) (U_s [mean(m); std(m); max(m); min(m)])_o + constant.
The constants are equal on both multisets, and dropped.

Established: for n = 2 … 5 a certified collision of the first n - 1 outputs. At n = 5 there is no more to show: all 16
outputs are functions of mean, std, max and min of X, since M is linear, and collide wherever these four do
(`counterexamples.PNA_FAILS`).
"""

import hashlib
import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import torch
from torch import Tensor

import pna
from verification.families import EPSILON, Family, mean
from verification.smooth import Real, ball, maximum, minimum, sqrt
from verification.theorem_1 import Aggregator, Sphere

__all__ = ["SIZES", "TRAINING", "WEIGHTS", "family", "layer", "outputs", "read_weights", "weights_from"]

WEIGHTS = Path(__file__).parent / "certificates" / "weights" / "trained_network.json"
TRAINING = Path(__file__).parent.parent / "results" / "paper" / "multitask" / "described" / "pna-16.safetensors"
SIZES = range(2, 6)
"""The four aggregators leave no more than four independent outputs, so n is at most 5."""
SCALERS = ("identity", "amplification", "attenuation")
AGGREGATORS = ("mean", "std", "max", "min")
RANDOM_FEATURE = 1  # of the two inputs: one-hot source, random feature


def weights_from(path: Path = TRAINING) -> dict:
    """The weights of GC_1, exactly, from a training's file; each tower's U as [output][scaler][aggregator][channel].

    Of several seeds the first is taken: results/ keeps the one with the lowest validation error.
    """
    from safetensors import safe_open

    from pna.networks.models import build
    from pna.training.replicas import Lifted

    with safe_open(path, "pt") as file:
        about = json.loads(file.metadata()["pna"])
        theta, state = (file.get_tensor(name)[0] for name in ("theta", "state"))
    lifted = Lifted(build("pna", 16))
    parameters, buffers = (
        dict(zip(shapes, flat.split([shape.numel() for shape in shapes.values()]), strict=True))
        for flat, shapes in ((theta, lifted.parameters), (state, lifted.buffers))
    )

    def weight(name: str) -> Tensor:
        return parameters[f"GC_1.conv.{name}"].view(lifted.parameters[f"GC_1.conv.{name}"])

    M, U = weight("M.0.weight"), weight("U.0.weight")  # [T, F, 2F], [T, out, F + S·A·F], F = 2
    T, F, _ = M.shape
    return {
        "source": hashlib.sha256(path.read_bytes()).hexdigest(),
        "cell": about["cell"],
        "seed": about["seeds"][0],
        "slopes": _exact(M[:, :, F + RANDOM_FEATURE]),  # [T, F]
        "U": _exact(U[..., F:].reshape(T, -1, len(SCALERS), len(AGGREGATORS), F)),
        "mix": _exact(weight("mix.weight")),
        "delta": _exact(buffers["GC_1.conv.combined.delta"].squeeze()),
        "epsilon": str(EPSILON),
    }


def read_weights() -> dict:
    """The stored weights, as rationals."""
    content = json.loads(WEIGHTS.read_text(encoding="utf-8"))
    return content | {key: _rational(content[key]) for key in ("slopes", "U", "mix", "delta", "epsilon")}


def family(n: int) -> Family:
    """The first n - 1 outputs of the layer, as aggregators over exact copies of its weights."""
    digest = hashlib.sha256(WEIGHTS.read_bytes()).hexdigest()
    weights = read_weights()
    aggregators = [_output(weights, k) for k in range(n - 1)]
    description = {"name": "trained PNA network", "weights": digest}
    return Family(description, aggregators, Sphere.between(Fraction(0), Fraction(1), n))


def _output(weights: dict, k: int) -> Aggregator:
    """Output k of the layer as an aggregator, over exact weights."""

    def g(x: list[Real]) -> Real:
        """The output for neighbours with the random features x, without its constant part."""
        amplification = ball(len(x) + 1).log() / ball(weights["delta"])
        scales = [ball(1), amplification, 1 / amplification]
        total, columns = 0, iter(weights["mix"][k])
        for slopes, outputs in zip(weights["slopes"], weights["U"], strict=True):
            messages = [[y * a for y in x] for a in slopes]
            aggregates = [[f(m) for m in messages] for f in (mean, _std, maximum, minimum)]
            for U in outputs:
                column = ball(next(columns))
                for scale, rows in zip(scales, U, strict=True):
                    for row, values in zip(rows, aggregates, strict=True):
                        total = total + sum(v * (ball(u) * scale * column) for u, v in zip(row, values, strict=True))
        return total

    return g


def _std(m: list[Real]) -> Real:
    """The standard deviation √(σ² + ε) of messages."""
    mu = mean(m)
    return sqrt(mean([(y - mu) ** 2 for y in m]) + EPSILON)


def layer(weights: dict) -> pna.PNAConv:
    """The layer as a PNAConv in float64; biases, and the weights for the node's own features, are 0."""
    T, F = len(weights["slopes"]), len(weights["slopes"][0])
    statistics = pna.DegreeStatistics(float(weights["delta"]), 1.0)
    conv = pna.PNAConv(F, len(weights["mix"]), list(AGGREGATORS), list(SCALERS), statistics, towers=T).double()
    with torch.no_grad():
        for parameter in conv.parameters():
            parameter.zero_()
        conv.M[0].weight[:, :, F + RANDOM_FEATURE] = _tensor(weights["slopes"])
        conv.U[0].weight[..., F:] = _tensor(weights["U"]).flatten(2)
        conv.mix.weight.copy_(_tensor(weights["mix"]))
    return conv


def outputs(x: Sequence) -> Tensor:
    """The layer's outputs, [16], at a node with features 0 whose neighbours have the random features x."""
    features = torch.zeros(len(x) + 1, 2, dtype=torch.float64)
    features[1:, RANDOM_FEATURE] = torch.tensor([float(y) for y in x], dtype=torch.float64)
    edges = torch.stack([torch.arange(1, len(x) + 1), torch.zeros(len(x), dtype=torch.long)])
    with torch.no_grad():
        return layer(read_weights())(features, edges)[0]


def _tensor(values: Sequence) -> Tensor:
    """Rationals in nested lists as a float64 tensor."""
    return torch.tensor(_floats(values), dtype=torch.float64)


def _floats(values: Sequence | Fraction) -> list | float:
    """Rationals in nested lists as floats in nested lists."""
    return float(values) if isinstance(values, Fraction) else [_floats(v) for v in values]


def _exact(weights: Tensor) -> list | str:
    """The entries of a tensor, exactly, as rationals written as text in nested lists."""
    return str(Fraction(weights.item())) if weights.dim() == 0 else [_exact(row) for row in weights]


def _rational(value: list | str) -> list | Fraction:
    """Text in nested lists as rationals in nested lists."""
    return Fraction(value) if isinstance(value, str) else [_rational(item) for item in value]
