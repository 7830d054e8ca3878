import pytest

from pna.figures import compare, compare_realworld
from tests.figures.conftest import write_real, write_result


def rows(figure):
    return [[label.get_text() for label in axis.get_yticklabels()] for axis in figure.axes]


def test_best_first_with_the_gap_for_each_specification(results):
    for model, level in (("pna", -3.0), ("gat", -2.2), ("mpnn-max", -2.6)):
        write_result(f"multitask/released/{model}/16", level=level)
    figure = compare("figure4", ["gat", "pna"], task="diameter", profile="paper")
    assert rows(figure) == [[], ["PNA", "GAT"]]
    assert "−2.18 (+0.80)" in [text.get_text() for text in figure.axes[1].texts]
    assert not (results.parent / "figures").exists()


@pytest.mark.parametrize(
    ("task", "title"), [("average", "Average over the six tasks"), ("laplacian", "Laplacian features")]
)
def test_the_axis_names_the_task_with_its_capital_letters(results, task, title):
    write_result("multitask/released/pna/16", level=-3.0)
    (axis,) = compare("figure4", ["pna"], task=task, spec="released", profile="paper").axes
    assert axis.get_xlabel() == f"{title}: log₁₀ MSE on multitask/test (lower is better)"


def test_what_sets_cells_of_a_model_apart_is_said(results):
    write_result("multitask/released/gin/16", level=-2.0)
    write_result("multitask/released/gin/20", level=-2.1)
    write_result("standard/released/gin/16", level=-1.9)
    assert rows(compare("parameters", ["gin"], spec="released", profile="paper")) == [["GIN, 20 features", "GIN"]]
    assert rows(compare("standard", ["gin"], spec="released", profile="paper")) == [["GIN", "GIN, standard"]]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"models": ["pna", "transformer"]}, r"models must be among gat, .*; got 'transformer'"),
        ({"task": "girth"}, r"task must be one of average, sssp, .*; got 'girth'"),
        ({"tested_on": "families/moon"}, r"tested_on must be one of multitask/test, .*; got 'families/moon'"),
        ({"spec": "paper"}, r"spec must be both, described or released; got 'paper'"),
    ],
)
def test_what_is_not_there_is_named(results, wrong, said):
    write_result("multitask/released/pna/16")
    with pytest.raises(ValueError, match=said):
        compare("figure4", **({"spec": "released", "profile": "paper"} | wrong))


def test_on_real_data_published_and_ours_stand_in_one_row_the_best_first(results):
    write_real("zinc/released/pna-no-scalers/edges", "paper", (0.25, 0.27))
    figure = compare_realworld("ZINC, edge features")
    (axis,) = figure.axes
    assert rows(figure) == [["PNA", "PNA (no scalers)", "MPNN (sum)", "MPNN (max)", "GatedGCN"]]
    theirs, ours = (bars.lines[0] for bars in axis.containers)
    assert theirs.get_xdata().tolist() == [0.188, 0.247, 0.288, 0.328, 0.363]
    assert ours.get_xdata().tolist() == [pytest.approx(0.26)]
    assert ours.get_ydata().tolist() == [pytest.approx(1.12)]


def test_where_more_is_better_the_most_is_first_and_a_model_without_a_published_number_has_ours(results):
    write_real("molhiv/released/pna-no-scalers/no-edges", "paper", (0.7, 0.7), best=0.76)
    assert rows(compare_realworld("MolHIV", ["GIN", "PNA (no scalers)", "PNA"])) == [["PNA", "PNA (no scalers)", "GIN"]]


@pytest.mark.parametrize(
    ("data", "models", "said"),
    [
        ("ZINC", None, r"data must be one of ZINC, no edge features; ZINC, edge features; .*; got 'ZINC'"),
        ("MolHIV", ["MoNet"], r"models must be among GCN, GIN, PNA; got 'MoNet'"),
    ],
)
def test_columns_and_models_that_are_not_there_are_named(results, data, models, said):
    with pytest.raises(ValueError, match=said):
        compare_realworld(data, models)
