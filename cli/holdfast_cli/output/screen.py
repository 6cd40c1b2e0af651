"""Output of commands: the options `-o` and `--color`, consoles, tables and colours for people, JSON for programs.

And the question that a change asks at a terminal.

Text is aligned, and coloured on a terminal. Without a terminal lines are never wrapped, as a script or a log reads
them.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

_WIDE = 10_000
"""Width without a terminal: a script or a log reads the lines, so none may be cut or wrapped."""
_GAP = "  "


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Add `-o` and `--color`."""
    add_output_format(parser)
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="default: on a terminal")


def add_output_format(parser: argparse.ArgumentParser) -> None:
    """Add `-o`, for output that is never coloured."""
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="default: text")


def print_json(tree: Mapping[str, Any]) -> None:
    """Print all output of a command as one JSON object."""
    sys.stdout.write(json.dumps(tree, indent=1, ensure_ascii=False) + "\n")


def confirmed(question: str) -> bool:
    """Ask the user at the terminal; False without a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    try:
        return input(f"{question} [y/N] ").strip().casefold() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        return False


class OutputConsole(Console):
    """A console that raises `BrokenPipeError` when the reader has gone; rich itself would exit with 1."""

    def on_broken_pipe(self) -> None:
        """Raise the error that rich has caught."""
        raise BrokenPipeError


def screen(color: str, *, to_stderr: bool = False) -> Console:
    """Return a console for `--color auto | always | never`. Texts are printed as they are, never as markup."""
    stream = sys.stderr if to_stderr else sys.stdout
    return OutputConsole(
        file=stream,
        width=None if stream.isatty() else _WIDE,
        force_terminal=True if color == "always" else None,
        no_color=color == "never",
        highlight=False,
        emoji=False,
        markup=False,
        soft_wrap=True,
    )


def noting(color: str) -> Callable[[str], None]:
    """Return a function that prints a note beside the output, each once."""
    noted = set[str]()

    def note(text: str) -> None:
        if text not in noted:
            noted.add(text)
            screen(color, to_stderr=True).print(f"note: {text}")

    return note


def live_screen(color: str) -> Console:
    """Return a console for drawing in place; long lines are wrapped."""
    return OutputConsole(file=sys.stdout, no_color=color == "never" or None, highlight=False, emoji=False, markup=False)


def console_for(file: TextIO, colors: str | None) -> Console:
    """Return a console that renders for another one: unwrapped lines, in that console's colours."""
    return OutputConsole(
        file=file,
        width=_WIDE,
        force_terminal=colors is not None,
        color_system=colors,  # type: ignore[arg-type]
        highlight=False,
        emoji=False,
        markup=False,
        soft_wrap=True,
    )


def styled(*parts: str | tuple[str, str]) -> Text:
    """Return a text of plain and (text, style) parts."""
    return Text.assemble(*parts)


def one_line(text: str) -> str:
    """Return foreign text as one safe line: nothing that moves the cursor, ends the line or reverses letters."""
    return text if text.isprintable() else "".join(letter if letter.isprintable() else " " for letter in text)


class TextTable:
    """Rows under kubectl-like headings, each column as wide as its widest cell."""

    def __init__(self, *headings: str, right: Sequence[str] = (), indent: str = "") -> None:
        self._headings, self._right, self._indent = headings, set(right), indent
        self._rows: list[list[Text]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, *cells: str | tuple[str, str]) -> None:
        """Add one row; a cell may be (text, style)."""
        self._rows.append([styled(cell) for cell in cells])

    def print(self, console: Console) -> None:
        """Print headings, if there are any, and rows."""
        heads = [styled((heading, "bold")) for heading in self._headings]
        rows = [heads, *self._rows] if any(self._headings) else self._rows
        widths = [max(row[i].cell_len for row in rows) for i in range(len(self._headings))] if rows else []
        for row in rows:
            console.print(self._line(row, widths))

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
