"""The pairs of rows of two sides: equal keys, and times that are close enough.

Hashes nominate pairs, times and keys decide. Pairs are counted before they are made, and made a chunk at a time, so a
key with a million partners takes no more memory than a chunk. Where a few keys have many rows each over a long time,
most nominees would be too far apart: rows of one hash are in the order of time then, and looked for by it. Must not
know tables.
"""

from collections.abc import Iterator

import numpy as np

from holdfast.moments import Micros
from holdfast_runtime.columns.key_columns import Rows, same_keys
from holdfast_runtime.columns.sorted_hashes import HashMatches
from holdfast_runtime.steps.joins.side_rows import SideRows, Times

_MANY = 4
"""How many nominees for each row are too many."""
Bounds = tuple[Micros, Micros]
"""How long before, and how long behind a row a partner lies at most."""


def pairs(wanted: SideRows, held: SideRows, matches: HashMatches, bounds: Bounds) -> Iterator[tuple[Rows, Rows]]:
    """Yield the places of pairs, `wanted` first, at most a chunk at a time."""
    before, after = bounds
    for mine, theirs in matches.pairs():
        apart = held.times[theirs] - wanted.times[mine]
        near = (apart >= -before) & (apart <= after)
        mine, theirs = mine[near], theirs[near]  # noqa: PLW2901 - the same pairs, fewer of them
        same = same_keys(wanted.keys, mine, held.keys, theirs)
        if same.any():
            yield mine[same], theirs[same]


def by_time(
    wanted: SideRows, held: SideRows, matches: HashMatches, bounds: Bounds
) -> tuple[SideRows, HashMatches, Rows] | None:
    """Return rows in the order of hash and time, the nominees among them that are close enough, and the rows' places.

    None where there are few nominees as it is.
    """
    if matches.count() <= _MANY * (len(wanted.hashes) + len(held.hashes)):
        return None
    order = np.lexsort((held.times, held.hashes))
    held = held.at(order)
    before, after = bounds
    begins = _first(held.times, matches, wanted.times - before)
    ends = _first(held.times, matches, wanted.times + after + 1)
    return held, HashMatches(begins, ends), order


def _first(times: Times, within: HashMatches, least: Times) -> Rows:
    """Return for each stretch of ascending times the first place that has at least this time."""
    low, high = within.begins.copy(), within.ends.copy()
    while (going := low < high).any():
        middle = (low + high) // 2
        later = times[np.minimum(middle, len(times) - 1)] >= least
        high = np.where(going & later, middle, high)
        low = np.where(going & ~later, middle + 1, low)
    return low
