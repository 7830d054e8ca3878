"""The rows of the report: every statement, how it is checked and in what range, and the function that checks it."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
import sympy
import torch
from flint import arb, ctx

from verification import (
    checker,
    counterexamples,
    families,
    find,
    moments,
    piecewise_linear,
    proposition_1,
    scalers,
    theorem_1,
    theorem_2,
    trained_network,
)
from verification.smooth import ball

__all__ = ["CHECKS", "EXACT", "INTERVAL", "MEASURED", "SAMPLED", "Check"]

CERTIFICATES = Path(__file__).parent / "certificates"
EXACT, INTERVAL = "exact computation", "certified interval"
SAMPLED, MEASURED = "sampled", "measured"
"""The kinds of evidence of a check; `evidence` adds what is proved formally."""

Seen = str | tuple[str, str]


@dataclass(frozen=True)
class Check:
    """A row of the report; `evidence` does the check and says what it saw, or raises.

    `id` begins with its topic: the id of the claim that it is evidence for, if there is one. `range` is what it ranges
    over; where it is empty, `evidence` says that as well, from what it checked.
    """

    id: str
    statement: str
    kind: str
    method: str
    range: str
    caveat: str
    evidence: Callable[[], Seen]

    def run(self) -> tuple[str, str]:
        """Do the check; return its range and the evidence."""
        seen = self.evidence()
        return seen if isinstance(seen, tuple) else (self.range, seen)


def _require(condition: bool, what: str) -> None:
    """Raise AssertionError, which names what does not hold, unless the condition is true."""
    if not condition:
        raise AssertionError(f"{what} does not hold")


def _subsets() -> str:
    """Check that for each of the 15 sets of aggregators there is a pair on which exactly these agree."""
    pairs = {agree: counterexamples.separating_pair(agree) for agree in counterexamples.subsets()}
    for agree, pair in pairs.items():
        _require(counterexamples.agreement(pair) == agree, f"the pair of {sorted(agree)}")
    return f"{len(pairs)} pairs; sizes {sorted({len(pair[0]) for pair in pairs.values()})}"


def _replay() -> str:
    """Check that PNAConv's outputs on the dyadic pair are equal in float32, and differ with the third moment."""
    names = list(counterexamples.EXACT)
    same = counterexamples.centre_outputs(counterexamples.PNA_FAILS_DYADIC, names, torch.float32)
    _require(torch.equal(*same), "equality, bit for bit, in float32")
    other = counterexamples.centre_outputs(counterexamples.PNA_FAILS_DYADIC, [*names, "moment3"])
    gap = float((other[0] - other[1]).abs().max())
    _require(gap > 1e-3, "separation by the third moment")
    return f"layer outputs equal in all 32 bits; with the third moment they differ by {gap:.2g}"


def _four() -> str:
    """Check that the four aggregates determine the middle two of four reals, and show the formulas."""
    total, product = counterexamples.four_reals_are_determined()
    return f"p + q = {total}; p q = {sympy.expand(product)}"


def _sum_fails() -> str:
    """Check that the pairs of SUM_FAILS have equal sums of k-th powers, and list them."""
    for k, (x, y) in counterexamples.SUM_FAILS.items():
        _require(sum(a**k for a in x) == sum(b**k for b in y), f"the sum of {k}-th powers")
    return "; ".join(f"x^{k}: {x} and {y}" for k, (x, y) in counterexamples.SUM_FAILS.items())


def _boxes(name: str) -> Callable[[], Seen]:
    """The check that the stored boxes of a family hold in the independent checker."""

    def evidence() -> Seen:
        proved = checker.check_file(CERTIFICATES / f"theorem_1_{name}.json")
        return checker.sizes(proved), f"{len(proved)} boxes hold in the independent checker"

    return evidence


def _fresh_box() -> Seen:
    """Check that a collision of new random networks, found now, holds in the independent checker."""
    certificate = find.box(families.random_networks(7, seed=1))
    proved = checker.check_certificate(certificate)
    bits = Fraction(certificate["radii"][0]).denominator.bit_length() - 1
    return f"n = {proved.n}", f"new random weights; the independent checker accepts a box of radius 2^-{bits}"


def _trained_fails() -> str:
    """Check that the trained layer's outputs agree on a pair of 5 reals on which the four aggregators agree."""
    outputs = [trained_network.outputs(x) for x in counterexamples.PNA_FAILS]
    gap = float((outputs[0] - outputs[1]).abs().max())
    _require(gap < 1e-12, "agreement of the trained layer's outputs")
    return f"all {len(outputs[0])} outputs agree on a pair of 5 reals on which the four do, to {gap:.0e} in float64"


def _two() -> Seen:
    """Check the stored sign changes, which prove Theorem 1 for n = 2."""
    proved = checker.check_file(CERTIFICATES / "theorem_1_n2.json")
    return f"{len(proved)} aggregators", "; ".join(p.about for p in proved) + ": each certainly changes its sign"


def _integers() -> str:
    """Check that the Prouhet–Tarry–Escott pairs differ and share their first n - 1 power sums."""
    for n, (x, y) in theorem_1.PROUHET_TARRY_ESCOTT.items():
        _require(all(sum(a**k for a in x) == sum(b**k for b in y) for k in range(1, n)), f"n = {n}")
        _require(sorted(x) != sorted(y), f"difference at n = {n}")
    return f"n = {', '.join(map(str, theorem_1.PROUHET_TARRY_ESCOTT))}"


def _identities() -> str:
    """Check Newton's identities and Vieta's formulas as polynomial identities, for n up to 8."""
    for n in range(1, 9):
        _require(proposition_1.newtons_identities(n) and proposition_1.vietas_formulas(n), f"n = {n}")
    return "equal polynomials for every n"


def _round_trip() -> str:
    """Check that random multisets of up to 64 rationals come back exactly from their moments."""
    draw = random.Random(0)
    for n in (1, 2, 3, 8, 16, 32, 64):
        values = [Fraction(draw.randint(-50, 50), draw.randint(1, 12)) for _ in range(n)]
        x = tuple(sorted(draw.choice(values) for _ in range(n)))
        _require(proposition_1.from_central_moments(*proposition_1.central_moments(x)) == x, f"n = {n}")
    return f"exact; at n = 64 with {len(set(x))} different elements"


def _signed_roots() -> str:
    """Check in balls that a signed root has the moment's sign and gives the moment back."""
    for value, k in ((Fraction(-2), 3), (Fraction(-1, 7), 5), (Fraction(3), 4)):
        root = proposition_1.signed_root(ball(value), k)
        _require((root**k).contains(ball(value)) and (root < 0) == (value < 0), f"the root of {value}")
    return "the k-th power of the signed root is the moment again; without the sign see the slips"


def _unknown_size() -> str:
    """Check that moments and s(d) · E[1] tell small multisets of any size apart, and moments and s(d) · mean do not."""
    multisets = [x for d in range(1, 5) for x in combinations_with_replacement(map(Fraction, range(-2, 3)), d)]

    def moments_of(x: tuple[Fraction, ...]) -> tuple:
        mu = sum(x) / len(x)
        return mu, *(sum((y - mu) ** k for y in x) / len(x) for k in range(2, 5))

    for scaled, what in ((lambda x: len(x), "E[1]"), (lambda x: len(x) * sum(x) / len(x), "mean")):
        count = len({(*moments_of(x), scaled(x)) for x in multisets})
        _require((count == len(multisets)) == (what == "E[1]"), f"moments and s(d) · {what}")
    return f"of {len(multisets)} multisets, 4 moments with s(d) · E[1] tell all apart; with s(d) · mean they do not"


def _float_error() -> str:
    """Measure the error of Proposition 1's round trip in float32, float64 and 100 digits."""
    errors = {n: [proposition_1.float_error(n, kind) for kind in (np.float32, np.float64, 332)] for n in (4, 16, 24)}
    return "; ".join(f"n = {n}: " + ", ".join(f"{e:.0e}" for e in row) for n, row in errors.items())


def _lipschitz() -> str:
    """Check that the loss of digits in float64 is about what the conditioning of Proposition 1's inverse allows.

    To first order the prediction is the most that rounding each moment once can cause; more than that is rounded.
    """
    shares = {n: proposition_1.float_error(n, np.float64) / proposition_1.predicted_error(proposition_1.sample(n))
              for n in (4, 8, 16, 24, 32)}  # fmt: skip
    _require(all(0.01 < share < 3 for share in shares.values()), "the prediction of the loss")
    apart, together = (tuple(map(Fraction, x)) for x in ((-2, 0, 2), (-2, 1, 1)))
    losses = [proposition_1.float_error(3, np.float64, x) for x in (apart, together)]
    _require(losses[0] < 1e-14 and 1e-10 < losses[1] < 1e-6, "the loss of half of the digits")
    shown = ", ".join(f"n = {n}: {share:.2g}" for n, share in shares.items())
    return (
        f"measured loss over the local Lipschitz constant times the rounding of the moments: {shown}; where two "
        f"elements meet, {{-2, 1, 1}}: {losses[1]:.0e}, and {{-2, 0, 2}}: {losses[0]:.0e}"
    )


def _thousand() -> Seen:
    """Check that a thousand aggregates of a ReLU network agree on two multisets, and describe its linear pieces."""
    agreement = piecewise_linear.thousand_aggregates()
    widths = agreement.pieces.widths
    _require(agreement.difference < 1e-15, "agreement in float64")
    return (
        f"{agreement.aggregates} aggregates, n = 5",
        f"equal exactly, and in float64 to {agreement.difference:.0e} of the largest; {len(widths)} linear pieces in "
        f"[-3, 3], of median width {np.median(widths):.2g}, the widest {widths.max():.2g}",
    )


def _linear_messages() -> Seen:
    """Check that M is linear in the trained PNA networks."""
    linear = piecewise_linear.linear_messages()
    _require(all(linear.values()), "that M is linear")
    return (
        f"all {len(linear)} trained PNA networks",
        "M is one linear layer, or absent, in every layer: one piece, the whole line",
    )


def _trained_pieces() -> str:
    """Measure the linear pieces of the second layer's messages, in networks trained on MNIST and CIFAR10."""
    parts = []
    for data in ("mnist", "cifar10"):
        measured = piecewise_linear.trained_pieces(f"{data}/released/pna/no-edges")
        kinks, widest = np.median(measured.kinks), np.median(measured.widest)
        _require(kinks > 0 and 0 < widest < 1, f"kinks of {data}")
        around = np.median(measured.around)
        parts.append(f"{data}: {kinks:.0f} kinks, the piece around a node {around:.2g} wide, the widest {widest:.2g}")
    return "; ".join(parts) + " (medians)"


def _exact_codes() -> str:
    """Check that multisets are decoded exactly under linear, inverse linear and arbitrary scalers."""
    draw = random.Random(1)
    table = {d: Fraction(draw.randint(1, 10**6), 991) for d in range(1, 9)}
    for s in (theorem_2.linear(8), theorem_2.inverse_linear(8), table):
        code = theorem_2.Encoding.of(s)
        for size in range(1, 9):
            X = tuple(sorted(draw.randint(1, 60) for _ in range(size)))
            _require(code.decode(code.encode(X)) == X, f"{X}")
    return "every multiset decoded exactly; Z up to 60"


def _log_codes() -> str:
    """Check that multisets are decoded from balls under logarithmic amplification and attenuation."""
    draw = random.Random(2)
    with ctx.workprec(1024):
        for alpha in (1, -1):
            code = theorem_2.Encoding.of(theorem_2.logarithmic(10, alpha))
            for size in range(1, 11):
                X = tuple(sorted(draw.randint(1, 40) for _ in range(size)))
                _require(code.decode(code.encode(X), 40) == X, f"{X}")
    return f"every multiset decoded from its ball at 1024 bits; K = {code.K}"


def _bound() -> str:
    """Check an exact collision below Theorem 2's bound on K, and show the inequality behind the bound."""
    s = theorem_2.linear(6)
    K, X, Y = theorem_2.below_the_bound(s, 8, 9)
    code = theorem_2.Encoding(s, 8, K)
    _require(code.encode(X) == code.encode(Y), "the collision below the bound")
    step = f"1/(ρ - 1) - K = {theorem_2.size_step()}, ρ = s(|X'|)/s(|X''|) ≥ γ"
    return f"{step}; with K = {float(K):.6f} < 5/8, {X} and {Y} collide"


def _hypotheses() -> str:
    """Check the exact collisions that occur when one of Theorem 2's hypotheses is dropped."""
    for N, (X, Y) in theorem_2.without_offset().items():
        code = theorem_2.Encoding(theorem_2.log_ratios([len(X), len(Y)]), N, Fraction(0))
        _require(code.encode(X) == code.encode(Y), f"the collision without K, N = {N}")
    for s in ({1: Fraction(3), 2: Fraction(1), 3: Fraction(3)}, {1: Fraction(1), 2: Fraction(1)}):
        code = theorem_2.Encoding(s, 5, Fraction(100))
        X, Y = theorem_2.not_injective(s)
        _require(code.encode(X) == code.encode(Y), "the collision of a scaler that repeats a value")
    code = theorem_2.Encoding(theorem_2.linear(6), 5, Fraction(100))
    X, Y = theorem_2.base_too_small(5)
    _require(code.encode(X) == code.encode(Y), "the collision of a base that is too small")
    return "without K: {a}, {a, b, b} at N = 4; {a}, {a, a, b, b, b, b, b} at N = 15; base 5: {a, 5 × c}, {6 × b}"


def _uniform() -> str:
    """Check that the moments of U[0, L] scale as L, L^n and 1 in their three forms."""
    forms = {n: moments.uniform_moment(n) for n in (2, 4, 6, 8)}
    for n, form in forms.items():
        degrees = [moments.degree_in(form[key]) for key in ("root", "plain", "standardised")]
        _require(degrees == [1, n, 0], f"the scaling of n = {n}")
    return f"degrees 1, n, 0 in L; M_4 = {forms[4]['root']}"


def _limits() -> str:
    """Check that power means lie between bounds that meet at max and at min."""
    x = [Fraction(1, 3), Fraction(2), Fraction(5), Fraction(5)]
    _require(all(moments.power_mean_bounds(x, n) for n in (1, 2, 10, 200, -1, -10, -200)), "the bounds")
    _require(moments.bounds_meet(), "the limit")
    return "bounds at |n| up to 200, limit symbolic"


def _softmax() -> str:
    """Check Chebyshev's sum identity, and min < softmin < mean < softmax < max on an example in balls."""
    _require(all(moments.chebyshev_identity(d) for d in range(1, 9)), "Chebyshev's identity")
    x = [Fraction(-2), Fraction(1, 3), Fraction(1)]
    low, high = moments.softmin_ball(x), moments.softmax_ball(x)
    mean = ball(sum(x) / 3)
    _require(bool(arb(-2) < low < mean < high < arb(1)), "min < softmin < mean < softmax < max")
    return "the identity for d = 1 … 8; its terms have one sign since exp increases; {-2, 1/3, 1} in balls"


def _injective() -> str:
    """Check that S'/S has the sign of α, so that S(d, α) is injective in d, and show it."""
    slope = scalers.logarithmic_derivative()
    _require(bool(slope.is_positive), "the sign of the derivative")
    return f"S'/S = α · {slope}"


def _depth() -> str:
    """Check the growth of a constant signal over 12 layers under the linear and the logarithmic scaler."""
    for kind, base in (("linear", 2.0), ("logarithmic", np.log(9) / np.log(5))):
        growth = scalers.amplification_on_regular_graph(8, 4, 12, kind)
        _require(bool(torch.allclose(growth, torch.tensor(base**12, dtype=torch.float64))), f"the {kind} growth")
    return "12 layers, degree 8, normalised at 4: 4096 and 43"


def _certificates() -> str:
    """Check every stored certificate with the independent checker."""
    proved = [checker.check_file(path) for path in sorted(CERTIFICATES.glob("*.json"))]
    return f"{sum(map(len, proved))} certificates in {len(proved)} files hold"


_NEWTON = "Newton's iteration, then Krawczyk's test; re-checked by the interval Newton test"
_INSTANCE = "instances of the theorem"
CHECKS: list[Check] = [
    Check("fails/subsets", "Figure 1: each set of aggregators fails where the others do not", EXACT,
          "exhaustive search", "all 15 sets of {mean, std, max, min}", "one layer, scalar features", _subsets),
    Check("sum-continuous/powers", "Sum fails on continuous features", EXACT, "integer pairs",
          "x, x², x³ before the sum", "any continuous map: Theorem 1 with n = 2", _sum_fails),
    Check("fails/four-reals", "PNA's four aggregators separate multisets of at most 4 reals", EXACT,
          "polynomial identity (sympy)", "all reals", "size known; proved formally as well", _four),
    Check("fails/five-reals", "PNA's four aggregators fail at 5", EXACT, "rational pair, replayed through pna.PNAConv",
          "float32, bit for bit", "weights in eighths, so that messages are exact", _replay),
    *(
        Check(f"theorem1/{name}", f"Theorem 1: {what}", INTERVAL, _NEWTON, "", _INSTANCE, _boxes(name))
        for name, what in (
            ("power_sums", "power sums"),
            ("power_means", "power means"),
            ("log_sum_exp", "log-sum-exp"),
            ("random_networks", "random networks"),
            ("paper_smooth", "the first n - 1 of mean, std, softmax and softmin"),
            ("trained_network", "the first n - 1 outputs of the trained network's first layer"),
        )
    ),
    Check("theorem1/fresh", "Theorem 1: new random networks, found in this run", INTERVAL, _NEWTON, "", _INSTANCE,
          _fresh_box),
    Check("theorem1/n2", "Theorem 1 for n = 2: eight aggregators, smooth or not", INTERVAL,
          "intermediate value theorem; h is finite and changes its sign, in balls", "", _INSTANCE, _two),
    Check("theorem1/integers", "Theorem 1: integer collisions of n - 1 power sums", EXACT, "integers", "n = 2 … 10, 12",
          "known solutions", _integers),
    Check("fails/trained", "PNA's four aggregators fail at 5 in the trained network", MEASURED,
          "replayed through pna.PNAConv", "n = 5",
          "neighbours that differ in one input feature; the messages are linear in it", _trained_fails),
    Check("proposition1/identities", "Proposition 1: Newton's identities, Vieta's formulas", EXACT,
          "polynomial identities (sympy)", "n = 1 … 8", "index corrected; proved formally for all n", _identities),
    Check("proposition1/round-trip", "Proposition 1: multiset → moments → multiset", SAMPLED, "exact over ℚ (flint)",
          "n = 1, 2, 3, 8, 16, 32, 64, repeated elements", "rational elements; odd moments signed", _round_trip),
    Check("proposition1/signed-root", "Proposition 1: odd moments need the signed root", INTERVAL, "ball arithmetic",
          "k = 3, 4, 5", "", _signed_roots),
    Check("proposition1/unknown-size", "Proposition 1, unknown size", EXACT, "exhaustion",
          "sizes 1 … 4, elements -2 … 2", "", _unknown_size),
    Check("piecewise-linear/thousand",
          "A PNA layer with ReLU messages does not tell two different multisets of 5 apart", EXACT,
          "rationals, and float64 beside them", "", "random weights; the pair lies in one linear piece", _thousand),
    Check("piecewise-linear/linear", "M is linear in the trained PNA networks", MEASURED, "the modules of results/", "",
          "within one layer; features that enter later layers have passed activations", _linear_messages),
    Check("piecewise-linear/trained", "How wide the linear pieces of trained messages are", MEASURED,
          "kinks of the second layer's messages over a node's brightness", "20 nodes each, brightness 0 to 1",
          "random graphs of 75 nodes; neighbours stay as they are", _trained_pieces),
    Check("lipschitz/floats", "The conditioning of Proposition 1's inverse explains its loss of digits", MEASURED,
          "the exact local Lipschitz constant beside the measured error", "float64",
          "first order, one multiset per n", _lipschitz),
    Check("proposition1/floats", "Proposition 1 in floating point", MEASURED, "measured",
          "float32, float64, 100 digits", "one multiset per n, its error computed exactly; not a bound for others",
          _float_error),
    Check("theorem2/exact-codes", "Theorem 2: linear, inverse linear and arbitrary scalers", SAMPLED, "exact over ℚ",
          "sizes up to 8", "proved formally for every scaler", _exact_codes),
    Check("theorem2/log-codes", "Theorem 2: logarithmic amplification and attenuation", SAMPLED, "ball arithmetic",
          "sizes up to 10", "precision must grow with Z", _log_codes),
    Check("theorem2/bound", "Theorem 2: the bound on K", EXACT, "symbolic, and an exact collision below it",
          "any positive scaler",
          "K ≥ 1/(N (γ - 1)) already suffices; below it there are collisions for rational K near to it", _bound),
    Check("theorem2/hypotheses", "Theorem 2: no hypothesis can be dropped", EXACT, "exact collisions",
          "K, injectivity, scaler, base", "", _hypotheses),
    Check("linear-moments/uniform", "Moments of U[0, L] scale as L, L^n and 1", EXACT, "integral (sympy)",
          "n = 2, 4, 6, 8", "odd ones are 0", _uniform),
    Check("limits/bounds", "max and min as limits of root moments", EXACT, "bounds, symbolic limit", "|n| up to 200",
          "positive values only", _limits),
    Check("softmax/chebyshev", "softmax and softmin lie between mean and extreme", EXACT, "polynomial identity",
          "sizes up to 8", "any size by the same identity", _softmax),
    Check("scaler-injective/derivative", "S(d, α) is injective for d > 0, α ≠ 0", EXACT, "symbolic derivative",
          "all d, α", "α = 0 is no scaling", _injective),
    Check("depth/regular", "Scalers over depth: linear against logarithmic", MEASURED, "on networkx regular graphs",
          "12 layers", "both are exponential in depth; the base differs", _depth),
    Check("certificates/all", "All certificates", EXACT, "independent checker", "certificates/*.json",
          "shares no code with the finder", _certificates),
]  # fmt: skip
"""The rows of the report, beside what is proved formally."""
