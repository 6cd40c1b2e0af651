"""Tables of text under kubectl-like headings, which fit the terminal they are printed on.

Where a row is too wide, cells are wrapped at words; where even words do not fit side by side, each row becomes a block:
its first cell, and below it the others with their headings. Without a terminal a row is always one line, as a script
or a log reads it. Nothing is ever cut. Must not know what is in a table.
"""

import sys
from collections.abc import Sequence
from itertools import zip_longest

from rich.console import Console
from rich.text import Text

from holdfast_cli.output.screen import styled
from holdfast_cli.output.wrapping import UNLIMITED, flowing, longest_part, wrapped

_GAP = "  "
_READABLE = 24
"""A narrower column of sentences is hard to read."""


class TextTable:
    """Rows under headings, each column as wide as its widest cell if that fits."""

    def __init__(self, *headings: str, right: Sequence[str] = (), indent: str = "") -> None:
        self._headings, self._right, self._indent = headings, set(right), indent
        self._rows: list[list[Text]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, *cells: str | tuple[str, str] | Text) -> None:
        """Add one row; a cell may be (text, style), or a text. One with `no_wrap` stays whole, as people copy it."""
        self._rows.append([cell if isinstance(cell, Text) else styled(cell) for cell in cells])

    def print(self, console: Console) -> None:
        """Print headings, if there are any, and rows."""
        heads = [styled((heading, "bold")) for heading in self._headings]
        rows = [heads, *self._rows] if any(self._headings) else self._rows
        if not rows:
            return
        columns = [[row[i] for row in rows] for i in range(len(self._headings))]
        beside = len(self._indent) + len(_GAP) * (len(columns) - 1)
        widths = _fitting(columns, console.width - beside if console.width < UNLIMITED else sys.maxsize)
        if widths is None:
            lines = [line for row in self._rows for line in self._block(row, console.width)]
        else:
            lines = [line for row in rows for line in self._lines(row, widths)]
        for line in lines:
            console.print(line, soft_wrap=True)

    def _lines(self, row: Sequence[Text], widths: Sequence[int]) -> list[Text]:
        """Return a row as one line, or as several that cells are wrapped over."""
        cells = [
            [cell] if cell.cell_len <= width else wrapped(cell, width) for cell, width in zip(row, widths, strict=True)
        ]
        lines = [self._line(parts, widths) for parts in zip_longest(*cells, fillvalue=Text())]
        for line in lines[1:]:
            line.rstrip()
        return lines

    def _line(self, row: Sequence[Text], widths: Sequence[int]) -> Text:
        line = Text(self._indent)
        for i, (cell, width, heading) in enumerate(zip(row, widths, self._headings, strict=True)):
            space = " " * (width - cell.cell_len)
            last = i == len(row) - 1
            line.append_text(
                Text.assemble(space, cell) if heading in self._right else Text.assemble(cell, "" if last else space)
            )
            line.append("" if last else _GAP)
        return line

    def _block(self, row: Sequence[Text], width: int) -> list[Text]:
        first, *further = [
            Text.assemble((heading, "dim"), " " if heading else "", cell, no_wrap=cell.no_wrap)
            for heading, cell in zip(self._headings, row, strict=True)
            if cell.plain not in ("", "-")
        ] or [Text("-")]
        inner = self._indent + _GAP
        return [
            *(Text(self._indent) + line for line in flowing([first], width - len(self._indent), _GAP)),
            *(Text(inner) + line for line in flowing(further, width - len(inner), _GAP)),
        ]


def _fitting(columns: Sequence[Sequence[Text]], room: int) -> list[int] | None:
    """Return widths of columns that fit into this room together; None if words would have to be torn apart."""
    widths = [max(cell.cell_len for cell in column) for column in columns]
    if sum(widths) <= room:
        return widths
    least = [
        min(width, max(_READABLE, *map(longest_part, column))) for width, column in zip(widths, columns, strict=True)
    ]
    if sum(least) > room:
        return None
    widths = [min(width, room) for width in widths]
    while sum(widths) > room:
        widest = max((i for i in range(len(widths)) if widths[i] > least[i]), key=lambda i: widths[i])
        widths[widest] -= 1
    return widths
