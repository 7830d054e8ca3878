"""`outputs.py EXECUTED`: copies the outputs of a folder's executed notebooks to notebooks/, where code hosts show them.

Pictures become small PNG files; controls, which need a kernel, and warnings are left out.
"""

import base64
import html
import io
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

from pna.files import write_whole

ROOT = Path(__file__).parents[1]
LARGEST = 100_000  # bytes of a picture
WIDEST = 900  # pixels
COLOURS = (128, 64, 32, 16)  # as many as fit


def main(executed: str, notebooks: str = str(ROOT / "notebooks")) -> int:
    """Write the outputs of every executed notebook into its source, cell by cell."""
    for path in sorted(Path(executed).glob("*.ipynb")):
        source = Path(notebooks) / path.name
        text = with_outputs(_read(source), _read(path))
        write_whole(source, lambda file, text=text: file.write(text.encode()))
    return 0


def with_outputs(source: dict, executed: dict) -> str:
    """A notebook with the outputs of its executed copy, as text."""
    ran = [cell for cell in executed["cells"] if "injected-parameters" not in cell["metadata"].get("tags", [])]
    if [cell["source"] for cell in source["cells"]] != [cell["source"] for cell in ran]:
        raise ValueError("the executed notebook is of another source: run the workflow, then keep its outputs")
    numbers = iter(range(1, len(ran) + 1))
    for cell, copy in zip(source["cells"], ran, strict=True):
        if cell["cell_type"] == "code":
            cell["outputs"] = [small for output in copy["outputs"] for small in _small(output)]
            cell["execution_count"] = next(numbers)
    return json.dumps(source, indent=1, ensure_ascii=False) + "\n"


def _read(path: Path) -> dict:
    """A notebook, with the source of each cell as a list of lines."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"]).splitlines(keepends=True)
    return notebook


def _small(output: dict) -> Iterator[dict]:
    """Yield an output without what code hosts do not show, and with pictures made small."""
    if output["output_type"] == "stream":
        if output["name"] == "stdout":
            yield {"name": "stdout", "output_type": "stream", "text": _lines(output["text"])}
        return
    data = {kind: "".join(text) for kind, text in output.get("data", {}).items() if isinstance(text, str | list)}
    pictures = re.findall(r'<img alt="([^"]*)"[^>]*base64,([^"]*)"', data.get("text/html", ""))
    if "image/png" in data:
        pictures = [("", data["image/png"])]
    for words, encoded in pictures:
        yield _shown({"image/png": small_picture(encoded)} | ({"text/plain": [html.unescape(words)]} if words else {}))
    kind = next((kind for kind in ("text/markdown", "text/plain") if kind in data and not pictures), None)
    if kind:
        yield _shown({kind: _lines(data[kind])})


def _shown(data: dict) -> dict:
    """A notebook's output that displays the data."""
    return {"data": data, "metadata": {}, "output_type": "display_data"}


def _lines(text: str | list[str]) -> list[str]:
    """The lines of a text, each with its line break."""
    return "".join(text).splitlines(keepends=True)


def small_picture(encoded: str) -> str:
    """A PNG of at most LARGEST bytes: narrower, and with fewer colours, as far as needed."""
    picture = Image.open(io.BytesIO(base64.b64decode(encoded))).convert("RGB")
    picture.thumbnail((WIDEST, 10 * WIDEST), Image.Resampling.LANCZOS)
    while True:
        for colours in COLOURS:
            buffer = io.BytesIO()
            picture.quantize(colours, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
            if buffer.tell() <= LARGEST:
                return base64.b64encode(buffer.getvalue()).decode()
        picture = picture.resize((picture.width * 4 // 5, picture.height * 4 // 5), Image.Resampling.LANCZOS)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
