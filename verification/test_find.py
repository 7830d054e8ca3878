import json

import pytest

from verification import files, find
from verification.checker import STATEMENTS, check_certificate
from verification.families import FAMILIES, random_networks


@pytest.mark.parametrize("name", ["counterexamples", "prouhet_tarry_escott", "theorem_1_n2", "proposition_1"])
def test_the_stored_file_is_what_find_makes(name):
    path = find.CERTIFICATES / f"{name}.json"
    content = {"statement": STATEMENTS[name].text, "certificates": list(find.MAKERS[name]())}
    assert json.loads(path.read_text(encoding="utf-8")) == content


@pytest.mark.parametrize("name", FAMILIES)
def test_a_new_box_passes_the_checker(name):
    make, _ = FAMILIES[name]
    check_certificate(find.box(make(5)))
    check_certificate(find.box(random_networks(4, seed=3)))


def test_new_encodings_pass_the_checker():
    for certificate in find.MAKERS["theorem_2"]():  # their balls depend on how flint rounds, so they are not compared
        check_certificate(certificate)


def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    files.write(path, {"old": 1})

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        files.write(path, {"new": 2})
    assert json.loads(path.read_text()) == {"old": 1}


def test_find_writes_every_file(tmp_path, monkeypatch):
    monkeypatch.setattr(find, "MAKERS", {"theorem_2": lambda: iter([{"kind": "x"}])})
    assert find.find(tmp_path / "new") == [tmp_path / "new" / "theorem_2.json"]
    assert json.loads((tmp_path / "new" / "theorem_2.json").read_text())["certificates"] == [{"kind": "x"}]
