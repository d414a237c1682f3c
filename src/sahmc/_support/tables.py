"""Small tables, for a terminal or a web page."""

from __future__ import annotations

import html
import math
import re
from collections import Counter
from dataclasses import dataclass, replace

from sahmc._support.words import WIDTH

NAME_WIDTH = 24
"""The minimum width in characters for row names; columns are dropped to keep it."""
LEFT = " style='text-align: left'"
"""The attribute of a text cell, which notebooks would align to the right."""


@dataclass(frozen=True)
class Table:
    """A table of cells with a name for each row."""

    corner: str
    """The heading of the column of names."""
    columns: list[str]
    """The headings of the other columns."""
    names: list[str]
    """The names of the rows."""
    rows: list[list[str]]
    """The cells, row by row."""
    spare: tuple[str, ...] = ()
    """The columns that are dropped first, in this order, if a terminal is too narrow."""

    def __str__(self) -> str:
        fitted = self.fitted()
        first, *others = fitted._widths()
        return "\n".join(
            "  ".join([name.ljust(first), *(c.rjust(w) for c, w in zip(row, others, strict=True))]).rstrip()
            for name, *row in fitted._lines()
        )

    @property
    def width(self) -> int:
        """The number of characters in its longest line, without fitting."""
        return sum(self._widths()) + 2 * len(self.columns)

    def _lines(self) -> list[list[str]]:
        """Return the headings and the rows, each with its name."""
        return [[self.corner, *self.columns], *([name, *row] for name, row in zip(self.names, self.rows, strict=True))]

    def _widths(self) -> list[int]:
        return [max(map(len, column)) for column in zip(*self._lines(), strict=True)]

    def fitted(self, width: int = WIDTH) -> Table:
        """Return the table no wider than ``width``: if names lack room, spare columns go first, then names are cut."""
        table = self
        for column in self.spare:
            if table.width <= width or table._room(width) >= NAME_WIDTH:
                break
            table = table._without(column)
        return replace(table, names=shortened(table.names, max(table._room(width), 8)))

    def _room(self, width: int) -> int:
        """Return the number of characters that the cells leave for names."""
        return width - (self.width - self._widths()[0])

    def _without(self, column: str) -> Table:
        at = self.columns.index(column)
        rows = [row[:at] + row[at + 1 :] for row in self.rows]
        return replace(self, columns=self.columns[:at] + self.columns[at + 1 :], rows=rows)

    def to_html(self) -> str:
        """Return the table as HTML, with all columns and full names; a table without headings is aligned as text."""
        words = not any([self.corner, *self.columns])
        cell = f"<td{LEFT if words else ''}>"
        head = "".join(f"<th>{html.escape(text)}</th>" for text in [self.corner, *self.columns])
        body = "".join(
            f"<tr><th{LEFT}>{html.escape(name)}</th>{''.join(f'{cell}{html.escape(text)}</td>' for text in row)}</tr>"
            for name, row in zip(self.names, self.rows, strict=True)
        )
        return f"<table>{'' if words else f'<thead><tr>{head}</tr></thead>'}<tbody>{body}</tbody></table>"


def number(value: float, digits: int = 3) -> str:
    """Format a number with ``digits`` significant digits, with an exponent only if needed; nan is a dash."""
    if not math.isfinite(value):
        return "-" if math.isnan(value) else str(value)
    if value == 0 or 1e-4 <= abs(value) < 10**digits:
        size = 0 if value == 0 else math.floor(math.log10(abs(value)))
        return f"{value:z.{max(0, digits - 1 - size)}f}"
    return f"{value:.0f}" if 10**digits <= abs(value) < 1e6 else f"{value:.{digits - 1}e}"


def digits_for(value: float, spread: float) -> int:
    """Return how many significant digits of a number show two of its ``spread``: at least three, at most nine."""
    if not (value and spread > 0 and math.isfinite(value) and math.isfinite(spread)):
        return 3
    return min(9, max(3, 2 + math.floor(math.log10(abs(value))) - math.floor(math.log10(spread))))


def to_places_of(error: float, *values: float) -> list[str]:
    """Format numbers with the decimals that show two digits of their ``error``, unless these are many."""
    if not (math.isfinite(error) and 1e-5 <= error < 1e6 and all(abs(value) < 1e9 for value in values)):
        return [number(value) for value in values]
    places = max(0, 1 - math.floor(math.log10(error)))
    return [f"{value:z.{places}f}" for value in values]


def shortened(names: list[str], width: int) -> list[str]:
    """Return names of at most ``width`` characters; different names stay different."""
    cut = [_cut(name, width) for name in names]
    often = Counter(cut)
    if len(often) == len(set(names)):
        return cut
    tails = [f"…{i}" if often[name] > 1 else "" for i, name in enumerate(cut)]
    return [
        name[: width - len(tail)].rstrip("…") + tail if tail else name for name, tail in zip(cut, tails, strict=True)
    ]


def _cut(name: str, width: int) -> str:
    """Return a name such as ``level[east, first]`` in at most ``width`` characters, by cutting its longest words."""
    parts = re.split(r"(\[|, |\])", name)
    sizes = [len(part) for part in parts]
    while sum(sizes) > width:
        longest = max(range(0, len(parts), 2), key=sizes.__getitem__)  # every second part is a bracket or a comma
        if sizes[longest] < 3:
            return name[: width - 1] + "…"
        sizes[longest] -= 1
    return "".join(
        part if len(part) == size else part[: size - 1] + "…" for part, size in zip(parts, sizes, strict=True)
    )
