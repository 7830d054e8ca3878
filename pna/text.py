"""Tables as plain text, for what commands print."""

from collections.abc import Iterable, Sequence

__all__ = ["table"]


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Lay out rows under a header: the first column flush left, the others flush right."""
    cells = [list(map(str, row)) for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in cells)
    return "\n".join("  ".join(line).rstrip() for line in lines)
