"""Recorded results keep within the room that they have: their learning curves can be made thinner."""

import shutil
from dataclasses import replace

import pytest

from pna.files import read_json
from pna.training.store import FIRST_EPOCHS, RESULT_POINTS, load, save
from tests.workflow.conftest import ROOT
from workflow import thin

LARGEST = 120e6  # bytes of results/
RECORDED = ROOT / "results" / "planned" / "real" / "described" / "pna-16.json"  # of ten seeds, with 509 points each


def test_results_take_no_more_room_than_they_have():
    assert sum(path.stat().st_size for path in (ROOT / "results").rglob("*") if path.is_file()) < LARGEST


def test_a_result_keeps_everything_but_points_of_its_curves(tmp_path, capsys):
    path = tmp_path / "any" / RECORDED.name
    path.parent.mkdir()
    shutil.copy(RECORDED, path)
    thin.main([str(tmp_path)])
    before, after = load(RECORDED), load(path)
    assert after.unthinned == read_json(RECORDED)["sha256"] != read_json(path)["sha256"]
    assert replace(after, replicas=before.replicas, unthinned=None) == before
    for one, other in zip(before.replicas, after.replicas, strict=True):
        assert replace(other, curve=one.curve) == one
        assert len(other.curve) < len(one.curve)
    once = path.read_bytes()
    thin.main([str(tmp_path)])
    assert path.read_bytes() == once
    assert "1 of 1 results have" in capsys.readouterr().out


def test_a_result_that_new_seeds_have_replaced_keeps_a_third_of_the_points(tmp_path):
    paths = [tmp_path / profile / "real" / "described" / RECORDED.name for profile in ("paper", "planned")]
    for path in paths:
        path.parent.mkdir(parents=True)
        shutil.copy(RECORDED, path)
    thin.main([str(tmp_path / "paper"), str(tmp_path / "planned")])
    old, new = (load(path) for path in paths)
    assert replace(old, replicas=new.replicas) == new
    for one, other, whole in zip(old.replicas, new.replicas, load(RECORDED).replicas, strict=True):
        assert replace(one, curve=other.curve) == other
        assert len(one.curve) <= RESULT_POINTS // 3 // len(old.replicas) + FIRST_EPOCHS + 1 < len(other.curve)
        assert min(whole.curve, key=lambda point: abs(point[0] - whole.best_epoch)) in one.curve


def test_what_cannot_be_made_thinner_is_said(tmp_path):
    with pytest.raises(SystemExit, match=r"no such folder: .*missing"):
        thin.main([str(tmp_path), str(tmp_path / "missing")])
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(SystemExit, match="not a result of format"):
        thin.main([str(tmp_path)])


def test_a_thin_result_is_left_as_it_is(tmp_path):
    result = load(RECORDED)
    save(tmp_path / "a.json", replace(result, replicas=tuple(replace(r, curve=r.curve[:50]) for r in result.replicas)))
    once = (tmp_path / "a.json").read_bytes()
    thin.main([str(tmp_path)])
    assert (tmp_path / "a.json").read_bytes() == once
