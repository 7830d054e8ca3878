"""Theorem 1 on a trained layer: n - 1 outputs of a PNA layer, as functions of the multiset of its n neighbours.

A scalar x is encoded as tanh(w x + b), of F channels, and aggregated by `pna.PNAConv` with the smooth half of its
aggregators, mean and std with its ε, and the three scalers; max and min are not smooth and are left out. The layer is
trained for a few seconds on a toy task (predict statistics of the neighbours), then its float32 weights, which are
exact dyadic rationals, are taken as they are. At a centre whose own feature is 0 and that has n neighbours, output
k is
    g_k(X) = Σ_o mix_ko Σ_s S_s(n) (U_s [mean(m); std(m)])_o + constant,   m = W2 tanh(w x + b) + constant,
and the constants, which are equal on both multisets, are dropped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor, nn

import pna
from verification.families import EPSILON, Family, mean, std
from verification.smooth import Real, ball, tanh
from verification.theorem_1 import Aggregator, Sphere

__all__ = ["CHANNELS", "OUTPUTS", "TrainedLayer", "train"]

CHANNELS = 8
OUTPUTS = 15
SCALERS = {"identity": 0, "amplification": 1, "attenuation": -1}
"""The three scalers and their α."""


class TrainedLayer(nn.Module):
    """Encoder and PNA layer; what it says of one neighbourhood at its centre."""

    def __init__(self) -> None:
        super().__init__()
        degrees = torch.tensor([0, 0, *[1] * 15])  # neighbourhoods of 2 to 16 elements
        self.delta = torch.tensor(pna.DegreeStatistics.from_histogram(degrees).delta)  # in float32, as the layer has it
        self.encoder = nn.Linear(1, CHANNELS)
        self.layer = pna.PNAConv(CHANNELS, OUTPUTS, ["mean", "std"], list(SCALERS), degrees)

    def forward(self, x: Tensor) -> Tensor:
        """A batch of neighbourhoods of one size, [B, n] -> [B, OUTPUTS]."""
        B, n = x.shape
        leaves = torch.tanh(self.encoder(x.reshape(-1, 1)))
        features = torch.cat([leaves.new_zeros(B, CHANNELS), leaves])  # the B centres first
        source = torch.arange(B, B + B * n)
        target = torch.arange(B).repeat_interleave(n)
        return self.layer(features, torch.stack([source, target]))[:B]

    def family(self, n: int) -> Family:
        """The first n - 1 outputs as aggregators over exact copies of the weights."""
        description = self._description()
        return Family(description, _aggregators(description, n), Sphere.between(Fraction(-1), Fraction(1), n))

    def _description(self) -> dict:
        (U,), (M,) = self.layer.U, self.layer.M
        combined = U.weight[0, :, CHANNELS:]  # without the part that sees the centre's own feature, 0
        by_scaler = combined.reshape(OUTPUTS, len(SCALERS), -1).transpose(0, 1)  # [S, OUTPUTS, 2 · CHANNELS]
        return {
            "name": "trained PNA layer",
            "w": _exact(self.encoder.weight[:, 0]),
            "b": _exact(self.encoder.bias),
            "W2": _exact(M.weight[0, :, CHANNELS:]),
            "U": _exact(by_scaler),
            "mix": _exact(self.layer.mix.weight),
            "delta": _exact(self.delta),
            "epsilon": str(EPSILON),
        }


@dataclass(frozen=True)
class _Output:
    """g_k, one output of the layer."""

    w: list[Fraction]
    b: list[Fraction]
    W2: list[list[Fraction]]
    mixed: list[list[Fraction]]  # one row over [mean(m); std(m)] for each scaler: mix and U multiplied
    delta: Fraction

    def __call__(self, x: list[Real]) -> Real:
        hidden = [[tanh(y * w + b) for y in x] for w, b in zip(self.w, self.b, strict=True)]  # [F][n]
        messages = [[_dot(row, column) for column in zip(*hidden, strict=True)] for row in self.W2]
        aggregates = [mean(m) for m in messages] + [std(m) for m in messages]
        amplification = ball(len(x) + 1).log() / ball(self.delta)
        scales = [amplification**alpha for alpha in SCALERS.values()]
        columns = zip(*self.mixed, strict=True)
        weights = [sum(ball(q) * s for q, s in zip(column, scales, strict=True)) for column in columns]
        return _dot(weights, aggregates)


def _aggregators(description: dict, n: int) -> list[Aggregator]:
    exact = {key: _rational(value) for key, value in description.items() if key != "name"}
    outputs = []
    for mix in exact["mix"][: n - 1]:
        mixed = [[_dot(mix, column) for column in zip(*U, strict=True)] for U in exact["U"]]
        outputs.append(_Output(exact["w"], exact["b"], exact["W2"], mixed, exact["delta"]))
    return outputs


def train(seed: int = 0, steps: int = 150) -> TrainedLayer:
    """A layer trained on neighbourhoods of 2 to 16 standard normal numbers to predict E[sin(k x)], k = 1 … OUTPUTS."""
    torch.manual_seed(seed)
    model = TrainedLayer()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    k = torch.arange(1, OUTPUTS + 1)
    for step in range(steps):
        x = torch.randn(64, 2 + step % 15)
        loss = (model(x) - torch.sin(x[..., None] * k).mean(1)).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model


def _dot(weights: Sequence, values: Sequence) -> Real | Fraction:
    return sum(v * w for w, v in zip(weights, values, strict=True))


def _exact(weights: Tensor) -> list | str:
    if weights.dim() == 0:
        return str(Fraction(weights.item()))
    return [_exact(row) for row in weights.detach()]


def _rational(value: list | str) -> list | Fraction:
    return Fraction(value) if isinstance(value, str) else [_rational(item) for item in value]
