"""Sizes and counts of the paper's data sets under both specifications."""

import pytest

from pna.multitask import DESCRIBED, FAMILIES, RELEASED, Spec, Split, extrapolation, families, multitask


@pytest.mark.parametrize("spec", [DESCRIBED, RELEASED], ids=str)
def test_counts(spec):
    assert [len(split) for split in multitask(spec)] == [5120, 640, 1280]
    assert [len(split) for split in families(spec)] == [5120, 640, *[1280] * 10]
    assert [len(split) for split in extrapolation(spec)] == [5120, 640, *[1280] * 9]


def test_D3_sizes():
    assert [split.sizes for split in multitask(DESCRIBED)] == [tuple(range(15, 25))] * 3
    assert [split.sizes for split in multitask(RELEASED)] == [tuple(range(15, 25)), *[tuple(range(15, 20))] * 2]
    assert [split.per_size for split in multitask(RELEASED)] == [512, 128, 256]


def test_D4_sizes():
    assert extrapolation(DESCRIBED)[1].sizes == (25, 26, 27, 28, 29)
    assert extrapolation(RELEASED)[1].sizes == (15, 16, 17, 18, 19)
    assert extrapolation(Spec(extrapolation_validation="released")) == extrapolation(RELEASED)
    tests = [(split.sizes[0], split.sizes[-1] + 1) for split in extrapolation(DESCRIBED)[2:]]
    assert tests == [(20, 25), (25, 30), (30, 35), (35, 40), (40, 45), (45, 50), (60, 65), (75, 80), (95, 100)]


def test_one_test_per_family():
    assert [split.family for split in families(DESCRIBED)[2:]] == [family.name for family in FAMILIES]


def test_locate():
    split = Split("train", "train", (15, 17), 3)
    assert [split.locate(index) for index in range(6)] == [(15, 0), (15, 1), (15, 2), (17, 0), (17, 1), (17, 2)]
    with pytest.raises(IndexError, match="index must be from 0 to 5, got 6"):
        split.locate(6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": ()}, "sizes must name at least one"),
        ({"sizes": (15, 15)}, "sizes must differ"),
        ({"sizes": (1, 2)}, "N must be at least 2"),
        ({"per_size": 0}, "per_size must be a positive integer, got 0"),
        ({"role": "dev"}, "role must be one of"),
        ({"family": "wheel"}, "family must be one of"),
    ],
)
def test_bad_splits(change, message):
    arguments = {"name": "test", "role": "test", "sizes": (15,), "per_size": 2} | change
    with pytest.raises(ValueError, match=message):
        Split(**arguments)
