"""Suggestions for a name that does not exist: the known name that was probably meant.

All messages use this one way of guessing. Must not know what the names stand for.
"""

from collections.abc import Collection
from difflib import SequenceMatcher, get_close_matches
from functools import lru_cache
from heapq import nlargest, nsmallest
from itertools import pairwise

_MANY, _TYPO, _LONGEST, _SIMILAR = 100, 2, 255, 0.6
"""How many names are compared, by how much their lengths may differ, the longest name that is compared, and from which
ratio on two names are similar."""


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
        near = get_close_matches(name, names, n=1, cutoff=_SIMILAR)
    return near[0] if near else None


def nearest_names(name: str, names: Collection[str], most: int = 3) -> tuple[str, ...]:
    """Return the known names that were probably meant, the most similar first; there may be 100 000 of them."""
    if len(name) > _LONGEST:
        return ()
    # Comparing is slow: it is done with the names that have most pairs of letters in common with this one.
    pairs = _pairs(name)
    likely = nlargest(_MANY, ((_in_common(pairs, _pairs(known)), known) for known in names if len(known) <= _LONGEST))
    ratios = ((SequenceMatcher(None, known.lower(), name.lower()).ratio(), known) for _, known in likely)
    return tuple(known for ratio, known in nlargest(most, ratios) if ratio >= _SIMILAR)


def _pairs(name: str) -> frozenset[tuple[str, str]]:
    lower = name.lower()
    return frozenset(pairwise(lower))


def _in_common(left: frozenset[tuple[str, str]], right: frozenset[tuple[str, str]]) -> float:
    return len(left & right) / (len(left) + len(right) or 1)


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
