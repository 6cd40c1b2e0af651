"""One line of text from text that others wrote: without control characters, and cut.

What pods, reports, brokers and the API server say ends in logs, events, conditions and terminals. There a newline
forges a second entry, ESC moves the cursor, and a bidi control shows a name as another one. So text is cleaned where it
is read, and all code behind that may show it. Must not know who wrote it.
"""

import json

_CUT = "..."


def printable(text: str) -> str:
    """Return the text with a space in place of everything that is not printed: controls, bidi controls, surrogates."""
    return text if text.isprintable() else "".join(letter if letter.isprintable() else " " for letter in text)


def one_line(text: object, most: int = 1000) -> str:
    """Return the text as one line of at most this many characters."""
    line = printable(str(text)[: most + 1])
    return line if len(line) <= most else line[: most - len(_CUT)] + _CUT


def escaped(text: str) -> str:
    """Return a text in which what can't be printed is escaped, as in Python."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def printable_json(line: str) -> str:
    """Return a line of JSON in which what can't be printed is escaped; between members it is white space."""
    if line.isprintable():
        return line
    return "".join(letter if letter.isprintable() else _json_escape(letter) for letter in line)


def _json_escape(letter: str) -> str:
    return " " if letter in "\t\r\n" else json.dumps(letter)[1:-1]
