import ast
import copy
import json
from fractions import Fraction
from pathlib import Path

import pytest

from verification import checker, find, interval_checker
from verification.checker import CertificateError, check_certificate, check_directory, check_file
from verification.families import paper_smooth, power_sums

HERE = Path(__file__).parent
FILES = sorted(find.CERTIFICATES.glob("*.json"))


def stored(name: str) -> list[dict]:
    return json.loads((find.CERTIFICATES / f"{name}.json").read_text(encoding="utf-8"))["certificates"]


def first_of(name: str, kind: str) -> dict:
    return copy.deepcopy(next(c for c in stored(name) if c["kind"] == kind))


EXAMPLES = {
    "collision": ("counterexamples", "collision"),
    "integers": ("prouhet_tarry_escott", "collision"),
    "box": ("theorem_1_paper_smooth", "box"),
    "sign change": ("theorem_1_n2", "sign change"),
    "moments": ("proposition_1", "moments"),
    "encoding": ("theorem_2", "encoding"),
    "encoding collision": ("theorem_2", "encoding collision"),
}


def example(name: str) -> dict:
    return first_of(*EXAMPLES[name])


def assert_rejected(certificate: object, match: str | None = None) -> None:
    with pytest.raises(CertificateError, match=match):
        check_certificate(certificate)


def nudged(text: str) -> str:
    return str(Fraction(text) + Fraction(1, 1000))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_stored_certificates_hold(path):
    assert check_file(path) > 0


def test_every_file_is_stored():
    assert {path.stem for path in FILES} == set(find.FILES)
    assert len(check_directory(find.CERTIFICATES)) == len(FILES)


@pytest.mark.parametrize("name", ["power_sums", "power_means", "log_sum_exp", "random_networks"])
def test_families_are_stored_from_2_to_16(name):
    assert [certificate["n"] for certificate in stored(f"theorem_1_{name}")] == list(range(2, 17))


@pytest.mark.parametrize("name", ["checker", "interval_checker"])
def test_the_checker_shares_no_code_with_the_finder(name):
    tree = ast.parse((HERE / f"{name}.py").read_text(encoding="utf-8"))
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert {m for m in modules if m.split(".")[0] in ("verification", "pna")} <= {"verification.interval_checker"}
    assert "torch" not in modules


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_dropped_or_an_added_field_is_rejected(name):
    certificate = example(name)
    check_certificate(certificate)
    for field in certificate:
        assert_rejected({key: value for key, value in certificate.items() if key != field})
    assert_rejected({**certificate, "comment": "trust me"}, "fields")
    assert_rejected({**certificate, "kind": "oracle"}, "kind")


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("value", [None, -1, "x", [], {}, ["1/0"], True, 2.5])
def test_a_field_of_another_type_is_rejected(name, value):
    certificate = example(name)
    for field in certificate:
        if certificate[field] != value and not (field == "differ" and value in ([], {})):
            assert_rejected({**certificate, field: value})


@pytest.mark.parametrize("name", ["collision", "integers"])
def test_altered_multisets_are_rejected(name):
    certificate = example(name)
    for i, x in enumerate(certificate["first"]):
        assert_rejected(
            {**certificate, "first": [*certificate["first"][:i], nudged(x), *certificate["first"][i + 1 :]]}
        )
    assert_rejected({**certificate, "second": certificate["first"]}, "the same")
    assert_rejected({**certificate, "second": certificate["first"][::-1]}, "the same")
    assert_rejected({**certificate, "agree": certificate["agree"] + certificate["differ"]}, "differs")
    assert_rejected({**certificate, "differ": certificate["agree"]}, "agrees")
    assert_rejected({**certificate, "agree": ["median"]}, "unknown")


class TestBox:
    """Every number of a box matters."""

    def test_altered_midpoints(self):
        certificate = example("box")
        for i, m in enumerate(certificate["midpoints"]):
            midpoints = list(certificate["midpoints"])
            midpoints[i] = nudged(m)
            assert_rejected({**certificate, "midpoints": midpoints})

    @pytest.mark.parametrize("radius", ["0", "-1/1000", "1/100000000000000000000000000000000000000000000000000000000"])
    def test_no_radius_or_one_below_the_precision(self, radius):
        certificate = find.box(power_sums(5))
        check_certificate(certificate)
        certificate["midpoints"] = [
            str(Fraction(round(Fraction(m) * 10**30), 10**30)) for m in certificate["midpoints"]
        ]
        assert_rejected({**certificate, "radii": [radius] * 5})

    def test_a_radius_that_holds_both_zeros(self):
        # The sphere is small, so that the elements stay ordered over the whole box: only the Newton test can refuse it.
        centre = [Fraction(k) for k in range(3)]
        u = [Fraction(1), Fraction(-2), Fraction(1)]
        reason = interval_checker.box_holds_a_collision(
            {"name": "power sums"}, centre, Fraction(1, 1000), [x / 2 for x in u], [Fraction(2)] * 3, 200
        )
        assert reason is not None
        assert "ordered" not in reason

    def test_another_n(self):
        certificate = example("box")
        assert_rejected({**certificate, "n": certificate["n"] + 1}, "coordinates")

    def test_another_family(self):
        certificate = find.box(power_sums(5))
        assert_rejected({**certificate, "aggregators": {"name": "power means"}})
        assert_rejected({**certificate, "aggregators": {"name": "power sums", "w": []}}, "fields")
        assert_rejected({**certificate, "aggregators": {"name": "max"}}, "unknown")

    def test_another_sphere(self):
        certificate = find.box(power_sums(5))
        assert_rejected({**certificate, "radius": nudged(certificate["radius"])})
        assert_rejected({**certificate, "radius": "5"}, "ordered")
        assert_rejected({**certificate, "centre": [nudged(certificate["centre"][0]), *certificate["centre"][1:]]})

    def test_too_few_bits(self):
        assert_rejected({**find.box(power_sums(5)), "precision": 20})

    def test_too_few_or_repeated_aggregators(self):
        certificate = find.box(paper_smooth(4))
        check_certificate(certificate)
        description = certificate["aggregators"]
        for names in (["mean", "std"], ["mean", "std", "std"], ["mean", "std", "softmin"], ["mean", "std", "median"]):
            assert_rejected({**certificate, "aggregators": {**description, "aggregators": names}})
        # Another ε leaves a true statement, since √(σ² + ε) agrees where σ² does: it is a proof still, and accepted.
        check_certificate({**certificate, "aggregators": {**description, "epsilon": "1/1000"}})

    @pytest.mark.parametrize(
        ("name", "field"),
        [("log_sum_exp", "temperatures"), ("random_networks", "w"), ("random_networks", "b"), ("random_networks", "V"),
         ("trained_layer", "w"), ("trained_layer", "b"), ("trained_layer", "W2"), ("trained_layer", "U"),
         ("trained_layer", "mix"), ("trained_layer", "delta"), ("trained_layer", "epsilon")],
    )  # fmt: skip
    def test_an_altered_weight(self, name, field):
        certificate = copy.deepcopy(next(c for c in stored(f"theorem_1_{name}") if c["n"] == 5))
        container, key = certificate["aggregators"], field
        while isinstance(container[key], list):
            container, key = container[key], 0
        container[key] = nudged(container[key])
        assert_rejected(certificate)


@pytest.mark.parametrize(
    "change",
    [{"a": "0", "b": "1/64"}, {"a": "3", "b": "1"}, {"b": "5"}, {"aggregator": "median"}, {"centre": ["2", "1"]},
     {"centre": ["1", "2", "3"]}],
)  # fmt: skip
def test_altered_sign_changes_are_rejected(change):
    assert_rejected({**example("sign change"), **change})


def test_a_sign_that_is_not_certain_is_rejected():
    assert "not certain" in interval_checker.sign_changes(
        "mean", [Fraction(1), Fraction(2)], Fraction(3, 2), Fraction(2), 64
    )


def test_altered_moments_are_rejected():
    certificate = copy.deepcopy(stored("proposition_1")[3])
    for field in ("elements", "moments"):
        for i, value in enumerate(certificate[field]):
            changed = list(certificate[field])
            changed[i] = nudged(value)
            assert_rejected({**certificate, field: changed})
    assert_rejected({**certificate, "mean": nudged(certificate["mean"])}, "mean")
    assert_rejected({**certificate, "n": certificate["n"] - 1}, "elements")


@pytest.mark.parametrize("scaler", ["table", "logarithmic"])
def test_altered_encodings_are_rejected(scaler):
    certificate = copy.deepcopy(
        next(c for c in stored("theorem_2") if c.get("scaler", {}).get("name") == scaler and len(c["multiset"]) == 4)
    )
    check_certificate(certificate)
    X, (middle, radius) = certificate["multiset"], certificate["h"]
    assert_rejected({**certificate, "multiset": [*X[:-1], X[-1] + 1], "depth": 60})
    assert_rejected({**certificate, "multiset": X[:-1]})
    assert_rejected({**certificate, "K": "1"}, "K is not certainly above")
    assert_rejected({**certificate, "K": str(Fraction(certificate["K"]) + 1)})
    assert_rejected({**certificate, "N": 5}, "N must exceed")
    assert_rejected({**certificate, "N": certificate["N"] + 1})
    assert_rejected({**certificate, "h": [nudged(middle), radius]}, "not the value")
    if scaler == "table":
        assert_rejected({**certificate, "h": [str(Fraction(middle) + Fraction(1, 10**500)), radius]}, "not the value")
    assert_rejected({**certificate, "h": [middle, "1/1000"]}, "narrow")
    assert_rejected({**certificate, "h": [middle, "-1"]})
    assert_rejected({**certificate, "depth": 2})


def test_a_scaler_that_repeats_a_value_is_rejected():
    certificate = example("encoding")
    values = list(certificate["scaler"]["values"])
    values[1] = values[0]
    assert_rejected({**certificate, "scaler": {"name": "table", "values": values}}, "injective")
    assert_rejected({**certificate, "scaler": {"name": "table", "values": ["-1", *values[1:]]}}, "positive")
    assert_rejected({**certificate, "scaler": {"name": "logarithmic", "alpha": 0, "largest": 10}}, "alpha")
    assert_rejected({**certificate, "scaler": {"name": "cubic"}}, "unknown")


def test_altered_encoding_collisions_are_rejected():
    certificate = example("encoding collision")
    assert_rejected({**certificate, "K": "1"}, "differs")
    assert_rejected({**certificate, "N": certificate["N"] + 1}, "differs")
    assert_rejected({**certificate, "first": certificate["second"]}, "the same")
    assert_rejected({**certificate, "first": [2]}, "differs")


@pytest.mark.parametrize(
    ("text", "match"),
    [("{", "not JSON"), ("[]", "object"), ("{}", "fields"), ('{"statement": "", "certificates": []}', "not empty"),
     ('{"statement": "", "certificates": [7]}', "certificate 0: kind"), ("\ufeff", "not JSON")],
)  # fmt: skip
def test_malformed_files_are_rejected(tmp_path, text, match):
    path = tmp_path / "bad.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CertificateError, match=match):
        check_file(path)


def test_files_that_are_not_text_or_not_there(tmp_path):
    (tmp_path / "bad.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CertificateError, match="not JSON"):
        check_file(tmp_path / "bad.json")
    with pytest.raises(CertificateError, match="no certificates"):
        check_directory(tmp_path / "nothing")


def test_the_checkers_aggregators_by_hand():
    x = [Fraction(1), Fraction(2), Fraction(6)]
    assert [checker._aggregate(name, x) for name in ("mean", "std", "max", "min")] == [3, Fraction(14, 3), 6, 1]
    assert checker._aggregate("power sum 3", x) == 1 + 8 + 216
