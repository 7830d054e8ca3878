"""Certificates, files and programs made to be believed, to be slow, or to break the checker: over 300.

Each one is either rejected, with a reason, or accepted and true, within a second of processor time: what is accepted is
evaluated once more, here, in 60 digits.
"""

import copy
import hashlib
import json
import os
import random
import re
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest

from verification import find, trained_network
from verification.checker import STATEMENTS, CertificateError, check_certificate, check_file
from verification.collide import find_collision

SECONDS = 4.0  # of processor time: what takes one at 2.5 GHz may take four on a slow or busy machine
draw = random.Random(7)


def stored(name: str) -> list[dict]:
    """The certificates of a stored file."""
    return json.loads((find.CERTIFICATES / f"{name}.json").read_text(encoding="utf-8"))["certificates"]


def content(name: str, certificates: list[dict]) -> str:
    """The text of a file with the statement of that name and these certificates."""
    return json.dumps({"statement": STATEMENTS[name].text, "certificates": certificates})


def no_integers() -> Iterator[tuple[str, str, str]]:
    """Yield files of multisets that share their power sums, but are not of integers."""
    for certificate in stored("prouhet_tarry_escott"):
        for factor, shift in (("1/2", "0"), ("1/3", "0"), ("1", "1/2"), ("2/7", "1/5")):
            other = copy.deepcopy(certificate)
            for side in ("first", "second"):
                other[side] = [str(Fraction(x) * Fraction(factor) + Fraction(shift)) for x in other[side]]
            yield (
                f"n = {len(other['first'])}, {factor}, {shift}",
                "prouhet_tarry_escott",
                content("prouhet_tarry_escott", [other]),
            )


def unreduced(text: str) -> str:
    """A rational, doubled above and below the line."""
    numerator, _, denominator = text.partition("/")
    return f"{2 * int(numerator)}/{2 * int(denominator or 1)}"


def repeated() -> Iterator[tuple[str, str, str]]:
    """Yield files that hold a certificate twice, the second time as it is or written in another way."""
    for path in sorted(find.CERTIFICATES.glob("*.json")):
        certificates = stored(path.stem)
        for again in (copy.deepcopy(certificates[0]), copy.deepcopy(certificates[-1])):
            yield f"{path.stem}, again", path.stem, content(path.stem, [*certificates, again])
            for key in ("elements", "multiset", "first", "second"):
                if key in again:
                    again[key] = again[key][::-1]
            yield f"{path.stem}, reversed", path.stem, content(path.stem, [*certificates, again])
    for stem, of, key in (
        ("theorem_1_log_sum_exp", "aggregators", "temperatures"), ("theorem_1_random_networks", "aggregators", "w"),
        ("theorem_2", "scaler", "values"),
    ):  # fmt: skip
        certificates = stored(stem)
        again = copy.deepcopy(certificates[0])
        again[of][key] = [unreduced(q) for q in again[of][key]]
        yield f"{stem}, unreduced {key}", stem, content(stem, [*certificates, again])
    certificates = stored("theorem_1_log_sum_exp")
    again = copy.deepcopy(certificates[-1])
    again["aggregators"]["temperatures"].reverse()
    yield "temperatures reversed", "theorem_1_log_sum_exp", content("theorem_1_log_sum_exp", [*certificates, again])
    low, high = Fraction(1), Fraction(2)
    for aggregators, n in (([np.mean, np.std, max, min], 5), ([np.mean, lambda x: sum(np.exp(y) for y in x)], 3),
                           ([lambda x: np.exp(x[0]) + x[1]], 2)):  # fmt: skip
        certificate = find_collision(aggregators, n, low, high).certificate
        for name, change in REWRITTEN.items():
            again = copy.deepcopy(certificate)
            change(again.get("aggregators") or again["aggregator"])
            yield f"{certificate['kind']}, {name}", "collide", content("collide", [certificate, again])


def shifted(program: dict) -> None:
    """Put a step that nothing reads before all others, which move up by one."""
    program["steps"] = [["constant", "7"], *([*step[:1], *map(one_on, step[1:])] for step in program["steps"])]
    for step in program["steps"]:
        if step[0] in ("x", "power"):
            step[-1] -= 1  # an element's place and an exponent are no steps
    program["outputs"] = [i + 1 for i in program["outputs"]]
    if "follow" in program:
        program["follow"] = [i + 1 for i in program["follow"]]


def one_on(operand: int | str) -> int | str:
    """The next number after an operand's; a constant's text as it is."""
    return operand if isinstance(operand, str) else operand + 1


REWRITTEN = {
    "a step that nothing reads": lambda program: program["steps"].append(["+", 0, 1]),
    "another one before all": shifted,
    "its outputs in another order": lambda program: program["outputs"].reverse(),
}
"""Ways to write a program once more that change nothing of what it computes."""


def many_keys() -> Iterator[tuple[str, str, str]]:
    """Yield files with up to 60,000 keys, and with the first or the last of them given twice."""
    for count in (1_000, 5_000, 20_000, 60_000):
        keys = [f'"k{i}": 0' for i in range(count)]
        for end in ([], ['"k0": 0'], [f'"k{count - 1}": 0']):
            yield f"{count} keys, {len(end)}", "collide", "{" + ", ".join([*keys, *end]) + "}"


FILES = [*no_integers(), *repeated(), *many_keys()]


def impostors() -> Iterator[tuple[str, dict, dict]]:
    """Yield certificates of the trained network, with weights that are not those of its training."""
    weights = json.loads(trained_network.WEIGHTS.read_text(encoding="utf-8"))
    changes = {
        "U tripled": {"U": scaled(weights["U"], 3)},
        "mix halved": {"mix": scaled(weights["mix"], Fraction(1, 2))},
        "slopes negated": {"slopes": scaled(weights["slopes"], -1)},
        "another delta": {"delta": "2"},
        "another source": {"source": "0" * 64},
        "another cell": {"cell": "zinc/released/pna"},
        "another seed": {"seed": 0},
        "another epsilon": {"epsilon": "0"},
    }
    for certificate in stored("theorem_1_trained_network"):
        for name, change in changes.items():
            yield f"n = {certificate['n']}, {name}", certificate, weights | change


def scaled(value: list | str, factor: int | Fraction) -> list | str:
    """Rationals as text in nested lists, each multiplied by a factor."""
    return [scaled(item, factor) for item in value] if isinstance(value, list) else str(Fraction(value) * factor)


IMPOSTORS = list(impostors())


def exact(steps: list, outputs: list, first: list, second: list) -> dict:
    """The certificate of an exact collision of a program."""
    program = {"name": "program", "steps": steps, "outputs": outputs}
    return {"kind": "exact collision", "aggregators": program, "first": first, "second": second}


def transcendental(kind: str, n: int, name: str, count: int = 10_000) -> dict:
    """A box or a sign change of `count` steps, nearly all of them one function at 2,048 bits."""
    steps = [*(["x", i] for i in range(n)), *([name, i - 1] for i in range(n, count))]
    program = {"name": "program", "steps": steps, "outputs": list(range(count - n + 1, count)), "follow": []}
    if kind == "sign change":
        return {"kind": kind, "aggregator": program, "centre": ["1", "2"], "a": "0", "b": "2", "precision": 2048}
    return {
        "kind": kind, "n": n, "aggregators": program, "centre": [str(i + 1) for i in range(n)], "radius": "1/4",
        "midpoints": ["1/2"] * n, "radii": [f"1/{2**300}"] * n, "precision": 2048,
    }  # fmt: skip


def heavy() -> Iterator[tuple[str, dict]]:
    """Yield certificates that are short to write and take long to compute."""
    long = [str(Fraction(draw.randint(10**48, 10**49), draw.randint(10**48, 10**49))) for _ in range(256)]
    for agree in (
        ["std"],
        ["mean"],
        ["power sum 99"],
        ["power sum 50", "std"],
        [f"power sum {k}" for k in range(1, 99)],
    ):
        yield f"{agree[-1]} of 128 long rationals", {
            "kind": "collision", "first": long[:128], "second": long[128:], "agree": agree, "differ": []
        }  # fmt: skip
    whole = [str(draw.randint(10**98, 10**99)) for _ in range(256)]
    for agree in (["power sum 99"], ["std"], [f"power sum {k}" for k in range(1, 100)]):
        yield f"{agree[-1]} of 128 long integers", {
            "kind": "collision", "first": whole[:128], "second": whole[128:], "agree": agree, "differ": []
        }  # fmt: skip
    x = [["x", i] for i in range(3)]
    squares = [*x, ["+", 0, 1], *(["*", i, i] for i in range(3, 400))]
    powers = [*x, ["+", 0, 1], *(["power", i, 256] for i in range(3, 40))]
    sums = [*x, ["constant", "1/" + "3" * 1900], *(["+", i, i % 3] for i in range(3, 59_000))]
    products = [*x, ["constant", "99991/99989"], *(["*", i, 3] for i in range(3, 59_000))]
    roots = [["x", 0], ["x", 1], ["x", 2], *(["exp", 2] if i % 2 else ["tanh", i - 1] for i in range(3, 59_000))]
    towers = [*x, *(["exp", i] for i in range(2, 200))]
    for name, steps in (("squares", squares), ("powers", powers), ("sums", sums), ("products", products),
                        ("roots", roots), ("towers", towers)):  # fmt: skip
        yield f"exact, {name}", exact(steps, [len(steps) - 1], ["1/3", "2", "3"], ["1/7", "2", "4"])
    orders = [f"power sum {k}" for k in range(1, 100)]
    close = [*whole[:127], str(int(whole[127]) - 1)]
    yield "99 power sums that differ", {
        "kind": "collision", "first": whole[:128], "second": close, "agree": ["max"], "differ": orders
    }  # fmt: skip
    over = [str(Fraction(draw.randint(1, 10**7), 10**90 + 7 + 2 * (i % 2))) for i in range(128)]
    yield "99 power sums that differ, over long denominators", {
        "kind": "collision", "first": over, "second": [*over[:127], f"3/{10**90 + 9}"], "agree": ["max"],
        "differ": orders,
    }  # fmt: skip
    cube = [["x", 0], ["constant", f"{10**899 + 1}/{10**900}"], ["power", 1, 3]]
    for name in ("sqrt", "/", "-"):
        operands = [2] if name == "sqrt" else [2, 2]
        yield (
            f"exact, {name} of one long number",
            exact([*cube, *([name, *operands] for _ in range(59_000))], [0], ["0", "1"], ["0", "6"]),
        )
    for name in ("cos", "tanh", "sin"):
        for kind, n in (("box", 5), ("sign change", 2)):
            yield f"{kind}, 10,000 of {name}", transcendental(kind, n, name)
    n = 32
    steps = [*(["x", i] for i in range(n)), *(["*", i, i - n] for i in range(n, 9_000))]
    for name, count in (("all outputs", n - 1), ("one output", 1)):
        program = {
            "name": "program",
            "steps": steps,
            "outputs": list(range(len(steps) - count, len(steps))),
            "follow": [],
        }
        yield f"box, {name}", {
            "kind": "box", "n": n, "aggregators": program, "centre": [str(i) for i in range(n)], "radius": "1/4",
            "midpoints": ["1/8"] * n, "radii": ["1/1024"] * n, "precision": 2048,
        }  # fmt: skip
    chain = [["x", 0], ["x", 1], *(["+", i, i - 1] for i in range(1, 9_990))]
    for follow in ([0], list(range(0, 9_990)), [9_000, 1]):
        program = {"name": "program", "steps": chain, "outputs": [9_990], "follow": follow}
        yield f"sign change, follow {len(follow)}", {
            "kind": "sign change", "aggregator": program, "centre": ["1", "2"], "a": "5/4", "b": "7/4",
            "precision": 2048,
        }  # fmt: skip
    elements = [str(Fraction(draw.randint(10**48, 10**49), draw.randint(10**48, 10**49))) for _ in range(64)]
    yield "moments", {"kind": "moments", "n": 64, "elements": elements, "mean": "0", "moments": ["1"] * 63}
    mean = sum(map(Fraction, elements)) / 64
    centred = [str(Fraction(e) - mean) for e in elements]
    yield (
        "moments, their mean",
        {"kind": "moments", "n": 64, "elements": elements, "mean": str(mean), "moments": centred[1:]},
    )
    values = [f"{'9' * 98}{i:02}/1{'0' * 98}" if i % 2 and i % 5 else "9" * 98 + f"{i:02}" for i in range(64)]
    for X in ([200] * 64, [1, 200], list(range(137, 201))):
        yield f"encoding of {len(X)}", {
            "kind": "encoding", "scaler": {"name": "table", "values": values}, "N": 1000, "K": "9" * 190, "multiset": X,
            "h": ["1/" + "3" * 1990, "1/" + "7" * 1990], "depth": 200, "precision": 2048,
        }  # fmt: skip
        yield f"encoding collision of {len(X)}", {
            "kind": "encoding collision", "scaler": {"name": "table", "values": values}, "N": 1000, "K": "9" * 190,
            "first": X, "second": [199] * 64,
        }  # fmt: skip


HEAVY = list(heavy())


def swish(x: list) -> object:
    """An aggregator with a kink and a root: Σ max(0, x - 5/4) √x."""
    return sum(max(0, y - Fraction(5, 4)) * np.sqrt(y) for y in x)


def honest() -> Iterator[dict]:
    """Certificates of programs that hold: exact ones, with roots and ReLU in them, a box and a sign change."""
    low, high = Fraction(1), Fraction(2)
    sums = [sum, lambda x: sum(max(0, 2 * y - 3) for y in x), lambda x: np.sqrt(sum(x)), lambda x: np.exp(sum(x)) / 3]
    yield find_collision(sums, 2, low, high).certificate
    yield find_collision([np.mean, np.std, max, min, lambda x: np.tanh(max(x) * 2)], 5, low, high).certificate
    yield find_collision([lambda x: sum(np.exp(y) for y in x), swish, lambda x: 2 * swish(x)], 3, low, high).certificate
    yield find_collision([lambda x: np.exp(x[0]) + x[1], lambda x: 3 * (np.exp(x[0]) + x[1])], 2, low, high).certificate


HONEST = list(honest())


def other(value: object) -> object:
    """A value like the given one, slightly changed."""
    if isinstance(value, str):
        return str(Fraction(value) + draw.choice([1, -1, Fraction(1, 1000), Fraction(-1, 7)]))
    return max(0, value + draw.choice([-2, -1, 1, 2]))


def mutated(certificate: dict) -> dict:
    """The certificate with one thing in it altered: an element, a step, an output, or what follows."""
    certificate = copy.deepcopy(certificate)
    program = certificate.get("aggregators") or certificate["aggregator"]
    places: list[tuple[list, int]] = [(program["outputs"], draw.randrange(len(program["outputs"])))]
    if program.get("follow"):
        places.append((program["follow"], 0))
    for key in ("first", "second", "midpoints", "centre"):
        if key in certificate:
            places.append((certificate[key], draw.randrange(len(certificate[key]))))
    for _ in range(3):
        step = draw.choice(program["steps"])
        places.append((step, draw.randrange(1, len(step))))
    container, place = draw.choice(places)
    container[place] = other(container[place])
    return certificate


MUTATED = [mutated(certificate) for certificate in HONEST for _ in range(40)]


def value(steps: list, output: int, x: list) -> mpmath.mpf:
    """An output in 60 digits, by Python's and mpmath's own functions."""
    unary = {"exp": mpmath.exp, "log": mpmath.log, "sqrt": mpmath.sqrt, "tanh": mpmath.tanh, "abs": abs}
    binary = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
              "max": max, "min": min}  # fmt: skip
    values: list = []
    for name, *rest in steps[: output + 1]:
        if name == "x":
            values.append(x[rest[0]])
        elif name == "constant":
            q = Fraction(rest[0])
            values.append(mpmath.mpf(q.numerator) / q.denominator)
        elif name == "power":
            values.append(values[rest[0]] ** rest[1])
        else:
            values.append((unary.get(name) or binary[name])(*(values[i] for i in rest)))
    return values[output]


def number(q: str) -> mpmath.mpf:
    """A rational written as text, as a number of mpmath."""
    return mpmath.mpf(Fraction(q).numerator) / Fraction(q).denominator


def require_true(certificate: dict) -> None:
    """Assert what an accepted certificate says, computed once more."""
    program = certificate.get("aggregators") or certificate["aggregator"]
    with mpmath.workdps(60):
        if certificate["kind"] == "exact collision":
            pair = [[number(q) for q in certificate[side]] for side in ("first", "second")]
        elif certificate["kind"] == "box":
            c, r, u = certificate["centre"], number(certificate["radius"]), certificate["midpoints"]
            pair = [[number(a) + s * r * number(b) for a, b in zip(c, u, strict=True)] for s in (1, -1)]
        else:
            t, c = number(certificate["a"]), [number(q) for q in certificate["centre"]]
            u = [abs((t + shift) % 4 - 2) - 1 for shift in (0, 3)]
            pair = [[q + s * (c[1] - c[0]) / 2 * v for q, v in zip(c, u, strict=True)] for s in (1, -1)]
        assert max(abs(a - b) for a, b in zip(*pair, strict=True)) > 1e-9
        for output in [*program["outputs"], *program.get("follow", [])]:
            assert mpmath.almosteq(*(value(program["steps"], output, x) for x in pair), rel_eps=1e-15, abs_eps=1e-15)


def test_there_are_enough_of_them():
    assert len(FILES) + len(IMPOSTORS) + len(HEAVY) + len(MUTATED) + len(LIES) + len(NO_FILES) >= 300


def reason(check, *arguments: object) -> str:
    """Why a check rejects its arguments, "" if it accepts them; asserts that it takes less than SECONDS to say so.

    A second call counts if the first is slower: a busy machine slows one down.
    """
    for _ in range(2):
        start, said = time.process_time(), ""
        try:
            check(*arguments)
        except CertificateError as error:
            said = str(error)
        seconds = time.process_time() - start
        if seconds < SECONDS:
            return said
    pytest.fail(f"it takes {seconds:.2f} seconds")


def refused(check, *arguments: object) -> None:
    """Assert that a check rejects its arguments, with a reason and within SECONDS of processor time."""
    assert reason(check, *arguments)


@pytest.mark.parametrize(("name", "stem", "text"), FILES, ids=[name for name, _, _ in FILES])
def test_a_file_that_says_too_much_is_refused(tmp_path, name, stem, text):
    path = tmp_path / f"{stem}.json"
    path.write_text(text, encoding="utf-8")
    if stem == "theorem_1_trained_network":
        (tmp_path / "weights").mkdir()
        (tmp_path / "weights" / trained_network.WEIGHTS.name).write_bytes(trained_network.WEIGHTS.read_bytes())
    refused(check_file, path)


@pytest.mark.parametrize(("name", "certificate", "weights"), IMPOSTORS, ids=[name for name, _, _ in IMPOSTORS])
def test_an_invented_network_is_refused(tmp_path, name, certificate, weights):
    (tmp_path / "weights").mkdir()
    path = tmp_path / "weights" / trained_network.WEIGHTS.name
    path.write_text(json.dumps(weights), encoding="utf-8")
    refused(check_certificate, certificate, tmp_path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    refused(
        check_certificate, {**certificate, "aggregators": {"name": "trained PNA network", "weights": digest}}, tmp_path
    )


@pytest.mark.parametrize(("name", "certificate"), HEAVY, ids=[name for name, _ in HEAVY])
def test_what_is_long_to_compute_is_refused_at_once(name, certificate):
    refused(check_certificate, certificate)


def largest() -> Iterator[tuple[str, dict]]:
    """Yield certificates nearly as long to compute as they may be, most of which hold."""
    whole = [str(draw.randint(10**98, 10**99)) for _ in range(128)]
    yield "power sums", {
        "kind": "collision", "first": whole, "second": [*whole[:-1], str(int(whole[-1]) - 1)], "agree": ["max"],
        "differ": [f"power sum {k}" for k in range(93, 100)],
    }  # fmt: skip
    constants = [["x", 0], ["constant", f"{10**899 + 1}/{10**900}"], ["power", 1, 3]]
    yield "roots", exact([*constants, *(["sqrt", 2] for _ in range(2_700))], [0], ["0", "1"], ["0", "6"])
    for kind, n in (("box", 5), ("sign change", 2)):
        yield f"{kind}, cos", transcendental(kind, n, "cos", 1_000)


LARGEST = list(largest())


@pytest.mark.parametrize(("name", "certificate"), LARGEST, ids=[name for name, _ in LARGEST])
def test_the_longest_that_are_computed_take_no_longer(name, certificate):
    assert not re.search("allowed|too long", reason(check_certificate, certificate))


@pytest.mark.parametrize("certificate", HONEST, ids=[certificate["kind"] for certificate in HONEST])
def test_the_honest_ones_hold(certificate):
    assert not reason(check_certificate, certificate)
    require_true(certificate)


@pytest.mark.parametrize("certificate", MUTATED, ids=range(len(MUTATED)))
def test_what_is_altered_is_refused_or_true(certificate):
    if not reason(check_certificate, certificate):
        require_true(certificate)


X = [["x", 0], ["x", 1]]
PAIR = (["1", "4"], ["2", "3"])
LIES = {
    "a term's number is no rational": exact([*X, ["exp", 0], ["min", 1, 2]], [3], ["0", "0"], ["0", "5"]),
    "sums of roots": exact([*X, ["sqrt", 0], ["sqrt", 1], ["+", 2, 3]], [4], *PAIR),
    "nearly equal": exact([*X, ["exp", 0], ["*", 2, 1]], [3], ["1", f"{10**21 + 1}"], ["1", f"{10**21}"]),
    "the root of a negative number": exact([*X, ["+", 0, 1], ["constant", "-9"], ["+", 2, 3], ["sqrt", 4]], [5], *PAIR),
    "the logarithm of 0": exact([*X, ["+", 0, 1], ["constant", "-5"], ["+", 2, 3], ["log", 4]], [5], *PAIR),
    "division by 0": exact([*X, ["+", 0, 1], ["constant", "-5"], ["+", 2, 3], ["/", 2, 4]], [5], *PAIR),
    "a negative power of 0": exact([*X, ["+", 0, 1], ["constant", "-5"], ["+", 2, 3], ["power", 4, -1]], [5], *PAIR),
    "a maximum that is not decided": exact([*X, ["exp", 0], ["log", 2], ["max", 3, 0]], [4], ["1", "2"], ["1", "3"]),
    "one multiset": exact([*X, ["+", 0, 1]], [2], ["1", "4"], ["1", "4"]),
    "one multiset in another order": exact([*X, ["+", 0, 1]], [2], ["1", "4"], ["4", "1"]),
    "two sizes": exact([["x", 0]], [0], ["1"], ["1", "1"]),
    "a later step": exact([*X, ["+", 3, 0], ["+", 0, 1]], [2], *PAIR),
    "a step of itself": exact([*X, ["+", 2, 0]], [2], *PAIR),
    "no outputs": exact([*X, ["+", 0, 1]], [], *PAIR),
    "an output too far": exact([*X, ["+", 0, 1]], [3], *PAIR),
    "a step of no kind": exact([*X, ["oracle", 0, 1]], [2], *PAIR),
    "a decimal": exact([*X, ["constant", "0.5"], ["+", 0, 1]], [3], *PAIR),
    "true as a number": exact([*X, ["+", True, 0]], [2], *PAIR),
}  # fmt: skip


@pytest.mark.parametrize("name", LIES)
def test_a_lie_about_exact_numbers_is_refused(name):
    refused(check_certificate, LIES[name])


NOT_FOLLOWING = [(kind, i) for kind in ("box", "sign change") for i in range(12)]


@pytest.mark.parametrize(("kind", "place"), NOT_FOLLOWING)
def test_what_does_not_follow_is_refused_or_true(kind, place):
    certificate = copy.deepcopy(next(c for c in HONEST if c["kind"] == kind))
    program = certificate.get("aggregators") or certificate["aggregator"]
    program["follow"] = [min(place, len(program["steps"]) - 1)]
    try:
        check_certificate(certificate)
    except CertificateError:
        return
    require_true(certificate)


def pipe(path: Path) -> None:
    """Make a pipe at the path."""
    os.mkfifo(path)


def gigabytes(path: Path) -> None:
    """Make a file of 6 GiB at the path, which takes no space."""
    with path.open("wb") as file:
        file.truncate(6 * 2**30)


NO_FILES = {
    "a pipe": pipe,
    "an endless device": lambda path: path.symlink_to("/dev/zero"),
    "an empty device": lambda path: path.symlink_to("/dev/null"),
    "six gigabytes": gigabytes,
    "a folder": lambda path: path.mkdir(),
    "a link to a folder": lambda path: path.symlink_to("/"),
}


@pytest.mark.parametrize("name", NO_FILES)
@pytest.mark.parametrize("weights", [False, True], ids=["certificate", "weights"])
def test_what_is_no_file_is_refused(tmp_path, name, weights):
    (tmp_path / "weights").mkdir()
    NO_FILES[name](tmp_path / "weights" / trained_network.WEIGHTS.name if weights else tmp_path / "collide.json")
    if weights:
        refused(check_certificate, stored("theorem_1_trained_network")[0], tmp_path)
    else:
        refused(check_file, tmp_path / "collide.json")
