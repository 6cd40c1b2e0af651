"""Suggestions for a name that does not exist: the known name that was probably meant.

All messages use this one way of guessing. Must not know what the names stand for.
"""

from collections.abc import Collection
from difflib import get_close_matches
from functools import lru_cache
from heapq import nsmallest

_MANY, _TYPO, _LONGEST = 100, 2, 255
"""How many names are compared, by how much their lengths may differ, and the longest name that is compared."""


def nearest(name: str, names: Collection[str]) -> str | None:
    """Return the known name that was probably meant; None if no name is similar."""
    return _nearest(name, frozenset(names))


@lru_cache(maxsize=1024)
def _nearest(name: str, candidates: frozenset[str]) -> str | None:
    # Comparing is slow. A large app that misnames its streams has thousands of problems, and reporting them must not
    # take minutes. Hence the cache, and if there are many names, only the most similar looking ones are compared.
    names = sorted(candidates)  # otherwise the choice between two equally near names would differ between calls
    if len(names) > _MANY:
        names = [k for k in names if k[:1].lower() == name[:1].lower() and abs(len(k) - len(name)) <= _TYPO][:_MANY]
    near = [k for k in names if k.lower() == name.lower()]
    if not near and len(name) <= _LONGEST:
        near = get_close_matches(name, names, n=1, cutoff=0.6)
    return near[0] if near else None


def did_you_mean(name: str, names: Collection[str]) -> str:
    """Return a suggestion to append to "there is no ...": the nearest known name, or the names there are."""
    near = nearest(name, names)
    if near:
        return f"; did you mean {near}?"
    if not names:
        return "; there are none"
    shown = nsmallest(10, names)
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f" (there are: {', '.join(shown)}{more})"


def near_miss(name: str, names: Collection[str]) -> str:
    """Return a suggestion for messages that list the names anyway: the nearest known name, or nothing."""
    near = nearest(name, names)
    return f"; did you mean {near}?" if near else ""
