"""The independent checker: re-checks every certificate of `certificates/` from what it says, and nothing else.

It imports nothing of this package but its own parts (`certificate`, `interval_checker`, `program_checker`):
aggregators, moments and encodings are evaluated here once more, by other formulas where there are any. A certificate is
a proof, not a seal: it is rejected when what it says is not proved by it, so a change that leaves a true and provable
statement is accepted. A file's certificates must be of the kind, and of the aggregators, that its statement is about.
"""

import itertools
import json
import math
import re
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from flint import arb, ctx

from verification.certificate import (
    BITS,
    CertificateError,
    ball,
    fields,
    name,
    names,
    natural,
    rational,
    rationals,
    read_json,
    require,
)
from verification.interval_checker import check_box, check_sign_change
from verification.program_checker import MOST_STEPS_EXACT, Terms, canonical_program, read_program

__all__ = ["STATEMENTS", "CertificateError", "Proved", "check_certificate", "check_directory", "check_file", "sizes"]


@dataclass(frozen=True)
class Proved:
    """What a certificate proves: its kind, the aggregators it is about, and the size of the multisets.

    `statement` is what it says, apart from its proof and in one form, so that nothing counts twice.
    """

    kind: str
    about: str
    n: int
    statement: Hashable = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Statement:
    """A file's statement, and the kinds of certificates and the aggregators (None: any) that it is about."""

    text: str
    kinds: frozenset[str]
    about: frozenset[str] | None = None


def _boxes(about: str) -> Statement:
    """The statement of a file of boxes about one family of aggregators."""
    return Statement(f"Theorem 1: {about}", frozenset({"box"}), frozenset({about}))


STATEMENTS: dict[str, Statement] = {
    "counterexamples": Statement(
        "figure 1: multisets that some aggregators do not tell apart", frozenset({"collision"})
    ),
    "prouhet_tarry_escott": Statement(
        "Theorem 1: n integers that share n - 1 power sums",
        frozenset({"collision"}),
        frozenset({"n - 1 power sums of integers"}),
    ),
    "theorem_1_n2": Statement(
        "Theorem 1, n = 2: continuous aggregators, by the intermediate value theorem", frozenset({"sign change"})
    ),
    "theorem_1_power_sums": _boxes("power sums"),
    "theorem_1_power_means": _boxes("power means"),
    "theorem_1_log_sum_exp": _boxes("log-sum-exp"),
    "theorem_1_random_networks": _boxes("random networks"),
    "theorem_1_paper_smooth": _boxes("the paper's smooth aggregators"),
    "theorem_1_trained_network": _boxes("trained PNA network"),
    "proposition_1": Statement("Proposition 1: multisets from their moments", frozenset({"moments"})),
    "theorem_2": Statement(
        "Theorem 2: multisets from the scaled mean, and collisions where a hypothesis is dropped",
        frozenset({"encoding", "encoding collision"}),
    ),
    "collide": Statement(
        "Theorem 1: a collision of given aggregators",
        frozenset({"box", "sign change", "exact collision"}),
        frozenset({"program"}),
    ),
}
"""What a file may state, by the name it has in `certificates/`; `collide` is what users' files state, of any name."""


def check_directory(directory: Path) -> list[str]:
    """Check every certificate file; return a line for each, or raise CertificateError at the first that fails."""
    files = sorted(directory.glob("*.json"))
    require(bool(files), f"{directory}: there are no certificates")
    return [f"{path.name}: {len(check_file(path))} certificates hold" for path in files]


def check_file(path: Path) -> list[Proved]:
    """Check one file; return what its certificates prove."""
    content = read_json(path)
    try:
        fields(content, {"statement", "certificates"}, "the file")
        statement = _statement(path.stem, content["statement"])
        certificates = content["certificates"]
        require(
            isinstance(certificates, list) and 0 < len(certificates) <= 1000, "there must be 1 to 1000 certificates"
        )
    except CertificateError as error:
        raise CertificateError(f"{path.name}: {error}") from error
    proved, stated = [], set()
    for i, certificate in enumerate(certificates):
        try:
            proved.append(check_certificate(certificate, path.parent))
            _fits(proved[-1], statement)
            require(proved[-1].statement not in stated, f"it states what another one states: n = {proved[-1].n} twice")
            stated.add(proved[-1].statement)
        except CertificateError as error:
            raise CertificateError(f"{path.name}, certificate {i}: {error}") from error
    return proved


def _statement(stem: str, text: object) -> Statement:
    """The statement that a file makes; a file named after a statement must make that one."""
    by_text = {statement.text: statement for statement in STATEMENTS.values()}
    name(text, by_text, "the statement")
    expected = STATEMENTS.get(stem, by_text[text])
    require(by_text[text] == expected, f"the statement of this file must be {expected.text!r}, got {text!r}")
    return expected


def _fits(proved: Proved, statement: Statement) -> None:
    """Reject a certificate whose kind, or whose aggregators, are not those of the file's statement."""
    require(proved.kind in statement.kinds, f"a {proved.kind} is no proof of {statement.text!r}")
    require(
        statement.about is None or proved.about in statement.about,
        f"it is about {proved.about}, and the file's statement is {statement.text!r}",
    )


def sizes(proved: Iterable[Proved]) -> str:
    """The sizes that were checked, in words: "n = 2 … 10, 12"."""
    numbers, parts = sorted({p.n for p in proved}), []
    for _, group in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run = [n for _, n in group]
        parts.append(f"{run[0]} … {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)))
    return f"n = {', '.join(parts)}"


def check_certificate(certificate: object, directory: Path | None = None) -> Proved:
    """What the certificate proves; raises CertificateError unless it does. Weights that it names are in `directory`."""
    require(isinstance(certificate, dict), "a certificate must be an object")
    kind = name(certificate.get("kind"), KINDS, "kind")
    wanted, check, statement = KINDS[kind]
    fields(certificate, {*wanted, "kind"}, f"a {kind}")
    values = {key: value for key, value in certificate.items() if key != "kind"}
    try:
        about, n = check(**values, directory=directory) if kind == "box" else check(**values)
    except CertificateError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, ArithmeticError, RecursionError) as error:
        raise CertificateError(f"cannot be evaluated: {type(error).__name__}: {str(error)[:200]}") from error
    return Proved(kind, about, n, (kind, _canonical({key: values[key] for key in statement})))


def _canonical(statement: dict) -> Hashable:
    """Canonical form of a statement, independent of orders that say nothing and of steps that a program does not use.

    The orders are those of a multiset's elements, of the two multisets, of temperatures and of a program's outputs.
    """
    multisets = {key: tuple(sorted(map(Fraction, statement.pop(key)))) for key in _MULTISETS if key in statement}
    pair = frozenset(multisets.pop(side) for side in ("first", "second") if side in multisets)
    for key in ("aggregator", "aggregators"):
        described = statement.get(key)
        if isinstance(described, dict) and described["name"] == "program":
            statement[key] = canonical_program(described)
        elif isinstance(described, dict) and "temperatures" in described:
            statement[key] = {**described, "temperatures": sorted(described["temperatures"])}
    return pair, tuple(multisets.items()), json.dumps(statement, sort_keys=True)


_MULTISETS = ("first", "second", "elements", "multiset")


MOST_BITS = 1_000
"""The longest element of a collision, over the common denominator of all."""
MOST_POWER_BITS = 60_000_000
"""The length of all powers that are summed: the longest element, times how many there are, times all orders."""


def _order(aggregator: str) -> int:
    """The highest power that an aggregator takes of its elements; an unknown one is refused."""
    if aggregator in ("mean", "std", "max", "min"):
        return 2 if aggregator == "std" else 1
    match = re.fullmatch(r"power sum ([1-9][0-9]?)", aggregator)
    require(match is not None, f"unknown aggregator {aggregator[:40]!r}: mean, std, max, min, power sum 1 to 99")
    return int(match[1])


def _aggregate(aggregator: str, x: list[int]) -> Fraction | int:
    """An aggregator of whole numbers; std by its square, as d Σ x² - (Σ x)² over d²."""
    d = len(x)
    if aggregator == "mean":
        return Fraction(sum(x), d)
    if aggregator == "std":
        return Fraction(d * sum(y * y for y in x) - sum(x) ** 2, d * d)
    if aggregator in ("max", "min"):
        return sorted(x)[-1 if aggregator == "max" else 0]
    order = _order(aggregator)
    return sum(y**order for y in x)


def _check_collision(first: object, second: object, agree: object, differ: object) -> tuple[str, int]:
    """Check that two multisets differ, that the aggregators of `agree` agree on them, and those of `differ` do not."""
    elements = [rationals(first, "first", 100), rationals(second, "second", 100)]
    require(sorted(elements[0]) != sorted(elements[1]), "the two multisets are the same")
    unit = math.lcm(*(q.denominator for q in itertools.chain(*elements)))
    x, y = ([int(q * unit) for q in side] for side in elements)  # scaling changes no agreement
    bits = max(abs(z) for z in [*x, *y]).bit_length()
    require(bits <= MOST_BITS, f"over their common denominator the elements have more than {MOST_BITS} bits")
    agree, differ = names(agree, "agree"), names(differ, "differ")
    require(len(agree) > 0, "no aggregator is said to agree")
    work = bits * (len(x) + len(y)) * sum(map(_order, [*agree, *differ]))
    require(work <= MOST_POWER_BITS, f"the powers have {work} bits in all, where {MOST_POWER_BITS} are allowed")
    for aggregator in agree:
        require(_aggregate(aggregator, x) == _aggregate(aggregator, y), f"{aggregator} differs")
    for aggregator in differ:
        require(_aggregate(aggregator, x) != _aggregate(aggregator, y), f"{aggregator} agrees")
    n = len(x)
    power_sums = len(y) == n and agree == [f"power sum {k}" for k in range(1, n)]
    about = "n - 1 power sums" + " of integers" * (unit == 1)
    return about if power_sums else " and ".join(agree), n


def _check_exact(aggregators: object, first: object, second: object) -> tuple[str, int]:
    """Check that a program has equal outputs on two different multisets of rationals, each in increasing order."""
    x, y = rationals(first, "first", 200), rationals(second, "second", 200)
    require(len(x) == len(y) >= 2 and len(x) <= LARGEST_SIZE, f"there must be two multisets of 2 to {LARGEST_SIZE}")
    require(x == sorted(x) and y == sorted(y), "the elements must be in increasing order")
    require(x != y, "the two multisets are the same")
    fields(aggregators, {"name", "steps", "outputs"}, "the aggregators")
    name(aggregators["name"], ["program"], "the aggregators' name")
    program, terms = read_program(aggregators["steps"], aggregators["outputs"], len(x), MOST_STEPS_EXACT), Terms()
    values = [terms.outputs(program, side) for side in (x, y)]
    for k, (a, b) in enumerate(zip(*values, strict=True), start=1):
        same = isinstance(a, int) == isinstance(b, int) and a == b
        require(same, f"output {k} is not proved to agree")
    return "program", len(x)


def _check_moments(n: object, elements: object, mean: object, moments: object) -> tuple[str, int]:
    """Check the moments of a multiset, and that they determine it.

    They do if exp(Σ (-1)^(k-1) p_k t^k / k) = Π (1 + r_i t) up to t^n: the left side is a function of the moments
    alone, and the right side has one factorisation.
    """
    natural(n, "n", 2, 64)
    x, mu, M = rationals(elements, "elements", 100), rational(mean, "mean"), rationals(moments, "moments")
    require(len(x) == n and len(M) == n - 1, f"there must be n = {n} elements and n - 1 moments")
    r = [y - mu for y in x]
    require(sum(r, Fraction(0)) == 0, "the mean is not that of the elements")
    for k, moment in enumerate(M, start=2):
        require(sum((y**k for y in r), Fraction(0)) == n * moment, f"moment {k} is not that of the elements")
    p = [Fraction(0), *(n * moment for moment in M)]
    logarithm = [Fraction(0), *((-1) ** (k - 1) * p[k - 1] / k for k in range(1, n + 1))]
    series = [Fraction(1)]
    for k in range(1, n + 1):  # E = exp(A) means E' = A' E
        series.append(sum((j * logarithm[j] * series[k - j] for j in range(1, k + 1)), Fraction(0)) / k)
    product = [Fraction(1)]
    for y in r:
        product = [a + y * b for a, b in zip([*product, Fraction(0)], [Fraction(0), *product], strict=True)]
    require(series == product, "the moments do not give the elements back")
    return "moments", n


LARGEST_Z, LARGEST_N, LARGEST_SIZE = 200, 1000, 64


def _multiset(value: object, what: str, smallest: int) -> list[int]:
    """The elements of a multiset in increasing order: whole numbers from `smallest` to LARGEST_Z."""
    require(
        isinstance(value, list) and 0 < len(value) <= LARGEST_SIZE, f"{what} must hold 1 to {LARGEST_SIZE} elements"
    )
    return sorted(natural(z, what, smallest, LARGEST_Z) for z in value)


def _table(scaler: dict) -> dict[int, Fraction]:
    """The values of a scaler that is given as a table, by the sizes 1, 2, 3, …"""
    fields(scaler, {"name", "values"}, "a scaler's table")
    values = rationals(scaler["values"], "the scaler's values", 200)
    require(len(values) <= LARGEST_SIZE, f"a scaler has at most {LARGEST_SIZE} values")
    return dict(enumerate(values, start=1))


def _scaler(scaler: object) -> dict[int, Fraction | arb]:
    """The values of a scaler by size: rationals from a table, balls for a logarithmic scaler."""
    require(isinstance(scaler, dict), "the scaler must be an object")
    if name(scaler.get("name"), ["table", "logarithmic"], "the scaler's name") == "table":
        return _table(scaler)
    fields(scaler, {"name", "alpha", "largest"}, "a logarithmic scaler")
    alpha = natural(scaler["alpha"], "alpha", -1, 1)
    require(alpha != 0, "alpha must be 1 or -1")
    largest = natural(scaler["largest"], "the largest size", 1, LARGEST_SIZE)
    return {d: arb(d + 1).log() ** alpha for d in range(1, largest + 1)}


def _check_encoding(
    scaler: object, N: object, K: object, multiset: object, h: object, depth: object, precision: object
) -> tuple[str, int]:
    """Check Theorem 2's hypotheses for this scaler, N and K, and that the ball h holds h(X) and decodes to X alone."""
    X = _multiset(multiset, "the multiset", 1)
    offset = rational(K, "K", 200)
    require(isinstance(h, list) and len(h) == 2, "h must be a midpoint and a radius")
    middle, radius = rationals(h, "h")
    natural(N, "N", 2, LARGEST_N)
    natural(depth, "depth", 1, LARGEST_Z)
    natural(precision, "precision", 2, BITS)
    require(radius >= 0 and max(X) <= depth, "the radius must not be negative, nor depth less than max Z")
    d, mean = len(X), offset + sum((Fraction(1, N**z) for z in X), Fraction(0)) / len(X)
    with ctx.workprec(2 * precision + 64):  # so that the checker's own ball of h(X) is far narrower than the stated one
        exact = _scaler(scaler)
        require(N > max(exact) + 1 and d <= max(exact), "N must exceed the largest size + 1, and s be defined at |X|")
        s = {size: ball(v) if isinstance(v, Fraction) else v for size, v in exact.items()}
        _check_hypotheses(s, offset)
        if isinstance(exact[d], Fraction):
            require(abs(exact[d] * mean - middle) <= radius, "h is not the value of the multiset")
        else:
            require(abs(s[d] * ball(mean) - ball(middle)) <= ball(radius), "h is not the value of the multiset")
        value = arb(ball(middle), ball(radius))
        readings = [digits for e in s for digits in _readings(value * e / s[e] - ball(offset * e), e, N, depth)]
    require(readings == [X], "h does not decode to the multiset alone")
    return "the scaled mean", d


def _check_hypotheses(s: dict[int, arb], K: Fraction) -> None:
    """Check that the scaler is positive and injective, and that K > 1/(γ - 1).

    γ is the smallest ratio of neighbouring values, in increasing order.
    """
    require(all(v > 0 for v in s.values()), "the scaler is not certainly positive")
    ordered = sorted(s.values(), key=lambda v: v.mid().fmpq())
    gaps = [b / a - 1 for a, b in itertools.pairwise(ordered)]
    require(
        K > 0 and all(ball(K) * gap > 1 for gap in gaps),
        "K is not certainly above 1/(γ - 1), or the scaler is not certainly injective",
    )


def _readings(rest: arb, d: int, N: int, depth: int) -> Iterable[list[int]]:
    """The multisets of size d that `rest` = Σ N^-Z can be, up to `depth` digits, read from the last digit on."""
    if rest < 0 or rest > d:
        return
    integer = (rest * N**depth).unique_fmpz()
    require(integer is not None, "h is not narrow enough for its digits")
    integer, digits = int(integer), []
    for z in range(depth, 0, -1):
        integer, digit = divmod(integer, N)
        digits += [z] * digit
    if integer == 0 and len(digits) == d:
        yield sorted(digits)


def _check_encoding_collision(scaler: object, N: object, K: object, first: object, second: object) -> tuple[str, int]:
    """Check that two different multisets have one value of h, exactly; a logarithmic scaler is in units of log 2."""
    X, Y = _multiset(first, "first", 0), _multiset(second, "second", 0)
    require(X != Y, "the two multisets are the same")
    natural(N, "N", 2, LARGEST_N)
    offset = rational(K, "K", 200)
    require(isinstance(scaler, dict), "the scaler must be an object")
    if name(scaler.get("name"), ["table", "logarithm of powers of 2"], "the scaler's name") == "table":
        s = _table(scaler)
    else:
        fields(scaler, {"name"}, "the logarithm of powers of 2")
        s = {2**e - 1: Fraction(e) for e in range(1, 7)}
    require(len(X) in s and len(Y) in s, "the scaler is not given at these sizes")
    h = [s[len(Z)] * (sum((Fraction(1, N**z) for z in Z), Fraction(0)) / len(Z) + offset) for Z in (X, Y)]
    require(h[0] == h[1], "h differs")
    return "the scaled mean", len(X)


KINDS: dict[str, tuple[frozenset[str], Callable[..., tuple[str, int]], tuple[str, ...]]] = {
    kind: (frozenset({*statement, *proof}), check, statement)
    for kind, check, statement, proof in (
        ("collision", _check_collision, ("first", "second"), ("agree", "differ")),
        ("exact collision", _check_exact, ("aggregators", "first", "second"), ()),
        ("box", check_box, ("n", "aggregators"), ("centre", "radius", "midpoints", "radii", "precision")),
        ("sign change", check_sign_change, ("aggregator",), ("centre", "a", "b", "precision")),
        ("moments", _check_moments, ("elements",), ("n", "mean", "moments")),
        ("encoding", _check_encoding, ("scaler", "multiset"), ("N", "K", "h", "depth", "precision")),
        ("encoding collision", _check_encoding_collision, ("scaler", "N", "K", "first", "second"), ()),
    )
}
"""The kinds of certificates: their fields, how each is checked, and the fields that say what is proved."""
