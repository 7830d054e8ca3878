"""The page's parts as HTML: tables, badges, numbers, folding sections, pictures."""

import base64
import html
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from pna.verdicts.rules import WORDS, number
from pna.verdicts.statistics import Estimate

__all__ = ["Raw", "badge", "escape", "estimate", "fold", "link", "p_value", "picture", "soft", "table"]

_CLASS = dict(zip(WORDS, ("good", "part", "bad", "open", "mend", "absent", "wait", "none"), strict=True))
_NUMBER = re.compile(r"[+−-]?\d[\d,.]*( ?[±%×s].*)?|–")
escape = html.escape


class Raw(str):
    """Text that is HTML already."""

    __slots__ = ()


def badge(kind: str, word: str = "") -> Raw:
    """A verdict in its colour."""
    return Raw(f'<span class="verdict {_CLASS[kind]}">{escape(word or kind)}</span>')


def soft(text: str) -> str:
    """A note in small letters."""
    return f'<p class="soft">{escape(text)}</p>'


def link(address: str, text: str) -> Raw:
    """To another place of the page, or to a file of the repository."""
    return Raw(f'<a href="{escape(address)}">{escape(text)}</a>')


def estimate(found: Estimate, digits: int = 2) -> Raw:
    """A value, and its 95 % interval below."""
    if not found.known:
        return Raw(f"{number(found.value, digits)}<br><small>too few seeds</small>")
    low, high = (number(end, digits) for end in found.interval)
    return Raw(f"{number(found.value, digits)}<br><small>{low} … {high}</small>")


def p_value(p: float) -> str:
    """To three digits; a dash where seeds are too few."""
    return "–" if math.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"


def table(
    header: Sequence[str], rows: Iterable[Sequence[object]], caption: str, classes: dict[int, str] | None = None
) -> str:
    """A table whose first column names the row and stays in view; on a phone it scrolls, and shows that it does."""
    rows, classes = list(rows), classes or {}
    kinds = [classes.get(k) or ("number" if _numeric(row[k] for row in rows) else "") for k in range(len(header))]
    head = "".join(
        f'<th scope="col"{_kind(kind)}>{escape(text)}</th>' for kind, text in zip(kinds, header, strict=True)
    )
    body = "".join(f"<tr>{_row(row, kinds)}</tr>" for row in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row(row: Sequence[object], kinds: Sequence[str]) -> str:
    first, *others = (cell if isinstance(cell, Raw) else escape(str(cell)) for cell in row)
    cells = "".join(f"<td{_kind(kind)}>{cell}</td>" for kind, cell in zip(kinds[1:], others, strict=True))
    return f'<th scope="row"{_kind(kinds[0])}>{first}</th>{cells}'


def _kind(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _numeric(cells: Iterable[object]) -> bool:
    """Whether a column is one of numbers, to be set flush right."""
    texts = [re.sub(r"<br>.*", "", str(cell)) for cell in cells]
    return bool(texts) and all(_NUMBER.fullmatch(text) or text == "" for text in texts)


def fold(name: str, title: str, content: str, summary: str = "", opened: bool = False) -> str:
    """A section that folds, with an anchor."""
    more = f' <span class="soft">{escape(summary)}</span>' if summary else ""
    return (
        f'<section id="{name}" aria-labelledby="{name}-title"><details{" open" * opened}><summary>'
        f'<h2 id="{name}-title">{escape(title)}</h2>{more}</summary>\n{content}\n</details></section>'
    )


# ---- pictures ----

# Black turns into the page's ink, white into its paper; ink on coloured ground (style.DARK, LIGHT) stays.
_TURNED = {"#000000": "currentColor", "#ffffff": "var(--paper)", "#e5e5e5": "var(--line)", "#f4f4f4": "var(--band)"}
_TURNED |= {"#6b6b6b": "var(--soft)", "#a83a00": "var(--warn)"}


_FRAME = '<div class="picture" tabindex="0" role="group" aria-label="Picture">'


def picture(path: Path, shows: str) -> str:
    """A picture with its alternative text: the SVG itself, in the page's own colours; without one, the PNG."""
    vector = path.with_suffix(".svg")
    if vector.exists():
        return _inline(vector.read_text(encoding="utf-8"), path.stem, shows)
    if not path.with_suffix(".png").exists():
        return soft(f"{path.stem} is not drawn yet.")
    image = base64.b64encode(path.with_suffix(".png").read_bytes()).decode()
    return f'{_FRAME}<img alt="{escape(shows)}" src="data:image/png;base64,{image}"></div>'


def _inline(text: str, name: str, shows: str) -> str:
    """matplotlib's SVG inside a page: its size, letters and ground from the page, its ids under its own name."""
    body = text[text.index("<svg") :]
    box = re.search(r'viewBox="([^"]+)"', body).group(1)
    body = body[body.index(">") + 1 :].replace("xlink:href", "href")
    used = set(re.findall(r"#([\w.-]+)[\")]", body))
    body = re.sub(r'<g id="patch_1">.*?</g>', "", body, count=1, flags=re.S)
    for noise in (r"<metadata>.*?</metadata>", r"<style.*?</style>", r"<!--.*?-->", r' transform="rotate\(-0 [^"]*\)"'):
        body = re.sub(noise, "", body, flags=re.S)
    body = re.sub(r' id="([^"]+)"', lambda found: f' id="{name}-{found[1]}"' if found[1] in used else "", body)
    body = re.sub(r'(url\(|href=")#', rf"\1#{name}-", body)
    body = re.sub(r"#[0-9a-f]{6}\b", lambda found: _TURNED.get(found[0], found[0]), body)
    body = re.sub(r"font-family: [^;\"]*(; )?", "", body)
    body = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\d+\.\d)\d+", r"\1", tag[0]), body)  # places, not letters
    body = re.sub(r"\s*\n\s*", " ", body).replace("> <", "><")
    return f'{_FRAME}<svg role="img" aria-label="{escape(shows)}" viewBox="{box}">{body}</div>'
