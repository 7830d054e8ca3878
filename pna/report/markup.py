"""The page's tables and badges, as HTML."""

import html
from collections.abc import Iterable, Sequence

from pna.report.claims import VERDICTS
from pna.report.scores import Interval

__all__ = ["Raw", "badge", "soft", "table", "two_lines"]

_CLASS = dict(zip(VERDICTS, ("good", "part", "bad", "open", "wait", "none"), strict=True))


class Raw(str):
    """Text that is HTML already."""

    __slots__ = ()


def badge(verdict: str) -> Raw:
    """A verdict in its colour."""
    return Raw(f'<span class="verdict {_CLASS[verdict]}">{verdict}</span>')


def soft(text: str) -> str:
    """A note in small letters."""
    return f'<p class="soft">{html.escape(text)}</p>'


def two_lines(found: Interval, digits: int = 2) -> Raw:
    """A value, and its interval below."""
    low, high = (f"{end:+.{digits}f}" for end in (found.low, found.high))
    return Raw(f"{found.value:+.{digits}f}<br><small>{low} … {high}</small>")


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
    classes: dict[int, str] | None = None,
    stacked: bool = False,
) -> str:
    """A table that scrolls by itself, or if stacked has its cells below each other on a narrow screen."""
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    body = "".join(f"<tr>{''.join(_cell(k, cell, classes or {}) for k, cell in enumerate(row))}</tr>" for row in rows)
    kind = "scroll stacked" if stacked else "scroll"
    return f'<div class="{kind}" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(column: int, cell: object, classes: dict[int, str]) -> str:
    text = cell if isinstance(cell, Raw) else html.escape(str(cell))
    number = isinstance(cell, int | float) or (isinstance(cell, str) and cell[:1] in "+-−0123456789" and len(cell) < 50)
    kind = classes.get(column) or ("number" if number else "")
    return f'<td class="{kind}">{text}</td>' if kind else f"<td>{text}</td>"
