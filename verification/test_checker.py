import ast
import copy
import hashlib
import json
import os
from fractions import Fraction
from pathlib import Path

import pytest

from verification import checker, find, trained_network
from verification.checker import STATEMENTS, CertificateError, Proved, check_directory, check_file, sizes
from verification.families import paper_smooth, power_sums

HERE = Path(__file__).parent
FILES = sorted(find.CERTIFICATES.glob("*.json"))


def check_certificate(certificate: object) -> Proved:
    """What a certificate proves, with the stored weights."""
    return checker.check_certificate(certificate, find.CERTIFICATES)


def stored(name: str) -> list[dict]:
    """The certificates of a stored file."""
    return json.loads((find.CERTIFICATES / f"{name}.json").read_text(encoding="utf-8"))["certificates"]


def first_of(name: str, kind: str) -> dict:
    """A copy of the first certificate of a kind in a stored file."""
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
    """A copy of a stored certificate, by its name in EXAMPLES."""
    return first_of(*EXAMPLES[name])


def assert_rejected(certificate: object, match: str | None = None) -> None:
    """Assert that a certificate is rejected, with a message that matches."""
    with pytest.raises(CertificateError, match=match):
        check_certificate(certificate)


def nudged(text: str) -> str:
    """The rational larger by 1/1000, as text."""
    return str(Fraction(text) + Fraction(1, 1000))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_stored_certificates_hold(path):
    assert check_file(path)


def test_every_file_is_stored():
    assert {path.stem for path in FILES} == set(find.MAKERS) == set(STATEMENTS) - {"collide"}
    assert len(check_directory(find.CERTIFICATES)) == len(FILES)


@pytest.mark.parametrize("name", ["power_sums", "power_means", "log_sum_exp", "random_networks"])
def test_families_are_stored_from_2_to_16(name):
    assert sizes(check_file(find.CERTIFICATES / f"theorem_1_{name}.json")) == "n = 2 … 16"


def test_sizes_in_words():
    assert sizes([Proved("box", "", n) for n in (4, 2, 3, 7, 9, 10, 4)]) == "n = 2 … 4, 7, 9, 10"


BOUND = [name for name in STATEMENTS if name.startswith("theorem_1_") and name != "theorem_1_n2"]


@pytest.mark.parametrize("name", [*BOUND, "theorem_1_n2", "proposition_1", "theorem_2", "prouhet_tarry_escott"])
def test_certificates_are_bound_to_their_file(tmp_path, name):
    """Power-sum boxes (for power sums: power means) prove nothing in another family's file."""
    other = "power_sums" if name != "theorem_1_power_sums" else "power_means"
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps({"statement": STATEMENTS[name].text, "certificates": stored(f"theorem_1_{other}")}))
    with pytest.raises(CertificateError, match=r"about|is no proof of"):
        check_file(path)


def test_a_file_states_what_its_name_says(tmp_path):
    path = tmp_path / "theorem_1_power_means.json"
    content = {"statement": STATEMENTS["theorem_1_power_sums"].text, "certificates": stored("theorem_1_power_sums")}
    path.write_text(json.dumps(content))
    with pytest.raises(CertificateError, match="the statement of this file must be"):
        check_file(path)
    path.rename(tmp_path / "mine.json")
    assert check_file(tmp_path / "mine.json")


def test_a_size_counts_once(tmp_path):
    path = tmp_path / "theorem_1_power_sums.json"
    content = {"statement": STATEMENTS[path.stem].text, "certificates": stored(path.stem)[:1] * 2}
    path.write_text(json.dumps(content))
    with pytest.raises(CertificateError, match="n = 2 twice"):
        check_file(path)


@pytest.mark.parametrize(
    "name", ["counterexamples", "prouhet_tarry_escott", "theorem_1_n2", "proposition_1", "theorem_2"]
)
def test_a_statement_counts_once(tmp_path, name):
    path = tmp_path / f"{name}.json"
    *_, certificate = stored(name)
    again = copy.deepcopy(certificate)
    for key in ("elements", "multiset"):
        if key in again:
            again[key].reverse()
    if "first" in again:
        again["first"], again["second"] = again["second"][::-1], again["first"]
    path.write_text(json.dumps({"statement": STATEMENTS[name].text, "certificates": [certificate, again]}))
    with pytest.raises(CertificateError, match="states what another one states"):
        check_file(path)


def test_halved_integers_are_no_integers(tmp_path):
    path = tmp_path / "prouhet_tarry_escott.json"
    certificate = stored(path.stem)[3]
    for side in ("first", "second"):
        certificate[side] = [str(Fraction(x) / 2) for x in certificate[side]]
    assert check_certificate(certificate).about == "n - 1 power sums"
    path.write_text(json.dumps({"statement": STATEMENTS[path.stem].text, "certificates": [certificate]}))
    with pytest.raises(CertificateError, match="it is about n - 1 power sums, and"):
        check_file(path)


def test_other_weights_than_those_stated_are_rejected(tmp_path):
    certificate = stored("theorem_1_trained_network")[0]
    with pytest.raises(CertificateError, match="there is no"):
        checker.check_certificate(certificate, tmp_path)
    (tmp_path / "weights").mkdir()
    weights = json.loads(trained_network.WEIGHTS.read_text())
    weights["delta"] = "2"
    (tmp_path / "weights" / trained_network.WEIGHTS.name).write_text(json.dumps(weights))
    with pytest.raises(CertificateError, match="not the one stated"):
        checker.check_certificate(certificate, tmp_path)
    digest = hashlib.sha256((tmp_path / "weights" / trained_network.WEIGHTS.name).read_bytes()).hexdigest()
    certificate["aggregators"]["weights"] = digest  # a file that vouches for itself
    with pytest.raises(CertificateError, match="and no other"):
        checker.check_certificate(certificate, tmp_path)


@pytest.mark.parametrize("name", ["checker", "interval_checker", "program_checker", "certificate"])
def test_the_checker_shares_no_code_with_the_finder(name):
    tree = ast.parse((HERE / f"{name}.py").read_text(encoding="utf-8"))
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert {m for m in modules if m.split(".")[0] in ("verification", "pna")} <= {
        "verification.interval_checker", "verification.program_checker", "verification.certificate"
    }  # fmt: skip
    assert "torch" not in modules


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_dropped_or_an_added_field_is_rejected(name):
    certificate = example(name)
    check_certificate(certificate)
    for field in certificate:
        assert_rejected({key: value for key, value in certificate.items() if key != field})
    assert_rejected({**certificate, "comment": "trust me"}, "fields")
    assert_rejected({**certificate, "kind": "oracle"}, "kind")
    assert_rejected({**certificate, "kind": ["box"]}, "kind")


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
    assert_rejected({**certificate, "agree": certificate["agree"] * 2}, "twice")


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
        certificate = {
            "kind": "box", "n": 3, "aggregators": {"name": "power sums"}, "centre": [str(c) for c in centre],
            "radius": "1/1000", "midpoints": [str(x / 2) for x in u], "radii": ["2"] * 3, "precision": 200,
        }  # fmt: skip
        assert_rejected(certificate, "Jacobian|Newton")

    def test_the_width_of_the_image_counts(self):
        # The zero is near the box's edge: the middle of Newton's image lies in the box, and an end of it does not.
        certificate = find.box(power_sums(4))
        first, *rest = certificate["midpoints"]
        moved = {**certificate, "midpoints": [str(Fraction(first) + Fraction(19, 200)), *rest]}
        assert_rejected({**moved, "radii": ["1/10"] * 4}, "Newton operator")
        check_certificate({**moved, "radii": ["1/5"] * 4})

    @pytest.mark.parametrize("sign", [1, -1])
    def test_both_multisets_must_be_ordered(self, sign):
        # c = (0, 1), u = ±(-1, 1)/√2, r = 1: one of c ± r u is ordered, the other is not.
        half = Fraction(round(Fraction(1, 2) ** Fraction(1, 2) * 10**30), 10**30)
        certificate = {
            "kind": "box", "n": 2, "aggregators": {"name": "power sums"}, "centre": ["0", "1"], "radius": "1",
            "midpoints": [str(-sign * half), str(sign * half)], "radii": ["1/1000"] * 2, "precision": 200,
        }  # fmt: skip
        assert_rejected(certificate, "ordered")
        check_certificate({**certificate, "radius": "1/2"})

    def test_another_n(self):
        certificate = example("box")
        assert_rejected({**certificate, "n": certificate["n"] + 1}, "coordinates")

    def test_another_family(self):
        certificate = find.box(power_sums(5))
        assert_rejected({**certificate, "aggregators": {"name": "power means"}})
        assert_rejected({**certificate, "aggregators": {"name": "power sums", "w": []}}, "fields")
        assert_rejected({**certificate, "aggregators": {"name": "max"}}, "name")

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
        reordered = {**description, "aggregators": ["std", "mean", "softmax"]}  # true, and not what the report says
        assert_rejected({**certificate, "aggregators": reordered}, "must be")
        # Another ε leaves a true statement, since √(σ² + ε) agrees where σ² does: it is still a proof, and accepted.
        check_certificate({**certificate, "aggregators": {**description, "epsilon": "1/1000"}})

    @pytest.mark.parametrize(
        ("name", "field"),
        [("log_sum_exp", "temperatures"), ("random_networks", "w"), ("random_networks", "b"), ("random_networks", "V"),
         ("trained_network", "weights")],
    )  # fmt: skip
    def test_an_altered_weight(self, name, field):
        certificate = copy.deepcopy(next(c for c in stored(f"theorem_1_{name}") if c["n"] == 5))
        container, key = certificate["aggregators"], field
        while isinstance(container[key], list):
            container, key = container[key], 0
        container[key] = nudged(container[key]) if name != "trained_network" else container[key][::-1]
        assert_rejected(certificate)


@pytest.mark.parametrize(
    "change",
    [{"a": "0", "b": "1/64"}, {"a": "3", "b": "1"}, {"b": "5"}, {"aggregator": "median"}, {"centre": ["2", "1"]},
     {"centre": ["1", "2", "3"]}],
)  # fmt: skip
def test_altered_sign_changes_are_rejected(change):
    assert_rejected({**example("sign change"), **change})


def sign_change(**changes: object) -> dict:
    """A valid certificate of the program (x_0 + x_1 - 3)³, with some fields changed."""
    steps = [["x", 0], ["x", 1], ["+", 0, 1], ["constant", "3"], ["-", 2, 3], ["power", 4, 3]]
    program = {"name": "program", "steps": steps, "outputs": [5], "follow": []}
    return {"kind": "sign change", "aggregator": program, "centre": ["1", "2"], "a": "5/4", "b": "7/4", "precision": 64,
            **changes}  # fmt: skip


def test_a_sign_that_is_not_certain_is_rejected():
    assert check_certificate(sign_change()).about == "program"
    assert_rejected(sign_change(aggregator="mean", a="3/2", b="2"), "not certain")
    assert_rejected(sign_change(b="11/8"), "same at both ends")


@pytest.mark.parametrize("operation", [["power", 4, -1], ["power", 4, -3], ["/", 3, 4]])
def test_a_pole_is_not_a_zero(operation):
    certificate = sign_change()
    certificate["aggregator"]["steps"][5] = operation
    assert_rejected(certificate, "there may be a pole")


@pytest.mark.parametrize(
    "step",
    [["x", 2], ["x", -1], ["y", 0], ["constant", 3], ["constant", "0.5"], ["+", 0], ["+", 0, 5], ["power", 0, 1000],
     ["power", 0, "2"], ["exp", 0, 1], ["log", True], "x", [], ["x"], ["x", 0, 0, 0]],
    ids=str,
)  # fmt: skip
def test_a_step_that_is_none_is_rejected(step):
    certificate = sign_change()
    certificate["aggregator"]["steps"][5] = step
    assert_rejected(certificate)


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
    assert_rejected({**certificate, "h": [middle, "0"]} if scaler == "logarithmic" else {**certificate, "N": 11})
    assert_rejected({**certificate, "depth": 2})


def test_the_base_exceeds_every_size_and_not_only_this_one():
    certificate = next(c for c in stored("theorem_2") if c["kind"] == "encoding" and len(c["multiset"]) == 1)
    largest = len(certificate["scaler"]["values"])
    values = [Fraction(v) for v in certificate["scaler"]["values"]]
    N, (z,) = largest + 1, certificate["multiset"]
    h = values[0] * (Fraction(1, N**z) + Fraction(certificate["K"]))
    assert_rejected({**certificate, "N": N, "h": [str(h), "0"]}, "N must exceed the largest size")


def test_a_scaler_that_repeats_a_value_is_rejected():
    certificate = example("encoding")
    values = list(certificate["scaler"]["values"])
    values[1] = values[0]
    assert_rejected({**certificate, "scaler": {"name": "table", "values": values}}, "injective")
    assert_rejected({**certificate, "scaler": {"name": "table", "values": ["-1", *values[1:]]}}, "positive")
    assert_rejected({**certificate, "scaler": {"name": "logarithmic", "alpha": 0, "largest": 10}}, "alpha")
    assert_rejected({**certificate, "scaler": {"name": "cubic"}}, "the scaler's name")


def test_altered_encoding_collisions_are_rejected():
    certificate = example("encoding collision")
    assert_rejected({**certificate, "K": "1"}, "differs")
    assert_rejected({**certificate, "N": certificate["N"] + 1}, "differs")
    assert_rejected({**certificate, "first": certificate["second"]}, "the same")
    assert_rejected({**certificate, "first": [2]}, "differs")
    assert_rejected({**certificate, "first": [1, 2, 1], "second": [2, 1, 1]}, "the same")
    for scaler in ({"name": "logarithmic", "alpha": 1, "values": ["1", "1"]}, {"values": ["1", "1"]}, {"name": "table"},
                   {"name": "table", "values": ["1", "1"], "alpha": 1}):  # fmt: skip
        assert_rejected({**certificate, "scaler": scaler, "first": [1], "second": [1, 1]})


def _file(certificates: str) -> str:
    """The text of a file about Proposition 1, from its list of certificates in JSON."""
    return f'{{"statement": "{STATEMENTS["proposition_1"].text}", "certificates": {certificates}}}'


@pytest.mark.parametrize(
    ("text", "match"),
    [("{", "not JSON"), ("[]", "object"), ("{}", "fields"), (_file("[]"), "1 to 1000"), (_file("7"), "1 to 1000"),
     (_file("[7]"), "certificate 0: a certificate must be an object"), ("\ufeff", "not JSON"),
     ('{"statement": "", "certificates": []}', "the statement must be one of"), (_file('[{"kind": "oracle"}]'), "kind"),
     ('{"statement": 1, "statement": 2}', "a field twice"), (_file('[{"kind": "box", "kind": "box"}]'), "twice"),
     (_file("[1.5]"), "whole"), (_file("[NaN]"), "whole"), (_file("[" + "9" * 5000 + "]"), "not JSON"),
     (_file("[" * 100_000 + "]" * 100_000), "nested too deeply"), (" " * 2_000_001, "bytes")],
    ids=range(16),
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


def test_devices_pipes_folders_and_endless_links_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "endless.json").symlink_to("/dev/zero")
    (tmp_path / "folder.json").mkdir()
    for name in ("pipe", "endless", "folder"):
        with pytest.raises(CertificateError, match="not a plain file"):
            check_file(tmp_path / f"{name}.json")
    (tmp_path / "weights").mkdir()
    certificate = stored("theorem_1_trained_network")[0]
    weights = tmp_path / "weights" / trained_network.WEIGHTS.name
    with weights.open("wb") as file:
        file.truncate(6 * 2**30)  # sparse: six gigabytes that no disk holds
    with pytest.raises(CertificateError, match="more than the"):
        checker.check_certificate(certificate, tmp_path)
    weights.unlink()
    weights.symlink_to("/dev/zero")
    with pytest.raises(CertificateError, match="not a plain file"):
        checker.check_certificate(certificate, tmp_path)


def test_the_checkers_aggregators_by_hand():
    x = [1, 2, 6]
    assert [checker._aggregate(name, x) for name in ("mean", "std", "max", "min")] == [3, Fraction(14, 3), 6, 1]
    assert checker._aggregate("power sum 3", x) == 1 + 8 + 216
