"""Executed notebooks as pages: text, formulas, code, what was said and what was drawn."""

import base64
import json
import re
import subprocess
import sys

import pytest

from pna.figures.catalogue import FIGURES, NOTEBOOKS, Drawing, files_of
from tests.workflow.conftest import ROOT
from workflow.page import joined, main, marked, render, says_the_same

PIXEL = base64.b64encode(b"\x89PNG no picture").decode()


def markdown(text):
    return {"cell_type": "markdown", "metadata": {}, "source": text}


def code(text, *outputs, tags=()):
    return {"cell_type": "code", "metadata": {"tags": list(tags)}, "source": text, "outputs": list(outputs)}


def shown(**data):
    return {"output_type": "display_data", "data": data}


def test_however_a_kernel_cuts_what_is_printed_it_is_kept_in_one_piece():
    def said(text, name="stdout"):
        return {"output_type": "stream", "name": name, "text": text}

    pieces = [said("a"), said(["b\n", "c"]), said("beware", "stderr"), said("\n"), shown(x="1"), said("d"), said("e")]
    assert joined(pieces) == [said("ab\nc\n"), said("beware", "stderr"), shown(x="1"), said("de")]
    assert joined(joined(pieces)) == joined(pieces)
    assert pieces[0] == said("a")


def test_a_page_has_the_notebooks_parts_in_their_order():
    said = {"output_type": "stream", "name": "stdout", "text": "x < 1\n"}
    warned = {"output_type": "stream", "name": "stderr", "text": "a warning\n"}
    cells = [
        markdown("# A `title` & more\n\nwords"),
        code("print(1)  # one", said, warned),
        code("a = 1", shown(**{"image/png": PIXEL}), shown(**{"text/markdown": "| a |\n| --- |\n| 1 |"})),
        code("injected = True", tags=["injected-parameters"]),
    ]
    page = render(cells)
    parts = [
        "<title>A `title` &amp; more</title>",
        "<code>title</code>",
        "# one",
        "x &lt; 1",
        "data:image/png",
        "<td>1</td>",
    ]
    places = [page.index(part) for part in parts]
    assert places == sorted(places)
    assert "a warning" not in page
    assert "injected" not in page


def test_formulas_are_mathml_and_leave_no_dollar():
    text = marked("of $\\mu_i$ and\n\n$$\\sigma = \\sqrt{a_1\n+ b_2}$$\n\nthe `code`")
    assert text.count("<math") == 2
    assert 'display="block"' in text
    assert "$" not in text
    assert "<em>" not in text


def test_pictures_of_figures_are_linked_and_say_what_they_show(tmp_path):
    (tmp_path / "drawn.png").write_bytes(base64.b64decode(PIXEL))
    drawn = Drawing(FIGURES["figure4"], {"figure4a_released": tmp_path / "drawn.png"})
    page = render([markdown("# t"), code("draw()", shown(**{"text/html": drawn._repr_html_()}))])
    assert 'src="../figure4a_released.png"' in page
    assert "data:image" not in page
    assert re.search(r'<img alt="[^"]{20,}\(released\)"', page)


def test_written_as_a_file_without_what_drew_it(tmp_path):
    (tmp_path / "executed.ipynb").write_text(json.dumps({"cells": [markdown("# t\n\nwords")]}))
    script = "import sys; from workflow.page import main; main(*sys.argv[1:]); print(*sys.modules)"
    words = [sys.executable, "-c", script, str(tmp_path / "executed.ipynb"), str(tmp_path / "pages" / "t.html")]
    run = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert {"torch", "scipy", "matplotlib"}.isdisjoint(run.stdout.split())  # which take longer than a page
    assert "words" in (tmp_path / "pages" / "t.html").read_text()


def test_pages_share_the_style_sheet_beside_them(tmp_path):
    (tmp_path / "executed.ipynb").write_text(json.dumps({"cells": [markdown("# t")]}))
    for name in "ab":
        main(str(tmp_path / "executed.ipynb"), str(tmp_path / f"{name}.html"))
        assert '<link rel="stylesheet" href="style.css">' in (tmp_path / f"{name}.html").read_text()
        assert "<style>" not in (tmp_path / f"{name}.html").read_text()
    assert "color-scheme: light dark" in (tmp_path / "style.css").read_text()


def test_the_repository_has_the_page_of_every_notebook_with_its_words():
    """A page that was not made again after its notebook changed is found here."""
    for name in (name.replace("-", "_") for name in NOTEBOOKS):
        page = (ROOT / "figures" / "notebooks" / f"{name}.html").read_text(encoding="utf-8")
        cells = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
        for cell in cells:
            if cell["cell_type"] == "markdown":
                assert marked("".join(cell["source"])) in page, f"{name}: {cell['source'][0]}"
        assert all(f'src="../{file}.png"' in page for file in _files(name)), name
        assert "<p>| " not in page, f"{name}: a table that is none"


def _files(name):
    figure = name.replace("_", "-")
    return files_of(figure) if figure in FIGURES else []


def test_a_page_made_from_the_same_stays_as_it_is(tmp_path, monkeypatch):
    """Whatever another machine draws; another notebook, or another result, makes it anew."""
    monkeypatch.setenv("PNA_RESULTS", str(tmp_path / "results"))
    (tmp_path / "results").mkdir()
    executed, page = tmp_path / "executed.ipynb", tmp_path / "page.html"

    def made(source, drawn):
        picture = shown(**{"image/png": base64.b64encode(drawn).decode()})
        executed.write_text(json.dumps({"cells": [markdown("# t"), code(source, picture)]}))
        assert main(str(executed), str(page)) == 0
        return page.read_text()

    first = made("draw()", b"drawn here")
    assert made("draw()", b"drawn there") == first
    assert made("draw(1)", b"drawn there") != first
    again = made("draw()", b"drawn here")
    monkeypatch.setattr("workflow.page._source_hash", lambda cells: "0")  # other code, which draws and says the same
    assert made("draw()", b"drawn there") == again
    (tmp_path / "results" / "a.json").write_text("{}")
    assert made("draw()", b"drawn there") != again


OLD = (
    '<p>1.5 of 3</p><pre class="said">loss 0.12345 after 3.2 s, 1,200 nodes</pre>'
    '<img src="data:image/png;base64,AB+/=">'
)


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (("0.12345", "0.12349"), True),  # the last bits of another machine
        (("3.2 s", "17 s"), True),
        (("AB+/=", "CDEF"), True),
        (("after", "\n after"), True),
        (("0.12345", "0.2"), False),
        (("1,200", "1,300"), False),
        (("nodes", "edges"), False),
        (("1.5 of 3", "1.5001 of 3"), False),  # words, which no machine computes
        (("loss 0.12345", "loss 0.12345 0.12345"), False),
    ],
)
def test_a_page_that_says_the_same_stays(change, same):
    assert says_the_same(f"{OLD}<!-- made from abc -->\n", OLD.replace(*change)) == same
