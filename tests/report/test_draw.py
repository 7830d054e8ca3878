import json

import pytest

from pna.networks import MODELS
from pna.report import FIGURES, draw
from pna.report.draw import files_of
from pna.report.style import MARKERS, MODEL_COLOURS
from tests.report.conftest import write_result

EXPERIMENTS = [name for name, entry in FIGURES.items() if entry.experiment]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_figures_of_all_cells(full, name, tmp_path, monkeypatch):
    monkeypatch.setenv("PNA_RESULTS", str(full))
    drawn = draw(name, "paper", "released", folder=tmp_path)
    assert list(drawn) == files_of(name, "released")
    for file, png in drawn.items():
        assert png.stat().st_size > 5_000
        assert png.with_suffix(".pdf").exists()
        facts = json.loads(png.with_suffix(".json").read_text())
        assert facts["full paper budget"] is True
        assert facts["missing"] == []
        assert facts["numbers"]
        assert all(len(cell["hash"]) == 64 and cell["seeds"] == list(range(10)) for cell in facts["cells"])
        assert file.endswith("_released")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_figures_of_nothing(results, name, tmp_path):
    for png in draw(name, "quick", "described", folder=tmp_path).values():
        facts = json.loads(png.with_suffix(".json").read_text())
        assert facts["cells"] == []
        assert facts["missing"]
        assert facts["full paper budget"] is False


def test_less_than_the_full_budget_says_so_in_the_picture(results, tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr("matplotlib.figure.Figure.supxlabel", lambda self, text, **style: said.append(text))
    write_result("multitask/released/pna/16", "paper-300-epochs")
    draw("moments", "paper-300-epochs", "released", folder=tmp_path)
    text = " ".join(said[0].split())
    assert text.startswith("NOT THE PAPER'S BUDGET (released; paper-300-epochs: 10 seeds, at most 300 epochs)")
    assert "not recorded: 1 moment (multitask, 16)" in text


def test_numbers_of_a_sidecar_are_those_of_the_results(results, tmp_path):
    write_result("multitask/released/pna/16", level=-2.0)
    draw("figure4", "paper", "released", folder=tmp_path)
    facts = json.loads((tmp_path / "figure4b_released.json").read_text())
    assert facts["numbers"]["mean log10 MSE"]["pna"]["average"] == -1.98
    assert facts["numbers"]["mean log10 MSE"]["baseline"]["sssp"] == -1.0
    facts = json.loads((tmp_path / "figure4a_released.json").read_text())
    assert facts["numbers"]["log10 of the mean MSE over tasks, five best runs"]["pna"] == [
        -2.0,
        -1.99,
        -1.98,
        -1.97,
        -1.96,
    ]


def test_drawing_twice_gives_the_same_bytes(results, tmp_path):
    write_result("multitask/released/pna/16")
    for folder in ("one", "two"):
        draw("figure4", "paper", "released", folder=tmp_path / folder)
    for one in sorted((tmp_path / "one").iterdir()):
        assert one.read_bytes() == (tmp_path / "two" / one.name).read_bytes(), one.name


def test_schematics_come_from_the_codes_tables(tmp_path):
    draw("figure2", folder=tmp_path)
    assert json.loads((tmp_path / "figure2.json").read_text())["numbers"]["input of U"] == "13F"
    draw("figure3", folder=tmp_path)
    assert json.loads((tmp_path / "figure3.json").read_text())["numbers"]["together"] == 8350


def test_figure_6_reads_what_is_recorded(results, tmp_path):
    import hashlib

    configuration = {"cell": "zinc/released/pna/no-edges"}
    text = json.dumps(configuration, sort_keys=True)
    facts = {
        "configuration": configuration,
        "hash": hashlib.sha256(text.encode()).hexdigest(),
        "data": {"train": "official"},
        "replicas": [{"test": {"best": 0.3, "last": value}} for value in (0.31, 0.33)],
    }
    path = results / "paper" / "zinc" / "released" / "pna-no-edges.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(facts))
    draw("figure6", folder=tmp_path)
    ours = json.loads((tmp_path / "figure6.json").read_text())["numbers"]["ours"]
    assert ours["PNA, ZINC_noedge_MAE"]["mean"] == 0.32
    assert ours["PNA, ZINC_noedge_MAE"]["full"] is True
    assert len(ours) == 1


def test_unknown_names_are_named():
    with pytest.raises(ValueError, match=r"figure must be one of figure1, .*; got 'figure7'"):
        draw("figure7")
    with pytest.raises(ValueError, match="profile must be a budget to train with"):
        draw("figure4", train=True)


def test_every_model_has_a_colour_and_a_marker_of_its_own():
    assert set(MODEL_COLOURS) == {*MODELS, "baseline"}
    assert len(set(MODEL_COLOURS.values())) == len(MODEL_COLOURS)
    assert len(set(MARKERS.values())) == len(MODELS)
