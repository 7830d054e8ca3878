import math
import re
import sys
import types

import pytest

from verification.__main__ import main
from verification.smooth import absolute, exp, log, maximum


def mean(x):
    return sum(x) / len(x)


def log_sum_exp(x):
    return log(sum(exp(y) for y in x))


@pytest.fixture(autouse=True)
def mine(monkeypatch):
    module = types.ModuleType("mine")
    module.smooth = lambda: [mean, log_sum_exp]
    module.listed = [mean, log_sum_exp]
    module.not_smooth = [max, min]
    module.mathematical = [mean, lambda x: math.exp(x[0])]
    module.continuous = [lambda x: maximum(x) + absolute(x[0])]
    module.dependent = [sum, lambda x: 3 * sum(x)]
    module.nothing = lambda: None
    module.empty = []
    module.with_argument = mean
    module.number = 7
    module.text = [mean, lambda x: "seven"]
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


@pytest.mark.parametrize(
    ("name", "n", "message"),
    [("mine:not_smooth", 4, "not smooth"), ("mine:mathematical", 4, "functions of smooth"),
     ("mine:continuous", 3, "n = 2 only"), ("mine:smooth", 2, "Theorem 1 speaks of fewer"),
     ("mine:smooth", 1, "at least 2"), ("mine", 3, "MODULE:FUNCTION"), ("mine:missing", 3, "cannot load"),
     ("missing_module:f", 3, "cannot load"), ("mine:nothing", 3, "list of functions"),
     ("mine:empty", 3, "list of functions"),
     ("mine:with_argument", 3, "without arguments"), ("mine:number", 3, "list of functions"),
     ("mine:text", 4, "cannot be used")],
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
    assert "fewer than n" in text


def test_check_from_the_command_line(capsys, tmp_path):
    assert main(["check"]) == 0
    assert "theorem_2.json: 24 certificates hold" in capsys.readouterr().out
    (tmp_path / "a.json").write_text("{")
    assert main(["check", "--directory", str(tmp_path)]) == 1
    assert "rejected: a.json: not JSON" in capsys.readouterr().err
