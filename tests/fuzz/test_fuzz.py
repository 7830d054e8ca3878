"""A slice of the fuzzer, and that it notices what it looks for."""

import pytest
import torch

from pna import PNAConv
from tests.fuzz import calls, reference
from tests.fuzz.__main__ import run


def test_no_call_is_wrong_obscure_or_accepted():
    _, found = run(300, seed=1)
    assert found == []


@pytest.mark.parametrize(
    ("change", "word"),
    [(lambda m: m.sum(0), "WRONG"), (lambda m: m.mean(0) + 1e-4, "WRONG"), (lambda m: m.mean(0), "right")],
)
def test_a_wrong_aggregator_is_noticed(change, word):
    m = torch.randn(5, 3, dtype=torch.double)
    assert calls.verdict([(change(m), reference.aggregate("mean", m))], torch.double).startswith(word)


@pytest.mark.parametrize(
    ("call", "verdict"),
    [
        (lambda: PNAConv(0, 2, ["mean"], ["identity"]), "refused"),
        (lambda: PNAConv(1, 2, ["median"], ["identity"]), "OBSCURE"),
        (lambda: [][0], "OBSCURE"),
        (lambda: PNAConv(1, 2, ["mean"], ["identity"]), "ACCEPTED"),
    ],
)
def test_verdicts_on_refusals(call, verdict):
    assert calls.refusal("in_channels", call).startswith(verdict)
