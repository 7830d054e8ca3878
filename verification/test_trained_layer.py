from fractions import Fraction

import pytest
import torch
from flint import ctx

from verification.smooth import ball, variables
from verification.theorem_1 import collide
from verification.trained_layer import OUTPUTS, TrainedLayer, train


@pytest.fixture(scope="module")
def model() -> TrainedLayer:
    return train(steps=30)


def outputs(model: TrainedLayer, x: list) -> torch.Tensor:
    with torch.no_grad():
        return model.double()(torch.tensor([[float(y) for y in x]], dtype=torch.float64))[0]


def test_training_lowers_the_loss():
    x = torch.randn(256, 6, generator=torch.Generator().manual_seed(5))
    target = torch.sin(x[..., None] * torch.arange(1, OUTPUTS + 1)).mean(1)
    before, after = ((train(steps=steps)(x) - target).square().mean() for steps in (0, 60))
    assert after < before


@pytest.mark.parametrize("n", [2, 4])
def test_the_exact_copy_is_the_layer_up_to_a_constant(model, n):
    family = model.float().family(n)
    points = [[Fraction(k, 4) for k in range(n)], [Fraction(-k, 3) for k in range(n)]]
    layer = [outputs(model, x) for x in points]
    with ctx.workprec(100):
        for k, g in enumerate(family.aggregators):
            exact = [float(g(variables([ball(y) for y in x], False)).value.mid()) for x in points]
            assert exact[0] - exact[1] == pytest.approx(float(layer[0][k] - layer[1][k]), abs=1e-9)


def test_the_layer_collides_and_its_next_output_does_not(model):
    n = 4
    family = model.float().family(n)
    X, Y = collide(family.aggregators, family.sphere).multisets()
    x, y = (outputs(model, [z.mid() for z in Z]) for Z in (X, Y))
    assert float((x - y)[: n - 1].abs().max()) < 1e-12
    assert float((x - y)[n - 1].abs()) > 1e-9
