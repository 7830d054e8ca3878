from fractions import Fraction
from itertools import combinations_with_replacement

import pytest
import sympy
from flint import arb, ctx
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from verification import theorem_2 as t2
from verification.theorem_2 import AmbiguousError, Encoding

checked = settings(derandomize=True, deadline=None, database=None, max_examples=60)
multisets = st.lists(st.integers(1, 50), min_size=1, max_size=6).map(lambda x: tuple(sorted(x)))
tables = st.lists(
    st.fractions(min_value=Fraction(1, 9), max_value=50, max_denominator=9), min_size=6, max_size=6, unique=True
)


@checked
@given(multisets, st.sampled_from([t2.linear(6), t2.inverse_linear(6)]))
def test_exact_round_trip(X, s):
    code = Encoding.of(s)
    assert code.decode(code.encode(X)) == X


@checked
@given(multisets, tables)
def test_an_arbitrary_injective_table(X, values):
    code = Encoding.of(dict(enumerate(values, start=1)))
    assert code.decode(code.encode(X)) == X


@checked
@given(multisets, st.sampled_from([1, -1]))
def test_logarithmic_scalers_in_balls(X, alpha):
    with ctx.workprec(800):
        code = Encoding.of(t2.logarithmic(6, alpha))
        assert code.decode(code.encode(X), depth=50) == X


def test_a_ball_that_is_too_wide_is_refused():
    with ctx.workprec(800):
        code = Encoding.of(t2.logarithmic(6, 1))
        h = code.encode((1, 20))
        with pytest.raises(AmbiguousError, match="too wide"):
            code.decode(arb(h.mid(), 1e-10), depth=20)
        with pytest.raises(AmbiguousError, match="may be any"):
            code.decode(arb(h.mid(), 10), depth=20)


def test_sum_is_the_linear_case():
    code = Encoding.of(t2.linear(4))
    assert code.encode((1, 3, 3)) == sum(Fraction(1, code.N**z) + code.K for z in (1, 3, 3))


def test_gamma_is_over_different_scalers_only():
    assert t2.gamma(t2.linear(5)) == Fraction(5, 4)
    assert t2.gamma(t2.inverse_linear(5)) == Fraction(5, 4)
    assert t2.gamma({1: Fraction(7), 2: Fraction(2)}) == Fraction(7, 2)
    with pytest.raises(ValueError, match="two sizes"):
        t2.gamma({1: Fraction(1)})


@checked
@given(tables)
def test_the_constants_meet_the_hypotheses(values):
    s = dict(enumerate(values, start=1))
    code = Encoding.of(s)
    assert code.K > 1 / (t2.gamma(s) - 1)
    assert max(s) + 1 < code.N


def test_the_constants_meet_the_hypotheses_of_logarithms():
    with ctx.workprec(200):
        for alpha in (1, -1):
            s = t2.logarithmic(12, alpha)
            assert arb(int(Encoding.of(s).K)) > 1 / (t2.gamma(s) - 1)


@checked
@given(multisets, tables)
def test_the_size_is_read_off_before_the_digits(X, values):
    code = Encoding.of(dict(enumerate(values, start=1)))
    h = code.encode(X)
    assert code.size(h) == len(X)
    others = [d for d in code.s if d != len(X)]
    assert not any(code.K <= h / code.s[d] <= code.K + 1 for d in others)


@pytest.mark.parametrize("s", [t2.linear(6), t2.inverse_linear(6)])
@pytest.mark.parametrize("first", [0, 1])
def test_below_the_bound_there_is_a_collision(s, first):
    bound = Fraction(1, 8**first) / (t2.gamma(s) - 1)
    previous = Fraction(0)
    for last in (3, 6, 12):
        K, X, Y = t2.below_the_bound(s, 8, last, first)
        assert X != Y
        assert previous < K < bound
        code = Encoding(s, 8, K)
        assert code.encode(X) == code.encode(Y)
        safe = Encoding(s, 8, 1 / (t2.gamma(s) - 1) + Fraction(1, 1000))
        assert safe.encode(X) != safe.encode(Y)
        previous = K
    assert bound - K < Fraction(1, 10**6)


def test_with_too_small_an_offset_the_size_is_ambiguous():
    s = t2.linear(6)
    K, X, _ = t2.below_the_bound(s, 8, 9)
    code = Encoding(s, 8, K)
    with pytest.raises(AmbiguousError, match="may be any"):
        code.decode(code.encode(X))


def test_the_smaller_bound_suffices():
    """K ≥ 1/(N (γ - 1)): injective by exhaustion, on all multisets of at most 4 elements with Z ≤ 4."""
    s, N = t2.linear(4), 6
    code = Encoding(s, N, 1 / (N * (t2.gamma(s) - 1)))
    every = [X for d in s for X in combinations_with_replacement(range(1, 5), d)]
    assert len({code.encode(X) for X in every}) == len(every)


@pytest.mark.parametrize(("N", "pair"), t2.without_offset().items())
def test_without_the_offset_logarithms_collide(N, pair):
    X, Y = pair
    s = t2.log_ratios([len(X), len(Y)])
    assert Encoding(s, N, Fraction(0)).encode(X) == Encoding(s, N, Fraction(0)).encode(Y)
    assert Encoding(s, N, Fraction(40)).encode(X) != Encoding(s, N, Fraction(40)).encode(Y)
    with ctx.workprec(300):
        logarithms = {d: arb(d + 1).log() for d in (len(X), len(Y))}
        h = [Encoding(logarithms, N, Fraction(0)).encode(Z) for Z in pair]
        assert h[0].overlaps(h[1])


def test_the_pair_of_the_larger_base_meets_every_other_hypothesis():
    X, Y = t2.without_offset()[15]
    assert max(len(X), len(Y)) + 1 < 15


def test_log_ratios_are_those_of_the_logarithm():
    with ctx.workprec(200):
        for d, ratio in t2.log_ratios([1, 3, 7, 15]).items():
            assert (arb(d + 1).log() / arb(2).log()).overlaps(arb(int(ratio)))
    with pytest.raises(ValueError, match="power of 2"):
        t2.log_ratios([2])


@pytest.mark.parametrize("s", [{1: 1, 2: 1}, {1: 3, 2: 1, 3: 3}], ids=["mean alone", "a repeated value"])
def test_a_scaler_that_is_not_injective_collides(s):
    s = {d: Fraction(v) for d, v in s.items()}
    X, Y = t2.not_injective(s)
    for N, K in ((5, 100), (50, 7)):
        assert Encoding(s, N, Fraction(K)).encode(X) == Encoding(s, N, Fraction(K)).encode(Y)
    with pytest.raises(ValueError, match="is injective"):
        t2.not_injective(t2.linear(3))


@pytest.mark.parametrize("B", [2, 3, 5])
def test_a_base_that_is_too_small_carries(B):
    X, Y = t2.base_too_small(B)
    assert len(X) == len(Y)
    small, right = (Encoding(t2.linear(B + 1), N, Fraction(100)) for N in (B, B + 3))
    assert small.encode(X) == small.encode(Y)
    with pytest.raises(AmbiguousError, match="carry"):
        small.decode(small.encode(Y))
    assert right.decode(right.encode(X)) == X
    assert right.decode(right.encode(Y)) == Y


def test_the_inequality_of_the_proof():
    gap = t2.size_step()
    rho, a, m = (
        sorted(gap.free_symbols, key=lambda symbol: symbol.name, reverse=True)[0],
        *sympy.symbols("a m", nonnegative=True),
    )
    assert sympy.simplify(gap - (a + rho * m) / (rho - 1)) == 0


@checked
@given(st.lists(st.integers(-40, 40), min_size=1, max_size=6))
def test_an_infinite_feature_space(x):
    numbers = [t2.integers_to_naturals(y) for y in x]
    assume(max(numbers) > 8)
    code = Encoding.of(t2.linear(6))
    assert code.decode(code.encode(tuple(numbers))) == tuple(sorted(numbers))


def test_the_injection_is_one():
    images = {t2.integers_to_naturals(x) for x in range(-100, 101)}
    assert images == set(range(1, 202))
