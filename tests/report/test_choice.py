import pytest

from pna.report import compare
from tests.report.conftest import write_result


def rows(figure):
    return [[label.get_text() for label in axis.get_yticklabels()] for axis in figure.axes]


def test_best_first_with_the_gap_for_each_specification(results):
    for model, level in (("pna", -3.0), ("gat", -2.2), ("mpnn-max", -2.6)):
        write_result(f"multitask/released/{model}/16", level=level)
    figure = compare("figure4", ["gat", "pna"], task="diameter", profile="paper")
    assert rows(figure) == [[], ["PNA", "GAT"]]
    assert "−2.18 (+0.80)" in [text.get_text() for text in figure.axes[1].texts]
    assert not (results.parent / "figures").exists()


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
