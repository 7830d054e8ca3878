import json
import math
import re
import sys
import types
from fractions import Fraction

import numpy as np
import pytest

from verification.__main__ import main
from verification.checker import CertificateError, check_file
from verification.smooth import absolute, exp, log, maximum


def mean(x):
    return sum(x) / len(x)


def log_sum_exp(x):
    return log(sum(exp(y) for y in x))


MINE = {
    "smooth": lambda: [mean, log_sum_exp],
    "listed": [mean, log_sum_exp],
    "pna": [np.mean, np.std, max, min],
    "numpy": [np.mean, lambda x: np.log(np.sum(np.exp(x)))],
    "order_dependent": [sum, lambda x: sum(i * y for i, y in enumerate(x))],
    "medians": [np.median, np.mean],
    "around_0": [lambda x: sum((y - 1.5) ** 3 for y in x), lambda x: sum((y - 1.5) ** 2 for y in x)],
    "beside_a_pole": [lambda x: sum(np.sin(y) / np.cos(y) for y in x)],
    "continuous": [lambda x: maximum(x) + absolute(x[0])],
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
    module = types.ModuleType("mine")
    vars(module).update(MINE)
    monkeypatch.setitem(sys.modules, "mine", module)


def collide(capsys, name, n, *more):
    status = main(["collide", "--aggregators", name, "--n", str(n), *more])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def multisets(text):
    rows = [line for line in text.splitlines() if re.match(r"  [XY] = ", line)]
    return [[float(x) for x in re.findall(r"\[(-?[0-9.e-]+) \+/-", row)] for row in rows]


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
    assert max(x) + abs(x[0]) == pytest.approx(max(y) + abs(y[0]), abs=1e-13)
    assert x != y
    assert "intermediate value" in out


def test_another_interval(capsys):
    status, out, _ = collide(capsys, "mine:smooth", 3, "--interval", "-5", "-0.5")
    assert status == 0
    assert all(-8 < value < 2 for row in multisets(out) for value in row)


COLLIDE = [("numpy", 4), ("order_dependent", 4), ("medians", 4), ("around_0", 4), ("beside_a_pole", 2),
           ("where_one_is_constant", 2), *(("pna", n) for n in range(5, 13))]  # fmt: skip


@pytest.mark.parametrize(("name", "n"), COLLIDE)
def test_the_checker_accepts_what_is_found(capsys, tmp_path, name, n):
    path = tmp_path / "found.json"
    status, out, err = collide(capsys, f"mine:{name}", n, "--out", str(path))
    assert (status, err) == (0, "")
    assert [(p.about, p.n) for p in check_file(path)] == [("program", n)]
    x, y = multisets(out)
    assert max(abs(a - b) for a, b in zip(x, y, strict=True)) > 1e-4
    for g in MINE[name]:
        assert float(g(x)) == pytest.approx(float(g(y)), abs=1e-12)
    altered = json.loads(path.read_text())
    certificate = altered["certificates"][0]
    field = "midpoints" if n > 2 else "a"
    moved = lambda q: str(Fraction(q) + Fraction(1, 997))  # noqa: E731
    certificate[field] = [moved(q) for q in certificate[field]] if n > 2 else moved(certificate[field])
    path.write_text(json.dumps(altered))
    with pytest.raises(CertificateError):
        check_file(path)


@pytest.mark.parametrize(
    ("name", "n", "message"),
    [("dependent", 4, "g_2 is dependent on g_1"), ("step", 4, "g_2 is constant near"), ("pole", 2, "a pole or a jump"),
     ("jump", 2, "a pole or a jump"), ("nan", 3, "nan"), ("nan", 4, "nan"),
     ("pole_at_the_centre", 4, "g_2: 1/x is not defined")],
)  # fmt: skip
def test_what_has_no_proof_is_said(capsys, name, n, message):
    status, out, err = collide(capsys, f"mine:{name}", n)
    assert (status, out) == (1, "")
    assert message in err


@pytest.mark.parametrize(
    ("name", "n", "message"),
    [("mine:kink", 4, "g_2: abs is not smooth"), ("mine:mathematical", 4, "those of smooth"),
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


def test_not_found(capsys):
    status, _, err = collide(capsys, "mine:dependent", 3)
    assert status == 1
    assert "dependent" in err


def test_usage_errors_exit_with_2():
    with pytest.raises(SystemExit) as stopped:
        main(["collide", "--n", "3"])
    assert stopped.value.code == 2


def test_help_says_what_is_needed(capsys):
    with pytest.raises(SystemExit):
        main(["collide", "--help"])
    text = capsys.readouterr().out
    assert "verification.smooth" in text
    assert "fewer than n" in " ".join(text.split())


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
