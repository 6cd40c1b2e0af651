"""The format of `--help`: sentences wrapped at words to the width of the terminal, examples left as they are.

argparse itself either wraps all of a text, so that examples run together, or nothing.
"""

import argparse
import textwrap
from itertools import groupby


class HelpFormatter(argparse.HelpFormatter):
    """Wraps the paragraphs of a description or an epilog; indented lines, which are examples, stay."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines: list[str] = []
        for is_prose, group in groupby(text.splitlines(), key=_is_prose):
            part = list(group)
            lines += textwrap.wrap(" ".join(part), width, break_long_words=False) if is_prose else part
        return "\n".join(indent + line for line in lines)


def _is_prose(line: str) -> bool:
    return bool(line) and not line.startswith(" ")
