"""Certificates that state something false, or nothing at all: every one is rejected, in words and at once."""

import copy
import json
import re
import time
from collections.abc import Iterator
from fractions import Fraction

import pytest

from verification import find
from verification.checker import KINDS, CertificateError, check_certificate

EXAMPLES = {
    "box, trained_network": ("theorem_1_trained_network", 2),
    "collision": ("counterexamples", 0),
    "power sums": ("prouhet_tarry_escott", 3),
    "sign change": ("theorem_1_n2", 4),
    "moments": ("proposition_1", 2),
    "table": ("theorem_2", 1),
    "logarithmic": ("theorem_2", 10),
    "encoding collision": ("theorem_2", 15),
    "encoding collision of a table": ("theorem_2", 18),
    **{
        f"box, {name}": (f"theorem_1_{name}", 3)
        for name in ("power_sums", "power_means", "log_sum_exp", "random_networks", "paper_smooth")
    },
}
TOO_MUCH = {
    "n": [10**9, 33_000, -1], "precision": [10**8, 2049, 1], "depth": [10**9, 201], "N": [10**9, 10**4000],
    "multiset": [[10**9], [1] * 6000, [0]], "first": [["9" * 5000], ["1"] * 6000], "elements": [["1"] * 6000],
    "centre": [["1"] * 6000], "midpoints": [["1/" + "3" * 5000]], "radii": [["1"] * 129], "K": ["7" * 5000],
    "agree": [["power sum 1000000000"], ["power sum 100"], ["power sum ٣"]], "scaler": [
        {"name": "logarithmic", "alpha": 1, "largest": 10**9}, {"name": "logarithmic", "alpha": True, "largest": 5},
        {"name": "logarithmic", "alpha": 1, "values": ["1", "1"]}, {"name": "table", "values": ["1"], "unit": "1"}],
    "aggregators": [{"name": "power sums", "orders": "all"}, {"name": "program", "steps": [["x", 0]] * 20_000,
                    "outputs": [0]}, {"name": "program", "steps": [], "outputs": []}],
}  # fmt: skip
MALFORMED = [None, True, "٣", "1/0", "1_000", " 1", "0x10", "+1", "nan", {}, [], [[]], ["1/0"], 2.5]


def example(name: str) -> dict:
    """A copy of a stored certificate, by its name in EXAMPLES."""
    file, place = EXAMPLES[name]
    path = find.CERTIFICATES / f"{file}.json"
    return copy.deepcopy(json.loads(path.read_text(encoding="utf-8"))["certificates"][place])


def moved(value: object) -> Iterator[object]:
    """The value with one of its numbers changed, for each of the first numbers in it."""
    if isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value):
        yield value[::-1]  # another SHA-256
    elif isinstance(value, str) and value.lstrip("-")[:1].isdigit():
        yield str(Fraction(value) + Fraction(1, 1000))
        yield str(-Fraction(value) + (1 if Fraction(value) < 0 else -1))
    elif isinstance(value, list):
        for i, item in enumerate(value[:2]):
            yield from ([*value[:i], other, *value[i + 1 :]] for other in moved(item))
    elif isinstance(value, int) and not isinstance(value, bool):
        yield value + 1
    elif isinstance(value, dict):
        for key in value:
            yield from ({**value, key: other} for other in moved(value[key]))


# What may still be true and provable after the change: a wider interval, more bits, a scaler changed at another size, …
STILL_TRUE = {
    ("sign change", "precision"), ("table", "depth"), ("logarithmic", "depth"), ("table", "precision"),
    ("logarithmic", "precision"), ("box, power_sums", "precision"), ("box, power_means", "precision"),
    ("box, log_sum_exp", "precision"), ("box, random_networks", "precision"), ("box, paper_smooth", "precision"),
    ("box, trained_network", "precision"), ("collision", "differ"), ("power sums", "differ"),
    ("encoding collision of a table", "N"), ("sign change", "b"), ("encoding collision of a table", "scaler"),
    ("table", "scaler"),
}  # fmt: skip


def false_certificates() -> Iterator[tuple[str, dict]]:
    """Every field of every kind, altered so that what is stated is false, or is not stated at all."""
    for name in EXAMPLES:
        certificate = example(name)
        for field in certificate:
            yield f"{name} without {field}", {key: value for key, value in certificate.items() if key != field}
            altered = (
                [] if (name, field) in STILL_TRUE or field in ("radii", "kind") else list(moved(certificate[field]))
            )
            for i, other in enumerate([*altered, *TOO_MUCH.get(field, [])]):
                if name == "box, paper_smooth" and field == "aggregators" and i < len(altered):
                    continue  # √(σ² + ε) agrees where σ² does, whatever ε is
                yield f"{name}, {field} {i}", {**certificate, field: other}
            yield f"{name}, {field} malformed", {**certificate, field: MALFORMED[len(name + field) % len(MALFORMED)]}
    certificate = example("encoding collision of a table")
    values = certificate["scaler"]["values"]
    for size in {len(certificate["first"]), len(certificate["second"])}:
        changed = [*values[: size - 1], str(Fraction(values[size - 1]) + 1), *values[size:]]
        yield f"another scaler at {size}", {**certificate, "scaler": {"name": "table", "values": changed}}


FALSE = list(false_certificates())


def test_there_are_enough_of_them():
    assert len(FALSE) >= 200
    kinds = set(KINDS) - {"exact collision"}  # those are in test_adversarial_files
    assert all(any(certificate.get("kind") == kind for _, certificate in FALSE) for kind in kinds)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_itself_holds(name):
    check_certificate(example(name), find.CERTIFICATES)


@pytest.mark.parametrize(("name", "certificate"), FALSE, ids=[name for name, _ in FALSE])
def test_a_false_certificate_is_rejected_at_once(name, certificate):
    start = time.process_time()
    with pytest.raises(CertificateError):
        check_certificate(certificate, find.CERTIFICATES)
    assert time.process_time() - start < 1


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("value", MALFORMED, ids=str)
def test_a_malformed_field_is_rejected(name, value):
    certificate = example(name)
    for field in certificate:
        if not (field == "differ" and value == []):
            with pytest.raises(CertificateError):
                check_certificate({**certificate, field: value}, find.CERTIFICATES)
