"""Text in lines of a width: words stay whole, and further lines are indented below the first.

A word that is longer than a line stays whole too, as names, addresses and commands are copied. Must not print.
"""

import re
from collections.abc import Iterable

from rich.cells import cell_len
from rich.text import Text

UNLIMITED = 10_000
"""The width where there is no terminal: a script or a log reads the lines, so none may be cut or wrapped."""
_HANGING = 2
_WORD = re.compile(r"\S+\s*")


def wrapped(text: Text, width: int) -> list[Text]:
    """Return the lines of a text. rich itself would tear long words apart, or wrap nothing."""
    starts, used = list[int](), 0
    for word in _WORD.finditer(text.plain):
        if used and used + cell_len(word[0].rstrip()) > width:
            starts.append(word.start())
            used = 0
        used += cell_len(word[0])
    lines = list(text.divide(starts))
    for line in lines:
        line.rstrip()
    return lines


def paragraph(text: Text, width: int) -> list[Text]:
    """Return the lines of a text, which keep its own indentation; lines after the first are indented a little more."""
    if text.no_wrap or width >= UNLIMITED:
        return [text]
    lines: list[Text] = []
    for line in text.split(allow_blank=True):
        if line.cell_len <= width:
            lines.append(line)
            continue
        indent = len(line.plain) - len(line.plain.lstrip())
        first, *further = wrapped(line[indent:], width - indent - _HANGING)
        lines += [Text(" " * indent) + first, *(Text(" " * (indent + _HANGING)) + part for part in further)]
    return lines


def flowing(parts: Iterable[Text], width: int, gap: str) -> list[Text]:
    """Return parts in lines, as many on each as fit; a part that fits on none is wrapped."""
    lines: list[Text] = []
    open_line = False
    for part in parts:
        if open_line and lines[-1].cell_len + len(gap) + part.cell_len <= width:
            lines[-1] = Text.assemble(lines[-1], gap, part)
        else:
            paragraph_lines = paragraph(part, width)
            lines += paragraph_lines
            open_line = len(paragraph_lines) == 1
    return lines


def longest_part(text: Text) -> int:
    """Return the width of the longest word, or of a text that stays whole."""
    if text.no_wrap:
        return text.cell_len
    return max((Text(word).cell_len for word in text.plain.split()), default=0)
