"""Every Python example in docs/ runs as printed."""

import re
from pathlib import Path

import pytest
import torch

from pna.aggregators import AGGREGATORS
from pna.derivatives import DERIVATIVES

ROOT = Path(__file__).parents[1]
PAGES = [path for path in sorted((ROOT / "docs").glob("*.md")) if "```python" in path.read_text(encoding="utf-8")]


@pytest.fixture
def restored():
    """Restore the tables after an example that adds to them."""
    before = [(table, dict(table)) for table in (AGGREGATORS, DERIVATIVES)]
    yield
    for table, content in before:
        table.clear()
        table.update(content)


def run(page):
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
        exec(compile(block, page.name, "exec"), names)
    return names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_run(page, restored, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where an example writes its files
    torch.manual_seed(0)
    assert run(page)


def test_the_aggregator_that_is_added_has_its_laws_and_its_derivative(restored):
    names = run(ROOT / "docs" / "aggregator.md")
    mad, derivative = names["mad"], names["mad_derivative"]
    m, ptr = torch.randn(12, 3, dtype=torch.double, requires_grad=True), torch.tensor([0, 4, 4, 5, 12])
    torch.testing.assert_close(mad(m + 7, ptr), mad(m, ptr))  # shift: none
    torch.testing.assert_close(mad(3 * m, ptr), 3 * mad(m, ptr))  # power: 1
    g = torch.randn(4, 3, dtype=torch.double)
    (expected,) = torch.autograd.grad(mad(m, ptr), m, g)
    torch.testing.assert_close(derivative(g, m, ptr), expected)
