import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pna.experiments import EXPERIMENTS
from pna.figures import FIGURES, draw
from pna.figures.catalogue import files_of
from pna.figures.figure6 import rows_of
from pna.figures.plots import differences, extrapolation, realworld
from pna.figures.realworld import COLUMNS, figure6_runs, lower_is_better
from pna.figures.runs import RECORDED, runs_of
from pna.figures.style import DARK, LIGHT, MARKERS, MODEL_COLOURS, STYLE, WARN, contrast, ink_on, tame
from pna.networks import MODELS
from pna.verdicts.planning import power
from tests.figures.conftest import write_real, write_result

DRAWN = [name for name, entry in FIGURES.items() if entry.panels]


@pytest.fixture
def no_pictures(monkeypatch):
    """For what is asked of numbers and words: figures are made, but not painted, which takes a second each."""
    monkeypatch.setattr("pna.figures.style._picture", lambda figure, name, suffix: b"")


@pytest.mark.parametrize("name", DRAWN)
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


@pytest.mark.parametrize("name", DRAWN)
def test_figures_of_nothing(results, name, tmp_path):
    for png in draw(name, "quick", "described", folder=tmp_path).values():
        facts = json.loads(png.with_suffix(".json").read_text())
        assert facts["cells"] == []
        assert facts["missing"]
        assert facts["full paper budget"] is False


def test_less_than_the_full_budget_says_so_in_the_picture(results, no_pictures, tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr("matplotlib.figure.Figure.supxlabel", lambda self, text, **style: said.append(text))
    write_result("multitask/released/pna/16", "paper-300-epochs")
    draw("moments", "paper-300-epochs", "released", folder=tmp_path)
    text = " ".join(said[0].split())
    assert text.startswith("NOT THE PAPER'S BUDGET (released; paper-300-epochs: 10 seeds, at most 300 epochs)")
    assert "not recorded: 1 moment (multitask, 16)" in text


def test_numbers_of_a_sidecar_are_those_of_the_results(results, no_pictures, tmp_path):
    write_result("multitask/released/pna/16", level=-2.0)
    draw("figure4", "paper", "released", folder=tmp_path)
    facts = json.loads((tmp_path / "figure4b_released.json").read_text())
    assert facts["numbers"]["mean log10 MSE"]["pna"]["average"] == -1.98
    assert facts["numbers"]["mean log10 MSE"]["baseline"]["sssp"] == -1.0
    facts = json.loads((tmp_path / "figure4a_released.json").read_text())
    assert facts["numbers"]["log10 of the mean MSE over tasks, five best of every ten runs"]["pna"] == [
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
    write_real("zinc/released/pna/no-edges", "paper", (0.31, 0.33), best=0.3)
    draw("figure6", folder=tmp_path)
    facts = json.loads((tmp_path / "figure6.json").read_text())
    ours = facts["numbers"]["ours"]
    assert ours["PNA, ZINC_noedge_MAE"]["mean"] == 0.32
    assert ours["PNA, ZINC_noedge_MAE"]["full"] is True
    assert len(ours) == len(facts["cells"]) == 1
    assert len(facts["missing"]) == len(EXPERIMENTS["figure6"].cells("released")) - 1
    assert "PNA, MolHIV_ROCAUC" in facts["missing"]


def test_the_differences_of_figure_6_are_those_of_its_table(results, no_pictures, tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr("matplotlib.figure.Figure.supxlabel", lambda self, text, **style: said.append(text))
    draw("figure6", folder=tmp_path)
    assert "NOT RUN" in said[-1]
    assert json.loads((tmp_path / "figure6_differences.json").read_text())["numbers"] == {}
    write_real("zinc/released/pna/no-edges", "paper", (0.31, 0.33, 0.32, 0.32))
    write_real("zinc/released/gin/no-edges", "paper", (0.51, 0.52, 0.51, 0.52), train="unofficial")
    write_real("molhiv/released/pna-no-scalers/no-edges", "paper", (0.78, 0.79))  # not published
    draw("figure6", folder=tmp_path)
    numbers = json.loads((tmp_path / "figure6_differences.json").read_text())["numbers"]
    rows = {f"{row.title}, {row.where}": row for row in rows_of(figure6_runs(RECORDED)) if row.difference}
    assert set(numbers) == set(rows) == {"PNA, ZINC, no edge features", "GIN, ZINC, no edge features"}
    for name, row in rows.items():
        assert numbers[name]["difference"] == pytest.approx(row.difference.value, rel=1e-4, abs=1e-9)
        assert numbers[name]["interval"] == pytest.approx(row.difference.interval, rel=1e-4)
        assert numbers[name]["p"] == pytest.approx(row.p, rel=1e-4)
    assert "Of 2 differences 1 is significant" in said[-1]  # GIN's, 0.107 from the published 0.408
    assert "Cells without one: 55 not run, 1 not published." in said[-1]
    two, four = (100 * power(size, 1.0, 4, 2) for size in (2.0, 4.0))
    assert f"With 4 seeds against 4 the power is {two:.0f} % for a true difference of two" in said[-1]
    assert f"standard deviations, {four:.0f} % for four." in said[-1]
    assert "ZINC: the training set is not the official one" in said[-1]


def test_figure_6_says_what_it_was_made_from(results, no_pictures, tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr("matplotlib.figure.Figure.supxlabel", lambda self, text, **style: said.append(text))
    train = "unofficial: 3 of 20 rows are the official molecules"
    write_real("zinc/released/pna/edges", "paper-200-epochs", (0.2, 0.21), epochs=200, train=train)
    write_real("molhiv/released/pna/no-edges", "paper-50-epochs", (0.7, 0.8), epochs=50, best=0.78)
    draw("figure6", folder=tmp_path)
    text = " ".join(said[0].split())
    assert "NOT ALL OF THE PAPER'S BUDGET, DATA AND CELLS" in text
    assert "ZINC: 2 seeds, at most 200 of 1,000 epochs" in text
    assert f"ZINC: the training set is {train}" in text
    assert "MolHIV: 2 seeds, at most 50 of 200 epochs" in text
    ours = json.loads((tmp_path / "figure6.json").read_text())["numbers"]["ours"]
    assert ours["PNA, MolHIV_ROCAUC"]["mean"] == 78.0


def test_figure_6_complete_has_three_lines_and_our_best_of_each_column_on_grey():
    figure, _ = realworld.figure6("paper")
    assert figure.get_supxlabel().count("\n") <= 2
    marked = [text for text in figure.axes[0].texts if text.get_bbox_patch()]
    assert len(marked) == 2 * len(COLUMNS)  # the best published and our best
    assert sum(text.get_color() == WARN for text in marked) == len(COLUMNS)


def test_differences_have_one_direction():
    """A lower error and a higher accuracy are both on the right."""
    figure, _ = differences.differences("paper")
    rows = [row for row in rows_of(figure6_runs("paper")) if row.difference and row.difference.known]
    for axis, column in zip(figure.axes, COLUMNS, strict=True):
        left, right = axis.get_xlim()
        assert left == -right < 0
        gains = [row.score.value - row.published.value for row in rows if row.column == column]
        signs = [-gain if lower_is_better(column) else gain for gain in gains]
        dots = [line.get_xdata()[0] for line in axis.lines if line.get_marker() == "o"]
        assert sorted(dots) == pytest.approx(sorted(signs))


@pytest.mark.parametrize("spec", ["described", "released"])
def test_figure_5_marks_each_interval_that_goes_on_and_each_model_that_leaves(spec):
    figure, numbers = extrapolation.figure5(runs_of("figure5", spec, "paper"))
    titles = {MODELS[name].title: name for name in numbers["log10(MSE / baseline)"]}
    top = figure.axes[0].get_ylim()[1]
    assert {axis.get_title() for axis in figure.axes} == set(titles)
    for axis in figure.axes:
        name = titles[axis.get_title()]
        values = numbers["log10(MSE / baseline)"][name]
        gone = sum(not value < extrapolation._EDGE for value in values)
        inside = [value < extrapolation._EDGE for value in values]
        ends = [end for (_, end), shown in zip(numbers["95 % interval"][name], inside, strict=True) if shown]
        counts = {"^": sum(end > top for end in ends), extrapolation._ARROW["marker"]: gone}
        for marker, count in counts.items():
            marks = [line for line in axis.lines if (line.get_marker(), line.get_linestyle()) == (marker, "None")]
            assert sum(len(line.get_xdata()) for line in marks) == count, (name, marker)
        others = [line.get_ydata()[0] for line in axis.lines if line.get_color() == "#bdbdbd"]  # in the order of models
        rows = {model: row for model, row in numbers["log10(MSE / baseline)"].items() if model != name}
        assert others == pytest.approx([row[0] for row in rows.values()])


def test_a_figure_of_the_appendix_shows_one_test_set_and_names_it(results, no_pictures, tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr("matplotlib.axes.Axes.set_xlabel", lambda self, text, **style: said.append(text))
    levels = {"multitask/test": [-3.0] * 6, "multitask-15-24/test": [-2.0] * 6}
    for model in ("pna", "moments-1"):
        write_result(f"multitask/released/{model}/16", levels=levels)
    draw("moments", "paper", "released", folder=tmp_path)
    numbers = json.loads((tmp_path / "moments_released.json").read_text())["numbers"]
    assert said == ["test graphs of 15-24 nodes"]
    assert numbers["pna"]["mean"] == pytest.approx(-1.98)


def test_unknown_names_are_named():
    with pytest.raises(ValueError, match=r"figure must be one of figure4, .*; got 'figure7'"):
        draw("figure7")
    with pytest.raises(ValueError, match="profile must be a budget to train with"):
        draw("figure4", train=True)


def test_every_model_has_a_colour_and_a_marker_of_its_own():
    assert set(MODEL_COLOURS) == {*MODELS, "baseline"}
    assert len(set(MODEL_COLOURS.values())) == len(MODEL_COLOURS)
    assert all(re.fullmatch("#[0-9A-Fa-f]{6}", colour) for colour in MODEL_COLOURS.values())  # a browser takes them too
    assert len(set(MARKERS.values())) == len(MODELS)


def rgb(colour):
    return tuple(int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))


@given(st.tuples(*[st.floats(0, 1)] * 3))
def test_ink_stands_out_on_every_ground(ground):
    assert contrast(ground, rgb(ink_on(ground))) >= 4.5
    assert ink_on(ground) in (DARK, LIGHT)


def without_green(colour):
    """As eyes without green receptors see it (Machado, Oliveira and Fernandes, 2009)."""
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb(colour))
    rows = ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969))
    return [min(max(a * red + b * green + c * blue, 0), 1) ** (1 / 2.2) for a, b, c in rows]


def test_gat_and_gcn_are_apart_for_eyes_without_green():
    gat, gcn, before = (without_green(c) for c in (MODEL_COLOURS["gat"], MODEL_COLOURS["gcn"], "#CC79A7"))
    far, near = (sum((a - b) ** 2 for a, b in zip(gat, other, strict=True)) ** 0.5 for other in (gcn, before))
    assert far > 0.3
    assert far > 1.5 * near


def test_pictures_stay_as_they_are_when_the_numbers_do(results, tmp_path):
    write_result("multitask/released/pna/16")
    draw("moments", "paper", "released", folder=tmp_path)
    picture = tmp_path / "moments_released.png"
    picture.write_bytes(b"drawn on another machine")
    draw("moments", "paper", "released", folder=tmp_path)
    assert picture.read_bytes() == b"drawn on another machine"
    write_result("multitask/released/pna/16", level=-2.5)
    draw("moments", "paper", "released", folder=tmp_path)
    assert picture.read_bytes() != b"drawn on another machine"


def test_numbers_of_a_sidecar_do_not_depend_on_the_last_bits():
    assert tame([1e-17, -1e-17, 1 / 3, float("inf")]) == [0.0, 0.0, 0.33333, None]


def test_every_figure_has_the_width_of_the_page_and_eight_points(full, tmp_path, monkeypatch):
    monkeypatch.setenv("PNA_RESULTS", str(full))
    draw("figure5", "paper", "released", folder=tmp_path)
    text = (tmp_path / "figure5_released.svg").read_text()
    assert 'width="396pt"' in text  # 5.5 inches
    assert min(float(size) for size in re.findall(r"font-size: ([\d.]+)px", text)) >= 7
    assert STYLE["font.size"] == 8


def test_too_few_seeds_have_no_box(results, no_pictures, tmp_path, monkeypatch):
    boxes = []
    monkeypatch.setattr("pna.figures.plots.multitask._box", lambda *given: boxes.append(given))
    write_result("multitask/released/pna/16", "quick")
    draw("figure4", "quick", "released", folder=tmp_path)
    assert not boxes
    write_result("multitask/released/pna/16", "paper")
    draw("figure4", "paper", "released", folder=tmp_path)
    assert len(boxes) == 1


def test_figures_whose_cells_are_trained_by_the_command_say_so(results, tmp_path):
    with pytest.raises(ValueError, match="python -m pna train --missing --experiment figure6"):
        draw("figure6", "smoke", train=True, folder=tmp_path)
