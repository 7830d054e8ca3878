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
    sizes = sorted({len(pair[0]) for pair in pairs.values()})
    return f"each of {len(pairs)} pairs of multisets of {sizes[0]} to {sizes[-1]} elements fools exactly its set"


def _replay() -> str:
    """Check that PNAConv's outputs on the dyadic pair are equal in float32, and differ with the third moment."""
    names = list(counterexamples.EXACT)
    same = counterexamples.centre_outputs(counterexamples.PNA_FAILS_DYADIC, names, torch.float32)
    _require(torch.equal(*same), "equality, bit for bit, in float32")
    other = counterexamples.centre_outputs(counterexamples.PNA_FAILS_DYADIC, [*names, "moment3"])
    gap = float((other[0] - other[1]).abs().max())
    _require(gap > 1e-3, "separation by the third moment")
    return f"the layer's outputs are equal in all 32 bits; with the third moment added they differ by {gap:.2g}"


def _four() -> str:
    """Check that the four aggregates determine the middle two of four reals, and show the formulas."""
    total, product = counterexamples.four_reals_are_determined()
    return f"the middle two, p and q, have p + q = {_formula(total)} and p q = {_formula(sympy.expand(product))}"


def _formula(expression: sympy.Expr) -> str:
    """A polynomial as it is written by hand: 4 mean - max, mean^2."""
    return str(expression).replace("**", "^").replace("*", " ")


def _sum_fails() -> str:
    """Check that the pairs of SUM_FAILS have equal sums of k-th powers, and list them."""
    for k, (x, y) in counterexamples.SUM_FAILS.items():
        _require(sum(a**k for a in x) == sum(b**k for b in y), f"the sum of {k}-th powers")
    return "equal sums: " + "; ".join(f"x^{k} on {x} and {y}" for k, (x, y) in counterexamples.SUM_FAILS.items())


def _boxes(name: str) -> Callable[[], Seen]:
    """The check that the stored boxes of a family hold in the independent checker."""

    def evidence() -> Seen:
        proved = checker.check_file(CERTIFICATES / f"theorem_1_{name}.json")
        return checker.sizes(proved), f"the independent checker accepts all {len(proved)} boxes"

    return evidence


def _fresh_box() -> Seen:
    """Check that a collision of new random networks, found now, holds in the independent checker."""
    certificate = find.box(families.random_networks(7, seed=1))
    proved = checker.check_certificate(certificate)
    bits = Fraction(certificate["radii"][0]).denominator.bit_length() - 1
    return f"n = {proved.n}", f"for new random weights the independent checker accepts a box of radius 2^-{bits}"


def _trained_fails() -> str:
    """Check that the trained layer's outputs agree on a pair of 5 reals on which the four aggregators agree."""
    outputs = [trained_network.outputs(x) for x in counterexamples.PNA_FAILS]
    gap = float((outputs[0] - outputs[1]).abs().max())
    _require(gap < 1e-12, "agreement of the trained layer's outputs")
    count = len(outputs[0])
    agree = f"agree to {gap:.0e}" if gap else "are equal"
    return f"on two multisets of 5 reals that share the four aggregates, all {count} outputs {agree}"


def _two() -> Seen:
    """Check the stored sign changes, which prove Theorem 1 for n = 2."""
    proved = checker.check_file(CERTIFICATES / "theorem_1_n2.json")
    names = "; ".join(p.about for p in proved)
    return f"{len(proved)} aggregators", f"h is certified to change its sign for each of: {names}"


def _integers() -> str:
    """Check that the Prouhet–Tarry–Escott pairs differ and share their first n - 1 power sums."""
    for n, (x, y) in theorem_1.PROUHET_TARRY_ESCOTT.items():
        _require(all(sum(a**k for a in x) == sum(b**k for b in y) for k in range(1, n)), f"n = {n}")
        _require(sorted(x) != sorted(y), f"difference at n = {n}")
    return f"two different multisets for n = {', '.join(map(str, theorem_1.PROUHET_TARRY_ESCOTT))}"


def _identities() -> str:
    """Check Newton's identities and Vieta's formulas as polynomial identities, for n up to 8."""
    for n in range(1, 9):
        _require(proposition_1.newtons_identities(n) and proposition_1.vietas_formulas(n), f"n = {n}")
    return "both sides are the same polynomial for every n"


def _round_trip() -> str:
    """Check that random multisets of up to 64 rationals come back exactly from their moments."""
    draw = random.Random(0)
    for n in (1, 2, 3, 8, 16, 32, 64):
        values = [Fraction(draw.randint(-50, 50), draw.randint(1, 12)) for _ in range(n)]
        x = tuple(sorted(draw.choice(values) for _ in range(n)))
        _require(proposition_1.from_central_moments(*proposition_1.central_moments(x)) == x, f"n = {n}")
    return f"every multiset comes back exactly; the one of 64 has {len(set(x))} different elements"


def _signed_roots() -> str:
    """Check in balls that a signed root has the moment's sign and gives the moment back."""
    for value, k in ((Fraction(-2), 3), (Fraction(-1, 7), 5), (Fraction(3), 4)):
        root = proposition_1.signed_root(ball(value), k)
        _require((root**k).contains(ball(value)) and (root < 0) == (value < 0), f"the root of {value}")
    return "the k-th power of the signed root gives the moment back; the slips show what happens without the sign"


def _unknown_size() -> str:
    """Check that moments and s(d) · E[1] tell small multisets of any size apart, and moments and s(d) · mean do not."""
    multisets = [x for d in range(1, 5) for x in combinations_with_replacement(map(Fraction, range(-2, 3)), d)]

    def moments_of(x: tuple[Fraction, ...]) -> tuple:
        mu = sum(x) / len(x)
        return mu, *(sum((y - mu) ** k for y in x) / len(x) for k in range(2, 5))

    for scaled, what in ((lambda x: len(x), "E[1]"), (lambda x: len(x) * sum(x) / len(x), "mean")):
        count = len({(*moments_of(x), scaled(x)) for x in multisets})
        _require((count == len(multisets)) == (what == "E[1]"), f"moments and s(d) · {what}")
    return f"4 moments and s(d) · E[1] tell all {len(multisets)} multisets apart; 4 moments and s(d) · mean do not"


def _float_error() -> str:
    """Measure the error of Proposition 1's round trip in float32, float64 and 100 digits."""
    errors = {n: [proposition_1.float_error(n, kind) for kind in (np.float32, np.float64, 332)] for n in (4, 16, 24)}
    return "errors: " + "; ".join(f"n = {n}: " + ", ".join(f"{e:.0e}" for e in row) for n, row in errors.items())


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
        "the measured error, divided by the local Lipschitz constant times the rounding error of the moments, is "
        f"{shown}; {{-2, 1, 1}}, in which two elements coincide, loses half of its digits (error {losses[1]:.0e}), and "
        f"{{-2, 0, 2}} loses none ({losses[0]:.0e})"
    )


def _thousand() -> Seen:
    """Check that a thousand aggregates of a ReLU network agree on two multisets, and describe its linear pieces."""
    agreement = piecewise_linear.thousand_aggregates()
    widths = agreement.pieces.widths
    _require(agreement.difference < 1e-15, "agreement in float64")
    return (
        f"{agreement.aggregates} aggregates, n = 5",
        f"all aggregates are equal exactly, and in float64 to {agreement.difference:.0e} of the largest; the network "
        f"has {len(widths)} linear pieces in [-3, 3], of median width {np.median(widths):.2g}; the widest is "
        f"{widths.max():.2g} wide",
    )


def _linear_messages() -> Seen:
    """Check that M is linear in the trained PNA networks."""
    linear = piecewise_linear.linear_messages()
    _require(all(linear.values()), "that M is linear")
    return (
        f"all {len(linear)} trained PNA networks",
        "in every layer M is one linear layer or absent, so its only linear piece is the whole line",
    )


def _trained_pieces() -> str:
    """Measure the linear pieces of the second layer's messages, in networks trained on MNIST and CIFAR10."""
    parts = []
    for data in ("mnist", "cifar10"):
        measured = piecewise_linear.trained_pieces(f"{data}/released/pna/no-edges")
        kinks, widest = np.median(measured.kinks), np.median(measured.widest)
        _require(kinks > 0 and 0 < widest < 1, f"kinks of {data}")
        around = np.median(measured.around)
        widths = f"the piece around a node is {around:.2g} wide, the widest {widest:.2g}"
        parts.append(f"{data}: {kinks:.0f} kinks, {widths}")
    return f"medians over the nodes: {'; '.join(parts)}"


def _exact_codes() -> str:
    """Check that multisets are decoded exactly under linear, inverse linear and arbitrary scalers."""
    draw = random.Random(1)
    table = {d: Fraction(draw.randint(1, 10**6), 991) for d in range(1, 9)}
    for s in (theorem_2.linear(8), theorem_2.inverse_linear(8), table):
        code = theorem_2.Encoding.of(s)
        for size in range(1, 9):
            X = tuple(sorted(draw.randint(1, 60) for _ in range(size)))
            _require(code.decode(code.encode(X)) == X, f"{X}")
    return "every multiset is decoded exactly, with Z up to 60"


def _log_codes() -> str:
    """Check that multisets are decoded from balls under logarithmic amplification and attenuation."""
    draw = random.Random(2)
    with ctx.workprec(1024):
        for alpha in (1, -1):
            code = theorem_2.Encoding.of(theorem_2.logarithmic(10, alpha))
            for size in range(1, 11):
                X = tuple(sorted(draw.randint(1, 40) for _ in range(size)))
                _require(code.decode(code.encode(X), 40) == X, f"{X}")
    return f"every multiset is decoded from its ball at 1024 bits, with K = {code.K}"


def _bound() -> str:
    """Check an exact collision below Theorem 2's bound on K, and show the inequality behind the bound."""
    s = theorem_2.linear(6)
    K, X, Y = theorem_2.below_the_bound(s, 8, 9)
    code = theorem_2.Encoding(s, 8, K)
    _require(code.encode(X) == code.encode(Y), "the collision below the bound")
    step = _formula(theorem_2.size_step()).replace("rho", "ρ")
    step = f"1/(ρ - 1) - K = {step}, where ρ = s(|X'|)/s(|X''|) ≥ γ and a, m ≥ 0"
    return f"{step}; with K = {float(K):.6f}, just below 5/8, {X} and {Y} collide"


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
    return (
        "without K, {a} and {a, b, b} collide at N = 4, and {a} and {a, a, b, b, b, b, b} at N = 15; in base 5, "
        "{a, 5 × c} and {6 × b} collide"
    )


def _uniform() -> str:
    """Check that the moments of U[0, L] scale as L, L^n and 1 in their three forms."""
    forms = {n: moments.uniform_moment(n) for n in (2, 4, 6, 8)}
    for n, form in forms.items():
        degrees = [moments.degree_in(form[key]) for key in ("root", "plain", "standardised")]
        _require(degrees == [1, n, 0], f"the scaling of n = {n}")
    return f"the three forms have the degrees 1, n and 0 in L; M_4 = {forms[4]['root']}"


def _limits() -> str:
    """Check that power means lie between bounds that meet at max and at min."""
    x = [Fraction(1, 3), Fraction(2), Fraction(5), Fraction(5)]
    _require(all(moments.power_mean_bounds(x, n) for n in (1, 2, 10, 200, -1, -10, -200)), "the bounds")
    _require(moments.bounds_meet(), "the limit")
    return "the bounds hold for |n| up to 200, and their limits are computed symbolically"


def _softmax() -> str:
    """Check Chebyshev's sum identity, and min < softmin < mean < softmax < max on an example in balls."""
    _require(all(moments.chebyshev_identity(d) for d in range(1, 9)), "Chebyshev's identity")
    x = [Fraction(-2), Fraction(1, 3), Fraction(1)]
    low, high = moments.softmin_ball(x), moments.softmax_ball(x)
    mean = ball(sum(x) / 3)
    _require(bool(arb(-2) < low < mean < high < arb(1)), "min < softmin < mean < softmax < max")
    return (
        "the identity holds for d = 1 … 8, and its terms have one sign because exp increases; the order is checked on "
        "{-2, 1/3, 1} in balls"
    )


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
    return "at degree 8, normalised at degree 4, the linear scaler amplifies by 4096 and the logarithmic one by 43"


def _certificates() -> str:
    """Check every stored certificate with the independent checker."""
    proved = [checker.check_file(path) for path in sorted(CERTIFICATES.glob("*.json"))]
    return f"all {sum(map(len, proved))} certificates in {len(proved)} files hold"


_NEWTON = "Newton's iteration, then Krawczyk's test; checked again by the interval Newton test"
_INSTANCE = "The intervals certify instances of the theorem, not the theorem itself."
CHECKS: list[Check] = [
    Check("fails/subsets", "Figure 1: each set of aggregators fails where the others do not", EXACT,
          "exhaustive search", "all 15 sets of {mean, std, max, min}",
          "The pairs are for one layer with scalar features.", _subsets),
    Check("sum-continuous/powers", "Sum fails on continuous features", EXACT, "integer pairs",
          "x, x², x³ before the sum", "For any continuous map it follows from Theorem 1 with n = 2.", _sum_fails),
    Check("fails/four-reals", "PNA's four aggregators separate multisets of at most 4 reals", EXACT,
          "polynomial identity (sympy)", "all reals",
          "Separating up to 4 reals assumes a known size; it is also proved formally.", _four),
    Check("fails/five-reals", "PNA's four aggregators do not separate all multisets of 5 reals", EXACT,
          "rational pair, replayed through pna.PNAConv",
          "float32, bit for bit", "In the replay, weights are multiples of 1/8, so that messages are exact.", _replay),
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
          "intermediate value theorem: ball arithmetic shows that h is finite and changes its sign", "", _INSTANCE,
          _two),
    Check("theorem1/integers", "Theorem 1: integer collisions of n - 1 power sums", EXACT, "integers", "n = 2 … 10, 12",
          "The integer collisions were known.", _integers),
    Check("fails/trained", "In the trained network, PNA's four aggregators do not separate all multisets of 5 reals",
          MEASURED, "replayed through pna.PNAConv in float64", "n = 5",
          "In the trained network, neighbours differ in one input feature only, and messages are linear in it.",
          _trained_fails),
    Check("proposition1/identities", "Proposition 1: Newton's identities and Vieta's formulas hold", EXACT,
          "polynomial identities (sympy)", "n = 1 … 8",
          "The identities have the corrected index; for all n they are proved formally.", _identities),
    Check("proposition1/round-trip", "Proposition 1: a multiset comes back from its moments", SAMPLED,
          "exact over ℚ (flint)", "n = 1, 2, 3, 8, 16, 32, 64, repeated elements",
          "In the round trip, elements are rational, and odd moments keep their sign.", _round_trip),
    Check("proposition1/signed-root", "Proposition 1: odd moments need the signed root", INTERVAL, "ball arithmetic",
          "k = 3, 4, 5", "", _signed_roots),
    Check("proposition1/unknown-size", "Proposition 1 for an unknown size", EXACT, "exhaustion",
          "sizes 1 … 4, elements -2 … 2", "", _unknown_size),
    Check("piecewise-linear/thousand",
          "A PNA layer with ReLU messages gives two different multisets of 5 the same output", EXACT,
          "rationals, and float64 for comparison", "",
          "Weights are random, and both multisets lie in one linear piece.", _thousand),
    Check("piecewise-linear/linear", "M is linear in the trained PNA networks", MEASURED, "the modules of results/", "",
          "This holds within a layer; features that enter later layers have passed activations.", _linear_messages),
    Check("piecewise-linear/trained", "How wide the linear pieces of trained messages are", MEASURED,
          "kinks of the second layer's messages over a node's brightness", "20 nodes each, brightness 0 to 1",
          "Graphs are random, of 75 nodes; a node's neighbours stay fixed.", _trained_pieces),
    Check("lipschitz/floats", "The conditioning of Proposition 1's inverse explains its loss of digits", MEASURED,
          "the exact local Lipschitz constant, compared with the measured error", "float64",
          "The prediction is of first order, on one multiset per n.", _lipschitz),
    Check("proposition1/floats", "Proposition 1 in floating point", MEASURED, "round trip in each precision",
          "float32, float64, 100 digits",
          "Errors in floating point are those of one multiset per n, computed exactly; they bound no others.",
          _float_error),
    Check("theorem2/exact-codes", "Theorem 2: linear, inverse linear and arbitrary scalers", SAMPLED, "exact over ℚ",
          "sizes up to 8", "For every scaler the theorem is proved formally.", _exact_codes),
    Check("theorem2/log-codes", "Theorem 2: logarithmic amplification and attenuation", SAMPLED, "ball arithmetic",
          "sizes up to 10", "With logarithmic scalers the precision must grow with Z.", _log_codes),
    Check("theorem2/bound", "Theorem 2: the bound on K", EXACT,
          "symbolic computation, and an exact collision below the bound", "any positive scaler",
          "K ≥ 1/(N (γ - 1)) already suffices; just below it, collisions exist for rational K.", _bound),
    Check("theorem2/hypotheses", "Theorem 2: no hypothesis can be dropped", EXACT, "exact collisions",
          "K, injectivity, scaler, base", "", _hypotheses),
    Check("linear-moments/uniform", "Moments of U[0, L] scale as L, L^n and 1", EXACT, "integral (sympy)",
          "n = 2, 4, 6, 8", "Odd moments of U[0, L] are 0.", _uniform),
    Check("limits/bounds", "max and min as limits of root moments", EXACT, "bounds and a symbolic limit",
          "|n| up to 200", "Values must be positive.", _limits),
    Check("softmax/chebyshev", "softmax and softmin lie between mean and extreme", EXACT, "polynomial identity",
          "sizes up to 8", "The same identity holds for any size.", _softmax),
    Check("scaler-injective/derivative", "S(d, α) is injective for d > 0, α ≠ 0", EXACT, "symbolic derivative",
          "all d, α", "With α = 0 nothing is scaled.", _injective),
    Check("depth/regular", "Scalers over depth: linear against logarithmic", MEASURED, "on networkx regular graphs",
          "12 layers", "Both scalers amplify exponentially with depth, with different bases.", _depth),
    Check("certificates/all", "All certificates", EXACT, "independent checker", "certificates/*.json",
          "The checker shares no code with the finder.", _certificates),
]  # fmt: skip
"""The rows of the report, beside what is proved formally."""
