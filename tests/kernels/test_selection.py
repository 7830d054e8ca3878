"""Kernels are found by the names of their modules, which only a GPU looks up."""

import ast
from importlib import import_module

import pytest

from pna.places import repository


def served():
    """Every module that is named in a call of serving, with the file that names it."""
    for path in sorted((repository() / "pna").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "kernels_for":
                yield pytest.param(node.args[0].value, id=f"{path.stem}-{node.lineno}")


@pytest.mark.parametrize("module", [*served()])
def test_every_module_of_kernels_that_is_asked_for_is_there_and_says_what_it_takes(module):
    pytest.importorskip("triton")
    assert callable(import_module(module).supports)
