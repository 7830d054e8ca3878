"""Names of earlier versions, kept for one version: they warn, and are what the new names are."""

import sys
from importlib import import_module

import pytest


@pytest.fixture
def former(request):
    """The module of that name, imported for the first time."""
    sys.modules.pop(request.param, None)
    with pytest.warns(DeprecationWarning, match=f"{request.param} is now") as warned:
        module = import_module(request.param)
    assert len(warned) == 1
    return module


@pytest.mark.parametrize("former", ["pna.kernels.choice"], indirect=True)
def test_the_choice_of_kernels(former):
    from pna.kernels import selection

    assert all(getattr(former, name) is getattr(selection, name) for name in former.__all__ if name != "serving")
    assert former.serving is selection.kernels_for


@pytest.mark.parametrize("former", ["pna.report"], indirect=True)
def test_the_figures(former):
    figures = pytest.importorskip("pna.figures")
    assert all(getattr(former, name) is getattr(figures, name) for name in figures.__all__)
    with pytest.raises(AttributeError, match=r"has no attribute 'cards'; see pna\.figures"):
        former.cards  # noqa: B018


@pytest.mark.parametrize("name", ["DegreeStatistics", "degree_histogram", "merge_histograms"])
def test_the_degrees_of_a_training_set(name):
    from pna import degrees, scalers

    with pytest.warns(DeprecationWarning, match=f"pna.scalers.{name} is now pna.degrees.{name}"):
        assert getattr(scalers, name) is getattr(degrees, name)
    with pytest.raises(AttributeError, match=r"module 'pna.scalers' has no attribute 'count'"):
        scalers.count  # noqa: B018


def test_the_warning_names_the_line_that_imports_it(tmp_path):
    sys.modules.pop("pna.report", None)
    (script := tmp_path / "script.py").write_text("import pna.report\n")
    with pytest.warns(DeprecationWarning, match=r"pna\.figures") as warned:
        exec(compile(script.read_text(), str(script), "exec"), {})
    assert warned[0].filename == str(script)
