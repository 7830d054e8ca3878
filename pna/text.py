"""Tables as plain text, for what commands print."""

from collections.abc import Iterable, Sequence

__all__ = ["printable", "table"]


def printable(text: str) -> str:
    """Escape control characters in a text, since a terminal would obey them instead of showing them."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Lay out rows under a header: the first column flush left, the others flush right."""
    cells = [[printable(str(cell)) for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in cells)
    return "\n".join("  ".join(line).rstrip() for line in lines)
