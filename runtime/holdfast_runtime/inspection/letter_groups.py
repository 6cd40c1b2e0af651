"""Dead letters in groups: those of one origin whose reasons differ only in numbers and in quoted values.

Pure; must not read streams.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from holdfast_runtime.inspection.dead_letters import DeadLetter, LetterOrigin

_NUMBER, _QUOTED = "N", "'...'"
_QUOTED_VALUE = re.compile(r""""(?:[^"\\]|\\.)*"|(?<!\w)'(?:[^'\\]|\\.)*'(?!\w)""")
"""A quote inside a word is an apostrophe: the one of `can't` begins no value."""
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_MOMENT = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
_PLAIN_NUMBER = r"(?:(?<!\w)-)?(?:0x[0-9a-fA-F]+|\d+(?:[.,]\d+)*(?:[eE][+-]?\d+)?)"
_VARYING_NUMBER = re.compile(rf"(?<!\w)(?<!UTF-)(?:{_UUID}|{_MOMENT}|{_PLAIN_NUMBER})")
"""Digits of a name, as in `int64`, say what it is about and stay."""


@dataclass(frozen=True, slots=True)
class LetterGroup:
    """Dead letters that have one cause, as far as their reasons tell."""

    reason: str
    """Without what varies."""
    origin: LetterOrigin
    """Stream, step and column of all of them."""
    count: int
    first: int
    """When the first one was written: milliseconds since 1970."""
    last: int
    example: DeadLetter
    """The newest one."""

    def joined(self, letter: DeadLetter) -> "LetterGroup":
        """Return the group with one more letter."""
        return replace(
            self,
            count=self.count + 1,
            first=min(self.first, letter.written),
            last=max(self.last, letter.written),
            example=letter if letter.written >= self.last else self.example,
        )


def reason_pattern(reason: str) -> str:
    """Return a reason with N for each number, moment or UUID, and '...' for each quoted value."""
    return _VARYING_NUMBER.sub(_NUMBER, _QUOTED_VALUE.sub(_QUOTED, reason))


def letter_groups(letters: Iterable[DeadLetter]) -> list[LetterGroup]:
    """Return the groups of these letters, the largest first."""
    groups: dict[tuple[str, LetterOrigin], LetterGroup] = {}
    for letter in letters:
        origin = LetterOrigin(letter.origin.stream, step=letter.origin.step, column=letter.origin.column)
        reason = reason_pattern(letter.reason)
        group = groups.get((reason, origin)) or LetterGroup(reason, origin, 0, letter.written, letter.written, letter)
        groups[reason, origin] = group.joined(letter)
    return sorted(groups.values(), key=lambda group: (-group.count, group.first))
