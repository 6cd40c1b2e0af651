"""Suggestions for a name that does not exist: the known name that was probably meant.

There is one way of guessing, everywhere the same. Must not know what the names stand for.
"""

from collections.abc import Collection
from difflib import get_close_matches
from functools import lru_cache
from heapq import nsmallest

_MANY, _TYPO, _LONGEST = 100, 2, 255
"""How many names are compared, how different in length, and up to what length."""


def nearest(name: str, known: Collection[str]) -> str | None:
    """The known name that was probably meant."""
    return _nearest(name, frozenset(known))


@lru_cache(maxsize=1024)
def _nearest(name: str, known: frozenset[str]) -> str | None:
    # Comparing is slow. A large app that misnames its streams is wrong in thousands of places; it must not take minutes
    # to say so. Hence the cache, and of many names only those that look alike at first sight.
    names = sorted(known)  # or which of two equally near ones is meant would change from run to run
    if len(names) > _MANY:
        names = [k for k in names if k[:1] == name[:1] and abs(len(k) - len(name)) <= _TYPO][:_MANY]
    near = [k for k in names if k.lower() == name.lower()]
    if not near and len(name) <= _LONGEST:
        near = get_close_matches(name, names, n=1, cutoff=0.6)
    return near[0] if near else None


def did_you_mean(name: str, known: Collection[str]) -> str:
    """A suggestion to put behind "there is no ...": the nearest known name, or those there are."""
    near = nearest(name, known)
    if near:
        return f"; did you mean {near}?"
    if not known:
        return "; there are none"
    shown = nsmallest(10, known)
    more = f" and {len(known) - len(shown)} more" if len(known) > len(shown) else ""
    return f" (there are: {', '.join(shown)}{more})"


def near_miss(name: str, known: Collection[str]) -> str:
    """The same where the names there are follow anyway: the nearest one, or nothing."""
    near = nearest(name, known)
    return f"; did you mean {near}?" if near else ""
