"""The model cards: every network that is kept is in one, made from what is recorded, and those in docs/ are current."""

from pathlib import Path

import pytest

from pna.__main__ import main
from pna.pretrained.loading import names
from report import cards

KEPT = Path(__file__).parents[2] / "docs" / "models"


@pytest.fixture(scope="module")
def made():
    return cards.cards()


@pytest.mark.parametrize("name", cards.CARDS)
def test_the_card_that_is_kept_is_the_one_that_is_made(name, made):
    assert (KEPT / f"{name}.md").read_text(encoding="utf-8") == made[name], "python -m pna cards --write"


def test_there_is_no_card_of_anything_else():
    assert {path.stem for path in KEPT.glob("*.md")} - {"index"} == set(cards.CARDS)


@pytest.mark.parametrize("name", cards.CARDS)
def test_a_card_says_what_data_budget_error_and_limits(name, made):
    sections = [line.removeprefix("## ") for line in made[name].splitlines() if line.startswith("## ")]
    assert sections == ["What", "Data", "Budget", "Error", "Limits", "Use"]
    assert cards.CARDS[name].title in made[name].splitlines()[0]


def test_every_cell_is_in_its_card(made):
    for name, experiment in cards.CARDS.items():
        for spec in experiment.specs:
            assert [cell for cell in experiment.cells(spec) if f"`{cell}`" not in made[name]] == []


def test_every_network_that_can_be_loaded_is_in_a_card(made):
    assert [name for name in names() if not any(f"`{name}`" in text for text in made.values())] == []


def test_the_rows_of_a_table_have_as_many_columns_as_its_header(made):
    for text in made.values():
        for block in text.split("\n\n"):
            if block.startswith("|"):
                assert len({line.count("|") for line in block.splitlines()}) == 1


def test_with_nothing_recorded_all_is_missing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PNA_RESULTS", str(tmp_path))
    assert main(["cards"]) == 0
    out = capsys.readouterr().out
    assert out.count("# Model card") == len(cards.CARDS)
    assert out.count("No weights of these networks are kept") == len(cards.CARDS)


def test_writing_says_where(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PNA_RESULTS", str(tmp_path))
    monkeypatch.setattr(cards, "repository", lambda: tmp_path)
    assert main(["cards", "--write"]) == 0
    written = [line.removesuffix(" written") for line in capsys.readouterr().out.splitlines()]
    warned_by, *paths = map(Path, written)
    assert warned_by == tmp_path / "pna" / "pretrained" / "structure.json"
    assert [path.parent for path in paths] == [tmp_path / "docs" / "models"] * len(cards.CARDS)
