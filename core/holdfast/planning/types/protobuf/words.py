"""The words of a `.proto` text: names, numbers, texts and signs, without comments, each with its line.

Must not know what they mean together.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from holdfast.planning.problems import excerpt
from holdfast.planning.types.protobuf.schema import refuse

_MOST_LETTERS = 512 << 10
_WORD = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<number>\.?[0-9](?:[eE][+-]|[A-Za-z0-9_.])*)
    |(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<sign>[-+{}\[\]()<>=;,.:/])""",
    re.VERBOSE,
)


class Word(NamedTuple):
    """A word; the last one of a text has the kind `end`."""

    kind: str
    text: str
    line: int

    def __str__(self) -> str:
        """How messages call it."""
        return "its end" if self.kind == "end" else excerpt(self.text)


def words_of(text: str) -> Iterator[Word]:
    """Yield the words of a text; raise `ExpressionError` if it is none of this language."""
    if len(text) > _MOST_LETTERS:
        refuse(f"the protobuf schema has more than {_MOST_LETTERS} letters")
    at, line = 0, 1
    while at < len(text):
        match = _WORD.match(text, at)
        if match is None:
            refuse(f"the protobuf schema has {excerpt(text[at : at + 20])} in line {line}, which begins no word")
        if match.lastgroup != "space":
            yield Word(str(match.lastgroup), match.group(), line)
        line += match.group().count("\n")
        at = match.end()
    yield Word("end", "", line)
