import itertools
import json
import math
import random
import re
import sys
import types
from fractions import Fraction

import numpy as np
import pytest

from verification.__main__ import main
from verification.checker import CertificateError, check_file
from verification.collide import UsageError, affine_pairs, find_collision
from verification.smooth import absolute, exp, log, maximum


def mean(x):
    """The mean of the elements."""
    return sum(x) / len(x)


def log_sum_exp(x):
    """The logarithm of the sum of exponentials of the elements."""
    return log(sum(exp(y) for y in x))


def std(x):
    """The standard deviation of the elements, with ε = 1e-5."""
    mu = mean(x)
    return np.sqrt(mean([(y - mu) ** 2 for y in x]) + 1e-5)


SCALERS = (lambda d: 1.0, lambda d: math.log(d + 1) / 1.5, lambda d: 1.5 / math.log(d + 1))
draw = random.Random(0)
W, B = (1.5, -1.0, 0.75, -2.0), (-2.25, 1.375, 0.5, 2.5)  # kinks at 3/2, 11/8 and 5/4, two of them falling
V = [[draw.gauss(0, 1) for _ in range(4)] for _ in range(64)]


WIDE = [[draw.gauss(0, 1) for _ in range(64)] for _ in range(66)]  # the weights, the biases, and those of 64 channels


def wide_channel(y, k):
    """Channel k of a ReLU network with one hidden layer of 64."""
    weights, biases, *rows = WIDE
    return max(0, sum(max(0, y * w + b) * v for w, b, v in zip(weights, biases, rows[k], strict=True)))


def third_moment(x):
    """The third central moment."""
    return mean([(y - mean(x)) ** 3 for y in x])


calls = itertools.count()


def channel(y, k):
    """Channel k of a ReLU network with one hidden layer of 4."""
    return max(0, sum(max(0, y * w + b) * v for w, b, v in zip(W, B, V[k], strict=True)))


MINE = {
    "operator": [lambda x, g=g, s=s: g(x) * s(len(x)) for g in (np.mean, std, max, min) for s in SCALERS],
    "relu": [lambda x, k=k: sum(channel(y, k) for y in x) for k in range(64)],
    "wide": [lambda x, k=k: sum(wide_channel(y, k) for y in x) for k in range(64)],
    "kink_at_low": [lambda x: sum(max(0, y - 1) for y in x)],
    "kinks_at_the_ends": [lambda x: sum(max(0, y - 1) for y in x), lambda x: sum(max(0, 2 - y) for y in x)],
    "kinks_on_a_grid": [
        lambda x, k=k: sum(y - k / 64 if y > k / 64 else 0.01 * (y - k / 64) for y in x) for k in range(64, 129)
    ],
    "of_differences": [np.std, lambda x: max(x) - min(x), lambda x: sum((y - mean(x)) ** 4 for y in x)],
    "central_moments": [lambda x, k=k: sum((y - mean(x)) ** k for y in x) for k in range(1, 8)],
    "even_moments": [
        mean,
        std,
        lambda x: sum((y - mean(x)) ** 4 for y in x),
        lambda x: sum(abs(y - mean(x)) for y in x),
    ],
    "third": [mean, lambda x: third_moment(x) ** (1 / 3)],
    "third_root": [mean, lambda x: np.cbrt(third_moment(x))],
    "third_signed": [
        mean,
        lambda x: third_moment(x) ** (1 / 3) if third_moment(x) > 0 else -((-third_moment(x)) ** (1 / 3)),
    ],
    "kinks_around_0": [lambda x: sum(max(0, y) for y in x)],
    "typed": [lambda x: x[0] if isinstance(x[0], float) else 0],
    "layer": [lambda x, k=k, g=g: g([channel(y, k) for y in x]) for k in range(3) for g in (mean, std, max, min)],
    "high_power": [lambda x: sum(v**400 for v in x)],
    "repeated": [mean, log_sum_exp, lambda x: 2 * log_sum_exp(x) + 1],
    "address": [lambda x: sum(x) * (id(x) % 7)],
    "first_address": [lambda x: sum(x) + id(x[0]) % 97],
    "stateful": [lambda x, calls=calls: sum(x) * next(calls)],
    "hidden_dependence": [
        lambda x: sum(np.exp(y) for y in x),
        lambda x: sum(np.exp(2 * y) for y in x),
        lambda x: sum(np.exp(y) for y in x) ** 2 + (sum(x) - 6) ** 2 * (3 * sum(x) - 17) ** 2,  # at both centres
    ],
    "alone": [lambda x: math.exp(x[0])],
    "smooth": lambda: [mean, log_sum_exp],
    "listed": [mean, log_sum_exp],
    "pna": [np.mean, np.std, max, min],
    "numpy": [np.mean, lambda x: np.log(np.sum(np.exp(x)))],
    "order_dependent": [sum, lambda x: sum(i * y for i, y in enumerate(x))],
    "medians": [np.median, np.mean],
    "around_0": [lambda x: sum((y - 1.5) ** 3 for y in x), lambda x: sum((y - 1.5) ** 2 for y in x)],
    "beside_a_pole": [lambda x: sum(np.sin(y) / np.cos(y) for y in x)],
    "continuous": [lambda x: exp(maximum(x)) + absolute(x[0])],
    "where_one_is_constant": [lambda x: 1 / (x[0] - Fraction(13, 10))],
    "mathematical": [mean, lambda x: math.exp(x[0])],
    "dependent": [sum, mean],
    "kink": [mean, lambda x: abs(x[0] - 1)],
    "pole": [lambda x: 1 / (sum(x) - 3)],
    "pole_at_the_centre": [sum, lambda x: 1 / (x[0] - 1)],
    "jump": [lambda x: 1 if sum(x) > 3 else 0],
    "step": [mean, lambda x: 1 if sum(x) > 3 else 0],
    "nan": [sum, lambda x: math.nan],
    "index": [mean, lambda x: x[99]],
    "text": [mean, lambda x: "seven"],
    "vector": [mean, lambda x: np.exp(x)],
    "nothing": lambda: None,
    "empty": [],
    "with_argument": mean,
    "number": 7,
    "broken": lambda: 1 / 0,
}


@pytest.fixture(autouse=True)
def mine(monkeypatch):
    """Make MINE a module that can be imported by its name, in every test."""
    module = types.ModuleType("mine")
    vars(module).update(MINE)
    monkeypatch.setitem(sys.modules, "mine", module)
    monkeypatch.setattr("verification.__main__.SLOW", 3600)


def collide(capsys, name, n, *more):
    """Run `collide`; return its exit status, its output and its errors."""
    status = main(["collide", "--aggregators", name, "--n", str(n), *more])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def multisets(text):
    """The multisets that `collide` printed, as lists of floats."""
    rows = [line for line in text.splitlines() if re.match(r"  [XY] = ", line)]
    return [
        [
            float(Fraction(x))
            for x in re.findall(r"\[(-?[0-9.e-]+) \+/-|(-?[0-9]+(?:/[0-9]+)?)(?=[,}])", row)
            for x in x
            if x
        ]
        for row in rows
    ]


@pytest.mark.parametrize("name", ["mine:smooth", "mine:listed"])
@pytest.mark.parametrize("n", [3, 5])
def test_a_collision_is_found_and_is_one(capsys, name, n):
    status, out, _ = collide(capsys, name, n)
    assert status == 0
    x, y = multisets(out)
    assert len(x) == len(y) == n
    assert max(abs(a - b) for a, b in zip(x, y, strict=True)) > 1e-3
    for g in (mean, log_sum_exp):
        assert g(x) == pytest.approx(g(y), abs=1e-13)
    assert "Krawczyk" in out


def test_two_elements_need_continuity_only(capsys):
    status, out, _ = collide(capsys, "mine:continuous", 2)
    assert status == 0
    x, y = multisets(out)
    assert math.exp(max(x)) + abs(x[0]) == pytest.approx(math.exp(max(y)) + abs(y[0]), abs=1e-12)
    assert x != y
    assert "intermediate value" in out


def test_another_interval(capsys):
    status, out, _ = collide(capsys, "mine:smooth", 3, "--interval", "-5", "-0.5")
    assert status == 0
    assert all(-8 < value < 2 for row in multisets(out) for value in row)


COLLIDE = [
    ("numpy", 4), ("order_dependent", 4), ("medians", 4), ("around_0", 4), ("beside_a_pole", 2), ("high_power", 3),
    ("where_one_is_constant", 2), ("repeated", 3), ("repeated", 4), ("dependent", 3), ("dependent", 4), ("kink", 4),
    ("step", 4), ("jump", 2), ("pole", 2), ("pole_at_the_centre", 4), ("layer", 5), ("layer", 8),
    *(("kink_at_low", n) for n in (2, 3, 5)), ("kinks_at_the_ends", 3), ("kinks_on_a_grid", 3), ("kinks_on_a_grid", 5),
    ("wide", 2), ("of_differences", 2), ("of_differences", 4), ("central_moments", 2), ("central_moments", 3),
    ("central_moments", 5), ("even_moments", 3), ("third", 3), ("third", 4), ("third_root", 4), ("third_signed", 3),
    *(("pna", n) for n in range(5, 13)), *(("operator", n) for n in range(5, 9)), *(("relu", n) for n in range(2, 9)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "n"), COLLIDE)
def test_the_checker_accepts_what_is_found(capsys, tmp_path, name, n):
    path = tmp_path / "found.json"
    status, out, err = collide(capsys, f"mine:{name}", n, "--out", str(path))
    assert (status, err) == (0, "")
    assert [(p.about, p.n) for p in check_file(path)] == [("program", n)]
    x, y = multisets(out)
    assert len(x) == len(y) == n
    assert max(abs(a - b) for a, b in zip(x, y, strict=True)) > 1e-4
    for g in MINE[name]:
        assert float(g(x)) == pytest.approx(float(g(y)), rel=1e-11, abs=1e-12)
    altered = json.loads(path.read_text())
    certificate = altered["certificates"][0]
    moved = lambda q: str(Fraction(q) + Fraction(1, 997))  # noqa: E731
    field = next(key for key in ("midpoints", "a", "first") if key in certificate)
    certificate[field] = (
        moved(certificate[field]) if field == "a" else [moved(certificate[field][0]), *certificate[field][1:]]
    )
    path.write_text(json.dumps(altered))
    if name not in ("step", "jump", "kink_at_low"):  # constant near there: they agree on other multisets too
        with pytest.raises(CertificateError):
            check_file(path)


def test_what_was_left_out_is_said(capsys):
    status, out, _ = collide(capsys, "mine:repeated", 4)
    assert status == 0
    assert "left out, because it follows: g_3 is dependent on g_2" in out


@pytest.mark.parametrize(
    ("name", "n", "message"),
    [("nan", 3, "nan"), ("nan", 4, "nan"), ("hidden_dependence", 4, "does not follow")],
)  # fmt: skip
def test_what_has_no_proof_is_said(capsys, name, n, message):
    status, out, err = collide(capsys, f"mine:{name}", n)
    assert (status, out) == (1, "")
    assert message in err


@pytest.mark.parametrize("interval", [("0", "1"), ("-1", "0"), ("0", "4")])
def test_a_kink_at_an_end_of_the_interval_is_no_obstacle(capsys, interval):
    status, out, err = collide(capsys, "mine:kinks_around_0", 3, "--interval", *interval)
    assert (status, err) == (0, "")
    x, y = multisets(out)
    assert sum(max(0, v) for v in x) == pytest.approx(sum(max(0, v) for v in y))


def test_where_only_some_aggregators_collide_it_is_said(capsys):
    _, _, err = collide(capsys, "mine:hidden_dependence", 4)
    assert "a collision of g_1, g_2 was found, but not that g_3" in err


def test_what_computes_something_else_with_floats_is_refused(capsys):
    status, out, err = collide(capsys, "mine:typed", 3)
    assert (status, out) == (2, "")
    assert "g_1 computes something else with floats" in err


@pytest.mark.parametrize("text", ["import sys; sys.exit(0)", "def aggregators(): raise SystemExit(0)",
                                  "aggregators = [lambda x: exit(0)]"])  # fmt: skip
def test_a_module_that_ends_the_program_proves_nothing(capsys, tmp_path, monkeypatch, text):
    (tmp_path / "that_quits.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "that_quits", raising=False)
    status, out, err = collide(capsys, "that_quits:aggregators", 3)
    assert (status, out) == (2, "")
    assert "SystemExit: 0" in err


@pytest.mark.parametrize(
    "g", [lambda x: sum(x) // 1, lambda x: sum(x) % 1, lambda x: round(x[0], 2), lambda x: len(set(x)),
          lambda x: sum(np.where(y > 1, y - 1, 0) for y in x)]
)  # fmt: skip
def test_what_an_aggregator_may_not_use_names_the_help(g):
    with pytest.raises(UsageError, match="collide --help lists what an aggregator may use"):
        find_collision([g], 3, Fraction(1), Fraction(2))


def test_a_long_search_is_said_to_go_on(capsys, monkeypatch):
    monkeypatch.setattr("verification.__main__.SLOW", 0)
    status, _, err = collide(capsys, "mine:pna", 8)
    assert (status, err) == (0, "collide: still searching\n")


@pytest.mark.parametrize("n", [2, 3, 4])
def test_n_independent_aggregators_are_said_to_be_so(capsys, n):
    """PNA's operator tells multisets of at most 4 reals apart, so there is no collision to find."""
    status, out, err = collide(capsys, "mine:operator", n)
    assert (status, out) == (2, "")
    assert f"are {n} independent aggregators for multisets of size n = {n}" in err


@pytest.mark.parametrize("name", ["address", "first_address", "stateful"])
def test_what_is_no_function_of_the_numbers_is_refused(capsys, name):
    status, out, err = collide(capsys, f"mine:{name}", 3)
    assert (status, out) == (2, "")
    assert "not a function of the numbers" in err


@pytest.mark.parametrize("bit", range(6, 17))
def test_one_bit_of_an_address_is_no_function_of_the_numbers(bit):
    """The lowest bits are left out: blocks of one size have them in common, so they are constant."""
    for g in (lambda x: sum(x) + (id(x) >> bit) % 2, lambda x: sum(x) + (id(x[-1]) >> bit) % 2):
        with pytest.raises(UsageError, match="g_2 is not a function of the numbers"):
            find_collision([mean, g], 3, Fraction(1), Fraction(2))


@pytest.mark.parametrize(
    ("name", "n", "message"),
    [("mine:mathematical", 4, "those of verification.smooth"), ("mine:alone", 2, "those of verification.smooth"),
     ("mine:smooth", 2, "Theorem 1 speaks of fewer"), ("mine:vector", 4, "must return one number"),
     ("mine:smooth", 1, "at least 2"), ("mine", 3, "MODULE:FUNCTION"), ("mine:missing", 3, "cannot load"),
     ("missing_module:f", 3, "cannot load"), ("mine:nothing", 3, "list of functions"),
     ("mine:empty", 3, "list of functions"), ("mine:broken", 3, "ZeroDivisionError"),
     ("mine:with_argument", 3, "without arguments"), ("mine:number", 3, "list of functions"),
     ("mine:text", 4, "must return one number"), ("mine:index", 4, "g_2 fails: IndexError")],
)  # fmt: skip
def test_what_cannot_be_used_is_said(capsys, name, n, message):
    status, out, err = collide(capsys, name, n)
    assert (status, out) == (2, "")
    assert message in err


def test_an_empty_interval(capsys):
    status, _, err = collide(capsys, "mine:smooth", 3, "--interval", "2", "1")
    assert status == 2
    assert "LOW < HIGH" in err


@pytest.mark.parametrize("n", range(2, 9))
def test_affine_pairs_share_what_they_say(n):
    for x, y in affine_pairs(n):
        assert len(x) == len(y) == n
        assert x != y
        assert sum(x) == sum(y)
        assert all(a < b for z in (x, y) for a, b in itertools.pairwise(z))
    assert any(
        (x[0], x[-1], sum(v * v for v in x)) == (y[0], y[-1], sum(v * v for v in y)) for x, y in affine_pairs(n)
    ) == (n > 4)


def test_a_certificate_that_cannot_be_written_is_no_traceback(capsys, tmp_path):
    status, out, err = collide(capsys, "mine:smooth", 3, "--out", str(tmp_path / "missing" / "found.json"))
    assert status == 1
    assert "Proved" in out
    assert "cannot be kept" in err


def test_usage_errors_exit_with_2():
    with pytest.raises(SystemExit) as stopped:
        main(["collide", "--n", "3"])
    assert stopped.value.code == 2


def test_help_says_what_is_needed(capsys):
    with pytest.raises(SystemExit):
        main(["collide", "--help"])
    text = capsys.readouterr().out
    assert "verification.smooth" in text
    assert "Fewer than n of them may be independent" in " ".join(text.split())


def test_check_from_the_command_line(capsys, tmp_path):
    assert main(["check"]) == 0
    assert "theorem_2.json: 24 certificates hold" in capsys.readouterr().out
    (tmp_path / "a.json").write_text("{")
    assert main(["check", str(tmp_path / "a.json")]) == 1
    assert "rejected: a.json: not JSON" in capsys.readouterr().err
    assert main(["check", str(tmp_path / "missing.json")]) == 1
    assert "rejected:" in capsys.readouterr().err


def test_a_module_that_cannot_be_read_is_told_without_a_traceback(capsys, tmp_path, monkeypatch):
    (tmp_path / "syntax_of_mine.py").write_text("def aggregators(:")
    monkeypatch.syspath_prepend(tmp_path)
    status, out, err = collide(capsys, "syntax_of_mine:aggregators", 4)
    assert (status, out) == (2, "")
    assert "SyntaxError" in err
