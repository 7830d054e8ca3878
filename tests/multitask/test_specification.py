"""The two specifications and their mixes."""

import itertools

import pytest

from pna.multitask import DESCRIBED, RELEASED, Spec


def test_every_mix_has_a_name_that_gives_it_back():
    names = set()
    for sides in itertools.product(("described", "released"), repeat=4):
        spec = Spec(*sides)
        assert Spec.parse(str(spec)) == spec
        names.add(str(spec))
    assert len(names) == 16


def test_names():
    assert (str(DESCRIBED), str(RELEASED)) == ("described", "released")
    assert Spec.parse("D1+D3") == Spec(connected="released", evaluation_sizes="released")
    assert Spec.parse("released-D3") == Spec.parse("D1+D2+D4")
    assert Spec.of(("D1", "D5", "init")) == Spec.parse("D1")  # what is not of the data is passed over


@pytest.mark.parametrize("text", ["", "D5", "D1,D2", "Released"])
def test_unknown_specs(text):
    with pytest.raises(ValueError, match="spec must be described, released, "):
        Spec.parse(text)


def test_unknown_side():
    with pytest.raises(ValueError, match="toggling must be 'described' or 'released', got 'both'"):
        Spec(toggling="both")
