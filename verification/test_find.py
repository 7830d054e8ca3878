import json

import pytest

from verification import find
from verification.checker import check_certificate
from verification.families import FAMILIES, random_networks


@pytest.mark.parametrize("name", ["counterexamples", "prouhet_tarry_escott", "theorem_1_n2", "proposition_1"])
def test_the_stored_file_is_what_find_makes(name):
    statement, make = find.FILES[name]
    path = find.CERTIFICATES / f"{name}.json"
    assert json.loads(path.read_text(encoding="utf-8")) == {"statement": statement, "certificates": list(make())}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_new_box_passes_the_checker(name):
    make, _ = FAMILIES[name]
    check_certificate(find.box(make(5)))
    check_certificate(find.box(random_networks(4, seed=3)))


def test_new_encodings_pass_the_checker():
    for certificate in find.FILES["theorem_2"][1]():  # their balls depend on how flint rounds, so they are not compared
        check_certificate(certificate)


def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    find.write(path, {"old": 1})

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(find.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        find.write(path, {"new": 2})
    assert json.loads(path.read_text()) == {"old": 1}


def test_find_writes_every_file(tmp_path, monkeypatch):
    monkeypatch.setattr(find, "FILES", {"a": ("statement", lambda: iter([{"kind": "x"}]))})
    assert find.find(tmp_path / "new") == [tmp_path / "new" / "a.json"]
    assert json.loads((tmp_path / "new" / "a.json").read_text())["certificates"] == [{"kind": "x"}]
