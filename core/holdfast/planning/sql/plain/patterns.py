"""Regular expressions that mean the same in Java and in RE2, which computes them over Arrow.

Characters, `[...]`, groups, `|`, `^` at the start of the text, and `*`, `+`, `?` behind a character or a class. Not
`.` and `$` (what ends a line differs), nothing lazy, possessive or with braces, no quantifier behind a group (which of
its matches counts may differ), no escapes.
"""

import re

_CHARACTER = r"[^\\\[\](){}.*+?^$|]"
_MEMBER = r"[^\\\[\]^&-]"
_CLASS = rf"\[\^?(?:{_MEMBER}-{_MEMBER}|{_MEMBER}|&(?!&))+\]"
_WANTED = "(?P<found>"
_TOKEN = re.compile(rf"(?P<open>\((?!\?))|\)(?![*+?])|\||\^(?![*+?])|(?:{_CLASS}|{_CHARACTER})[*+?]?(?![*+?])")


def same_pattern(text: str, wanted: int) -> str | None:
    """Return the expression as RE2 reads it, with the wanted group, or all for 0, as `found`.

    None if it may differ, or has no such group.
    """
    at, groups = 0, 0
    made = ["(?:" if wanted else _WANTED]
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            return None
        at = token.end()
        groups += bool(token["open"])
        # What need not be kept is found faster.
        made.append((_WANTED if groups == wanted else "(?:") if token["open"] else token[0])
    try:
        re.compile(text)
    except re.error:
        return None
    return "".join([*made, ")"]) if 0 <= wanted <= groups else None


def plain_separator(text: str) -> bool:
    """Whether a regular expression is one or more characters that stand for themselves."""
    return re.fullmatch(f"(?:{_CHARACTER})+", text) is not None
