"""Patterns that mean the same in Java and over Arrow: regular expressions, which RE2 reads there, and those of times.

In an expression: characters, `[...]`, groups, `|`, `^` at the start of the text, and `*`, `+`, `?` behind a character
or a class. Not `.` and `$` (what ends a line differs), nothing lazy, possessive or with braces, no quantifier behind a
group (which of its matches counts may differ), no escapes.
In a pattern of times: digits of year, month, day, hour, minute and second, and what stands between them.
"""

import re
from datetime import UTC, date, datetime

_CHARACTER = r"[^\\\[\](){}.*+?^$|]"
_MEMBER = r"[^\\\[\]^&-]"
_CLASS = rf"\[\^?(?:{_MEMBER}-{_MEMBER}|{_MEMBER}|&(?!&))+\]"
_WANTED = "(?P<found>"
_TOKEN = re.compile(rf"(?P<open>\((?!\?))|\)(?![*+?])|\||\^(?![*+?])|(?:{_CLASS}|{_CHARACTER})[*+?]?(?![*+?])")

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d ([01]\d|2[0-3]):[0-5]\d:[0-5]\d", re.ASCII)

_TIME_FIELDS = ("yyyy", "MM", "dd", "HH", "mm", "ss")
_TIME_PART = re.compile(r"([A-Za-z])\1*|[^A-Za-z'\[\]{}#]+")


def same_pattern(text: str, group: int) -> str | None:
    """Return the expression as RE2 reads it, with this group, or all for 0, as `found`.

    None if it may differ, or has no such group.
    """
    index, groups = 0, 0
    made = ["(?:" if group else _WANTED]
    while index < len(text):
        token = _TOKEN.match(text, index)
        if token is None:
            return None
        index = token.end()
        groups += bool(token["open"])
        # What need not be kept is found faster.
        made.append((_WANTED if groups == group else "(?:") if token["open"] else token[0])
    try:
        re.compile(text)
    except re.error:
        return None
    return "".join([*made, ")"]) if 0 <= group <= groups else None


def matches_nothing(text: str) -> bool:
    """Whether an expression that means the same may find an empty text: where it does then, differs."""
    return re.fullmatch(text, "") is not None


def plain_separator(text: str) -> bool:
    """Whether a regular expression is one or more characters that stand for themselves."""
    return re.fullmatch(f"(?:{_CHARACTER})+", text) is not None


def time_parts(text: str) -> tuple[str, ...]:
    """Return the fields of a time and what stands between them; none if a part means more in Java."""
    parts, index = list[str](), 0
    while (part := _TIME_PART.match(text, index)) is not None:
        if part[1] is not None and part[0] not in _TIME_FIELDS:
            return ()
        parts.append(part[0])
        index = part.end()
    return tuple(parts) if index == len(text) and not set(_TIME_FIELDS).isdisjoint(parts) else ()


def written_date(text: str) -> date | None:
    """Return the date that a text is in full; None if it is none, or Spark and Python may read it differently."""
    midnight = written_moment(f"{text} 00:00:00")
    return None if midnight is None else midnight.date()


def written_moment(text: str) -> datetime | None:
    """Return the moment in UTC that a text is in full."""
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC) if _MOMENT.fullmatch(text) else None
    except ValueError:
        return None
