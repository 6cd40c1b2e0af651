"""Findings: what is wrong with one text of a spec, as a value that many checks produce and one place can print.

Must not know steps: the caller adds where it was found.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.errors import UserActionError
from holdfast.reasons import Reason

SHOWN_NAMES = 12
SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class SqlFinding:
    """One thing that is wrong with a text, and what to do about it."""

    reason: Reason
    message: str


class ExpressionError(UserActionError):
    """A text of the spec that can't be used; `findings` say why."""

    def __init__(self, *findings: SqlFinding) -> None:
        super().__init__("; ".join(finding.message for finding in findings))
        self.findings = findings


def excerpt(text: str) -> str:
    """Return the text for a message: one line of printable characters, cut if long."""
    line = "".join(letter if letter.isprintable() else " " for letter in text[: SHOWN_CHARACTERS + 1])
    return line if len(line) <= SHOWN_CHARACTERS else f"{line[:SHOWN_CHARACTERS]}..."


def listed(names: Iterable[str]) -> str:
    """Return `a, b, c`; of a long list the first names and how many more there are."""
    known = list(dict.fromkeys(names))
    more = len(known) - SHOWN_NAMES
    return ", ".join(known[:SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")
