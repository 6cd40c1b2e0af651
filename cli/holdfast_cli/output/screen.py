"""Output of commands: the options `-o` and `--color`, consoles and colours for people, JSON for programs.

And the question that a change asks at a terminal.

On a terminal text is coloured, and wrapped at words. Without one lines are never wrapped, as a script or a log reads
them. What people copy, a command or a repair, is printed with `soft_wrap=True` and stays on its line.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from holdfast_cli.output.wrapping import UNLIMITED, paragraph

WIDTH_VARIABLE = "HOLDFAST_WIDTH"
"""The width of the terminal on which the output is shown, if that is another process's."""


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
    """A console that wraps sentences at words and raises `BrokenPipeError` when the reader has gone.

    rich itself would exit with 1.
    """

    def print(self, *objects: Any, soft_wrap: bool | None = None, **options: Any) -> None:
        """Print; a text is wrapped at words unless `soft_wrap` is True."""
        match objects:
            case (str() | Text() as text,) if not soft_wrap:
                for line in paragraph(Text(text) if isinstance(text, str) else text, self.width):
                    super().print(line, soft_wrap=True, **options)
            case _:
                super().print(*objects, soft_wrap=soft_wrap, **options)

    def on_broken_pipe(self) -> None:
        """Raise the error that rich has caught."""
        raise BrokenPipeError


def screen(color: str, *, to_stderr: bool = False) -> Console:
    """Return a console for `--color auto | always | never`. Texts are printed as they are, never as markup."""
    stream = sys.stderr if to_stderr else sys.stdout
    return OutputConsole(
        file=stream,
        width=None if stream.isatty() else int(os.environ.get(WIDTH_VARIABLE) or UNLIMITED),
        force_terminal=True if color == "always" else None,
        no_color=color == "never",
        highlight=False,
        emoji=False,
        markup=False,
        soft_wrap=True,
    )


def print_message(text: str) -> None:
    """Print a line beside the output."""
    if sys.stderr is not None and sys.stderr.isatty():
        screen("never", to_stderr=True).print(text)
    else:
        print(text, file=sys.stderr)  # noqa: T201 - for a log or a script


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


def console_for(file: TextIO, colors: str | None, width: int = UNLIMITED) -> Console:
    """Return a console that renders for another one, in that console's colours and width."""
    return OutputConsole(
        file=file,
        width=width,
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
