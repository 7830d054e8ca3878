"""Makes the certificates of `certificates/`: one file per statement or family, one JSON object per claim.

Numbers are exact: rationals are strings "p/q", a ball is its midpoint and radius. Files are replaced in one step,
so that an interrupted run leaves the old ones whole. `checker` says what each kind of certificate proves.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import chain
from pathlib import Path

from flint import arb, ctx

from verification import counterexamples, families, theorem_1, theorem_2, trained_network
from verification.checker import STATEMENTS
from verification.files import write
from verification.intermediate_value import CONTINUOUS, bracket
from verification.proposition_1 import central_moments

__all__ = ["CERTIFICATES", "MAKERS", "box", "encoding", "find"]

CERTIFICATES = Path(__file__).parent / "certificates"


def find(directory: Path = CERTIFICATES) -> list[Path]:
    """Find and write all certificates; return their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, make in MAKERS.items():
        paths.append(directory / f"{name}.json")
        write(paths[-1], {"statement": STATEMENTS[name].text, "certificates": list(make())})
    return paths


def box(family: families.Family) -> dict:
    """The certificate of a collision of the family's aggregators."""
    collision = theorem_1.collide(family.aggregators, family.sphere)
    return {
        "kind": "box",
        "n": len(family.sphere.centre),
        "aggregators": family.description,
        "centre": _strings(collision.sphere.centre),
        "radius": str(collision.sphere.radius),
        "midpoints": _strings(collision.midpoints),
        "radii": _strings(collision.radii),
        "precision": collision.precision,
    }


def encoding(scaler: dict, s: theorem_2.Scaler, X: theorem_2.Multiset, depth: int) -> dict:
    """The certificate that h(X), as a ball, decodes to X."""
    code = theorem_2.Encoding.of(s)
    h = code.encode(X)
    if code.decode(h, depth) != X:
        raise ArithmeticError(f"{X} is not decoded")
    middle, radius = (_exact(h.mid()), _exact(h.rad())) if isinstance(h, arb) else (h, Fraction(0))
    return {
        "kind": "encoding",
        "scaler": scaler,
        "N": code.N,
        "K": str(code.K),
        "multiset": list(X),
        "h": [str(middle), str(radius)],
        "depth": depth,
        "precision": ctx.prec,
    }


def _collision(pair: counterexamples.Pair, agree: Sequence[str], differ: Sequence[str]) -> dict:
    """The certificate of two multisets on which the aggregators of `agree` agree and those of `differ` differ."""
    first, second = (_strings(x) for x in pair)
    return {"kind": "collision", "first": first, "second": second, "agree": list(agree), "differ": list(differ)}


def _counterexamples() -> Iterator[dict]:
    """Yield the certificates of figure 1: where sets of PNA's aggregators fail, and where sum does."""
    names = list(counterexamples.EXACT)
    for agree in counterexamples.subsets():
        pair = counterexamples.separating_pair(agree)
        yield _collision(pair, [x for x in names if x in agree], [x for x in names if x not in agree])
    for pair in (counterexamples.PNA_FAILS, counterexamples.PNA_FAILS_DYADIC):
        yield _collision(pair, names, ["power sum 3"])
    yield _collision(counterexamples.REPLICATED, names, ["power sum 1"])
    for k, pair in counterexamples.SUM_FAILS.items():
        yield _collision(pair, [f"power sum {k}"], [f"power sum {k + 1}"])


def _prouhet_tarry_escott() -> Iterator[dict]:
    """Yield the certificates of integer multisets that share their first n - 1 power sums."""
    for n, pair in theorem_1.PROUHET_TARRY_ESCOTT.items():
        yield _collision(pair, [f"power sum {k}" for k in range(1, n)], [f"power sum {n}"])


def _two() -> Iterator[dict]:
    """Yield the certificates of Theorem 1 for n = 2: the sign change of each continuous aggregator."""
    for name, g in CONTINUOUS.items():
        change = bracket(g)
        yield {
            "kind": "sign change",
            "aggregator": name,
            "centre": _strings(change.centre),
            "a": str(change.a),
            "b": str(change.b),
            "precision": change.precision,
        }


def _boxes(name: str) -> Iterator[dict]:
    """The certificates of a family's collisions, one for each of its sizes."""
    make, sizes = families.FAMILIES[name]
    return (box(make(n)) for n in sizes)


def _trained_network() -> Iterator[dict]:
    """Store the trained network's weights; return the certificates of its collisions."""
    write(trained_network.WEIGHTS, trained_network.weights_from())
    return (box(trained_network.family(n)) for n in trained_network.SIZES)


def _moments() -> Iterator[dict]:
    """Yield the certificates of Proposition 1: random multisets of up to 64 rationals and their moments."""
    draw = random.Random(0)
    for n in (2, 3, 5, 8, 16, 32, 64):
        # Fewer values than elements, so that some repeat.
        values = [Fraction(draw.randint(-30, 30), draw.randint(1, 9)) for _ in range(max(2, n // 2))]
        x = sorted(draw.choice(values) for _ in range(n))
        mean, moments = central_moments(x)
        yield {"kind": "moments", "n": n, "elements": _strings(x), "mean": str(mean), "moments": _strings(moments)}


def _encodings() -> Iterator[dict]:
    """Yield the certificates of Theorem 2: multisets of three sizes, decoded under each of five scalers."""
    draw = random.Random(0)
    largest, depth = 10, 40
    tables = {
        "linear": theorem_2.linear(largest),
        "inverse linear": theorem_2.inverse_linear(largest),
        "arbitrary": {d: Fraction(draw.randint(1, 10**6), 997) for d in range(1, largest + 1)},
    }
    with ctx.workprec(1024):
        scalers = [({"name": "table", "values": _strings(s.values())}, s) for s in tables.values()]
        for alpha in (1, -1):
            description = {"name": "logarithmic", "alpha": alpha, "largest": largest}
            scalers.append((description, theorem_2.logarithmic(largest, alpha)))
        for description, s in scalers:
            for size in (1, 4, largest):
                X = tuple(sorted(draw.randint(1, depth) for _ in range(size)))
                yield encoding(description, s, X, depth)


def _encoding_collision(scaler: dict, N: int, K: Fraction, pair: tuple[theorem_2.Multiset, theorem_2.Multiset]) -> dict:
    """The certificate of two multisets with one value of Theorem 2's h."""
    X, Y = pair
    return {"kind": "encoding collision", "scaler": scaler, "N": N, "K": str(K), "first": list(X), "second": list(Y)}


def _encoding_collisions() -> Iterator[dict]:
    """Yield the certificates that no hypothesis of Theorem 2 can be dropped."""
    for N, pair in theorem_2.without_offset().items():
        yield _encoding_collision({"name": "logarithm of powers of 2"}, N, Fraction(0), pair)
    for s in (theorem_2.linear(6), theorem_2.inverse_linear(6)):
        for first in (0, 1):
            K, *pair = theorem_2.below_the_bound(s, 8, 9, first)
            yield _encoding_collision({"name": "table", "values": _strings(s.values())}, 8, K, tuple(pair))
    for s in ({1: Fraction(1), 2: Fraction(1)}, {1: Fraction(3), 2: Fraction(1), 3: Fraction(3)}):
        pair = theorem_2.not_injective(s)
        yield _encoding_collision({"name": "table", "values": _strings(s.values())}, 5, Fraction(100), pair)
    values = _strings(theorem_2.linear(6).values())
    yield _encoding_collision({"name": "table", "values": values}, 5, Fraction(100), theorem_2.base_too_small(5))


def _strings(numbers: Sequence) -> list[str]:
    """The numbers as text."""
    return [str(x) for x in numbers]


def _exact(x: arb) -> Fraction:
    """The rational that a ball of radius 0 holds."""
    q = x.fmpq()
    return Fraction(int(q.p), int(q.q))


MAKERS: dict[str, Callable[[], Iterable[dict]]] = {
    "counterexamples": _counterexamples,
    "prouhet_tarry_escott": _prouhet_tarry_escott,
    "theorem_1_n2": _two,
    **{f"theorem_1_{name}": partial(_boxes, name) for name in families.FAMILIES},
    "theorem_1_trained_network": _trained_network,
    "proposition_1": _moments,
    "theorem_2": lambda: chain(_encodings(), _encoding_collisions()),
}
"""What makes the certificates of each file; `checker.STATEMENTS` says what each states."""
