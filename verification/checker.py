"""The independent checker: re-checks every certificate of `certificates/` from what it says, and nothing else.

It imports nothing of this package but its own interval tests (`interval_checker`): aggregators, moments and
encodings are evaluated here once more, by other formulas where there are any. A certificate is a proof, not a seal:
it is rejected when what it says is not proved by it, so a change that leaves a true and provable statement is
accepted.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path

from flint import arb, ctx, fmpq

from verification.interval_checker import CONTINUOUS, FAMILIES, box_holds_a_collision, sign_changes

__all__ = ["CertificateError", "check_certificate", "check_directory", "check_file"]


class CertificateError(ValueError):
    """A certificate that is malformed, or that does not prove what it says."""


def check_directory(directory: Path) -> list[str]:
    """Checks every certificate file; returns a line for each, raises CertificateError at the first that fails."""
    files = sorted(directory.glob("*.json"))
    if not files:
        raise CertificateError(f"{directory}: there are no certificates")
    return [f"{path.name}: {check_file(path)} certificates hold" for path in files]


def check_file(path: Path) -> int:
    """Checks one file and returns how many certificates it holds."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise CertificateError(f"{path.name}: not JSON: {error}") from error
    if not isinstance(content, dict) or set(content) != {"statement", "certificates"}:
        raise CertificateError(f"{path.name}: must be an object with the fields statement and certificates")
    certificates = content["certificates"]
    if not isinstance(certificates, list) or not certificates:
        raise CertificateError(f"{path.name}: certificates must be a list that is not empty")
    for i, certificate in enumerate(certificates):
        try:
            check_certificate(certificate)
        except CertificateError as error:
            raise CertificateError(f"{path.name}, certificate {i}: {error}") from error
    return len(certificates)


def check_certificate(certificate: object) -> None:
    """Raises CertificateError unless the certificate proves what it says."""
    if not isinstance(certificate, dict) or certificate.get("kind") not in list(KINDS):
        raise CertificateError(f"kind must be one of {sorted(KINDS)}")
    fields, check = KINDS[certificate["kind"]]
    if set(certificate) != fields | {"kind"}:
        raise CertificateError(f"fields must be {sorted(fields)}, got {sorted(set(certificate) - {'kind'})}")
    try:
        check(**{name: value for name, value in certificate.items() if name != "kind"})
    except CertificateError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError) as error:
        raise CertificateError(f"cannot be evaluated: {error}") from error


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise CertificateError(message)


def _rational(text: object) -> Fraction:
    _require(
        isinstance(text, str) and re.fullmatch(r"-?\d+(/[1-9]\d*)?", text) is not None, f"not a rational: {text!r}"
    )
    return Fraction(text)


def _rationals(texts: object) -> list[Fraction]:
    _require(isinstance(texts, list) and len(texts) > 0, f"not a list of rationals: {texts!r}")
    return [_rational(text) for text in texts]


def _natural(value: object, smallest: int = 1) -> int:
    _require(
        isinstance(value, int) and not isinstance(value, bool) and value >= smallest, f"not a whole number: {value!r}"
    )
    return value


def _ball(q: Fraction) -> arb:
    return arb(fmpq(q.numerator, q.denominator))


def _aggregate(name: str, x: list[Fraction]) -> Fraction:
    """An aggregator over the rationals; std by its square, as a sum over pairs."""
    d = len(x)
    if name == "mean":
        return sum(x, Fraction(0)) / d
    if name == "std":
        return sum(((a - b) ** 2 for a in x for b in x), Fraction(0)) / (2 * d * d)
    if name in ("max", "min"):
        return sorted(x)[-1 if name == "max" else 0]
    match = re.fullmatch(r"power sum ([1-9]\d*)", name)
    _require(match is not None, f"unknown aggregator {name!r}")
    return sum((y ** int(match[1]) for y in x), Fraction(0))


def _check_collision(first: object, second: object, agree: list[str], differ: list[str]) -> None:
    """Two different multisets, the aggregators that agree on them, and those that do not."""
    x, y = _rationals(first), _rationals(second)
    _require(sorted(x) != sorted(y), "the two multisets are the same")
    _require(len(agree) > 0, "no aggregator is said to agree")
    for name in agree:
        _require(_aggregate(name, x) == _aggregate(name, y), f"{name} differs")
    for name in differ:
        _require(_aggregate(name, x) != _aggregate(name, y), f"{name} agrees")


def _check_box(
    n: object, aggregators: dict, centre: object, radius: str, midpoints: object, radii: object, precision: object
) -> None:
    """A box that holds a collision of n - 1 aggregators."""
    _natural(n, 2)
    c, m, r = _rationals(centre), _rationals(midpoints), _rationals(radii)
    _require(len(c) == len(m) == len(r) == n, f"centre and box must have n = {n} coordinates")
    _require(_rational(radius) > 0 and all(q > 0 for q in r), "radii must be positive")
    _require(aggregators.get("name") in FAMILIES, f"unknown aggregators {aggregators.get('name')!r}")
    _, fields = FAMILIES[aggregators["name"]]
    _require(set(aggregators) == fields | {"name"}, f"the aggregators' fields must be {sorted(fields)}")
    described = {key: value if key in ("name", "aggregators") else _nested(value) for key, value in aggregators.items()}
    _require(len(described.get("aggregators", [])) == len(set(described.get("aggregators", []))), "an aggregator twice")
    reason = box_holds_a_collision(described, c, _rational(radius), m, r, _natural(precision, 2))
    _require(reason is None, str(reason))


def _nested(value: object) -> list | Fraction:
    return [_nested(item) for item in value] if isinstance(value, list) else _rational(value)


def _check_sign_change(aggregator: str, centre: object, a: str, b: str, precision: object) -> None:
    """A collision of one continuous aggregator on two reals, by the intermediate value theorem."""
    _require(aggregator in CONTINUOUS, f"unknown aggregator {aggregator!r}")
    c = _rationals(centre)
    _require(len(c) == 2, "the centre must have two coordinates")
    reason = sign_changes(aggregator, c, _rational(a), _rational(b), _natural(precision, 2))
    _require(reason is None, str(reason))


def _check_moments(n: object, elements: object, mean: str, moments: object) -> None:
    """The moments of the multiset, and that they determine it: exp(Σ (-1)^(k-1) p_k t^k / k) = Π (1 + r_i t) up to t^n.

    The left side is a function of the moments alone; the right side has one factorisation.
    """
    x, mu, M = _rationals(elements), _rational(mean), _rationals(moments)
    _require(len(x) == _natural(n, 2) and len(M) == n - 1, f"there must be n = {n} elements and n - 1 moments")
    r = [y - mu for y in x]
    _require(sum(r, Fraction(0)) == 0, "the mean is not that of the elements")
    for k, moment in enumerate(M, start=2):
        _require(sum((y**k for y in r), Fraction(0)) == n * moment, f"moment {k} is not that of the elements")
    p = [Fraction(0), *(n * moment for moment in M)]
    logarithm = [Fraction(0), *((-1) ** (k - 1) * p[k - 1] / k for k in range(1, n + 1))]
    series = [Fraction(1)]
    for k in range(1, n + 1):  # E = exp(A) means E' = A' E
        series.append(sum((j * logarithm[j] * series[k - j] for j in range(1, k + 1)), Fraction(0)) / k)
    product = [Fraction(1)]
    for y in r:
        product = [a + y * b for a, b in zip([*product, Fraction(0)], [Fraction(0), *product], strict=True)]
    _require(series == product, "the moments do not give the elements back")


def _scaler(scaler: dict) -> dict[int, Fraction | arb]:
    if scaler.get("name") == "table" and set(scaler) == {"name", "values"}:
        return dict(enumerate(_rationals(scaler["values"]), start=1))
    _require(scaler.get("name") == "logarithmic" and set(scaler) == {"name", "alpha", "largest"}, "unknown scaler")
    _require(scaler["alpha"] in (1, -1), "alpha must be 1 or -1")
    return {d: arb(d + 1).log() ** scaler["alpha"] for d in range(1, _natural(scaler["largest"]) + 1)}


def _check_encoding(scaler: dict, N: object, K: str, multiset: list, h: list, depth: object, precision: object) -> None:
    """Theorem 2's hypotheses for this scaler, N and K; and that h, given as a ball, decodes to the multiset."""
    X = sorted(_natural(z) for z in multiset)
    offset, (middle, radius) = _rational(K), _rationals(h)
    _require(radius >= 0 and max(X) <= _natural(depth), "the radius must not be negative, nor depth less than max Z")
    with ctx.workprec(_natural(precision, 2)):
        exact = _scaler(scaler)
        s = {d: _ball(v) if isinstance(v, Fraction) else v for d, v in exact.items()}
        _require(_natural(N) > max(s) + 1 and 1 <= len(X) <= max(s), "N must exceed |X| + 1, and s be defined at |X|")
        _check_hypotheses(s, offset)
        value, mean = (
            arb(_ball(middle), _ball(radius)),
            offset + sum((Fraction(1, N**z) for z in X), Fraction(0)) / len(X),
        )
        if isinstance(exact[len(X)], Fraction):
            _require(abs(exact[len(X)] * mean - middle) <= radius, "h is not the value of the multiset")
        else:
            _require(value.overlaps(s[len(X)] * _ball(mean)), "h is not the value of the multiset")
        found = [digits for d in s for digits in _readings(value * d / s[d] - _ball(offset * d), d, N, depth)]
    _require(found == [X], "h does not decode to the multiset alone")


def _check_hypotheses(s: dict[int, arb], K: Fraction) -> None:
    """A positive injective scaler, and K > 1/(γ - 1), where γ is the smallest ratio of neighbours in order."""
    _require(all(v > 0 for v in s.values()), "the scaler is not certainly positive")
    ordered = sorted(s.values(), key=lambda v: float(v.mid()))
    gaps = [b / a - 1 for a, b in itertools.pairwise(ordered)]
    _require(
        K > 0 and all(_ball(K) * gap > 1 for gap in gaps),
        "K is not certainly above 1/(γ - 1), or the scaler is not certainly injective",
    )


def _readings(rest: arb, d: int, N: int, depth: int) -> Iterable[list[int]]:
    """The multisets of size d that `rest` = Σ N^-Z can be, up to `depth` digits, read from the last digit on."""
    if rest < 0 or rest > d:
        return
    integer = (rest * N**depth).unique_fmpz()
    _require(integer is not None, "h is not narrow enough for its digits")
    integer, digits = int(integer), []
    for z in range(depth, 0, -1):
        integer, digit = divmod(integer, N)
        digits += [z] * digit
    if integer == 0 and len(digits) == d:
        yield sorted(digits)


def _check_encoding_collision(scaler: dict, N: object, K: str, first: list, second: list) -> None:
    """Two different multisets with one value of h, exactly; a logarithmic scaler in units of log 2."""
    X, Y = ([_natural(z, 0) for z in multiset] for multiset in (first, second))
    _require(sorted(X) != sorted(Y), "the two multisets are the same")
    if scaler == {"name": "logarithm of powers of 2"}:
        s = {2**e - 1: Fraction(e) for e in range(1, 16)}
    else:
        s = dict(enumerate(_rationals(scaler["values"]), start=1))
    h = [
        s[len(Z)] * (sum((Fraction(1, _natural(N, 2) ** z) for z in Z), Fraction(0)) / len(Z) + _rational(K))
        for Z in (X, Y)
    ]
    _require(h[0] == h[1], "h differs")


KINDS: dict[str, tuple[frozenset[str], Callable[..., None]]] = {
    "collision": (frozenset({"first", "second", "agree", "differ"}), _check_collision),
    "box": (frozenset({"n", "aggregators", "centre", "radius", "midpoints", "radii", "precision"}), _check_box),
    "sign change": (frozenset({"aggregator", "centre", "a", "b", "precision"}), _check_sign_change),
    "moments": (frozenset({"n", "elements", "mean", "moments"}), _check_moments),
    "encoding": (frozenset({"scaler", "N", "K", "multiset", "h", "depth", "precision"}), _check_encoding),
    "encoding collision": (frozenset({"scaler", "N", "K", "first", "second"}), _check_encoding_collision),
}
"""The kinds of certificates: their fields, and how each is checked."""
