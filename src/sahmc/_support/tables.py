"""Small tables, for a terminal and for a page."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A table of cells, each row with a name."""

    corner: str
    """The heading of the column of names."""
    columns: list[str]
    """The headings of the other columns."""
    names: list[str]
    """The names of the rows."""
    rows: list[list[str]]
    """The cells, row by row."""

    def __str__(self) -> str:
        lines = [[self.corner, *self.columns], *([name, *row] for name, row in zip(self.names, self.rows, strict=True))]
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        return "\n".join(
            "  ".join(
                [line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))]
            ).rstrip()
            for line in lines
        )

    def to_html(self) -> str:
        """Return the table as an HTML element."""
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in [self.corner, *self.columns])
        body = "".join(
            f"<tr><th>{html.escape(name)}</th>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for name, row in zip(self.names, self.rows, strict=True)
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def number(value: float, digits: int = 3) -> str:
    """Format a number with ``digits`` significant digits, and no exponent where none is needed; nan is a dash."""
    if not math.isfinite(value):
        return "-" if math.isnan(value) else str(value)
    if value == 0 or 1e-4 <= abs(value) < 10**digits:
        size = 0 if value == 0 else math.floor(math.log10(abs(value)))
        return f"{value:.{max(0, digits - 1 - size)}f}"
    return f"{value:.0f}" if 10**digits <= abs(value) < 1e6 else f"{value:.{digits - 1}e}"
