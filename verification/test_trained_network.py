import hashlib
import json
from fractions import Fraction

import pytest
import torch
from flint import ctx

from verification import interval_checker, trained_network
from verification.counterexamples import PNA_FAILS
from verification.smooth import ball, variables
from verification.theorem_1 import collide
from verification.trained_network import outputs


@pytest.mark.parametrize("n", [2, 4])
def test_the_exact_copy_is_the_layer(n):
    family = trained_network.family(n)
    for x in ([Fraction(k, 4) for k in range(n)], [Fraction(k * k, 3) - 2 for k in range(n)]):
        layer = outputs(x)
        with ctx.workprec(100):
            exact = [float(g(variables([ball(y) for y in x], False)).value.mid()) for g in family.aggregators]
        assert exact == pytest.approx(layer[: n - 1].tolist(), abs=1e-12)


def test_the_layer_collides_and_its_next_output_does_not():
    family = trained_network.family(4)
    X, Y = collide(family.aggregators, family.sphere).multisets()
    x, y = (outputs([z.mid() for z in Z]) for Z in (X, Y))
    assert float((x - y)[:3].abs().max()) < 1e-12
    assert float((x - y)[3].abs()) > 1e-9


def test_at_5_all_outputs_collide_with_the_four_aggregators():
    x, y = (outputs(Z) for Z in PNA_FAILS)
    assert len(x) == 16
    torch.testing.assert_close(x, y, rtol=0, atol=1e-12)
    assert float((outputs([1, 2, 3, 4, 5]) - x).abs().max()) > 1e-4


def test_the_stored_weights_are_those_of_the_training():
    fresh = trained_network.weights_from()
    assert json.loads(trained_network.WEIGHTS.read_text(encoding="utf-8")) == fresh, "run python -m verification find"
    assert fresh["source"] == hashlib.sha256(trained_network.TRAINING.read_bytes()).hexdigest()
    assert (fresh["cell"], fresh["seed"]) == ("multitask/described/pna/16", 9)


def test_the_checker_knows_these_weights():
    assert hashlib.sha256(trained_network.WEIGHTS.read_bytes()).hexdigest() == interval_checker.TRAINED
