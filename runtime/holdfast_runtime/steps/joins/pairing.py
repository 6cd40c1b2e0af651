"""The pairs of rows of two sides: equal keys, and times that are close enough.

Hashes nominate pairs, times and keys decide. Pairs are counted before they are made, and made a chunk at a time, so a
key with a million partners takes no more memory than a chunk. Where a few keys have many rows each over a long time,
most nominees would be too far apart: rows of one hash are in the order of time then, and looked for by it. Must not
know tables.
"""

from collections.abc import Iterator

import numpy as np

from holdfast.times import Micros
from holdfast_runtime.columns.key_columns import Rows, same_keys
from holdfast_runtime.columns.sorted_hashes import HashMatches
from holdfast_runtime.steps.joins.side_rows import SideRows, Times

_MANY = 4
"""How many nominees for each row are too many."""
Bounds = tuple[Micros, Micros]
"""How long before, and how long behind a row a partner lies at most."""


def pairs(probe: SideRows, partners: SideRows, matches: HashMatches, bounds: Bounds) -> Iterator[tuple[Rows, Rows]]:
    """Yield the pairs that `matches` nominates and times and keys confirm, at most a chunk at a time.

    A pair is an index in `probe` and an index in `partners`; `bounds` are those of the rows of `probe`.
    """
    before, after = bounds
    for probe_indices, partner_indices in matches.pairs():
        apart = partners.times[partner_indices] - probe.times[probe_indices]
        near = (apart >= -before) & (apart <= after)
        probe_indices, partner_indices = probe_indices[near], partner_indices[near]  # noqa: PLW2901 - the same pairs, fewer of them
        same = same_keys(probe.keys, probe_indices, partners.keys, partner_indices)
        if same.any():
            yield probe_indices[same], partner_indices[same]


def by_time(
    probe: SideRows, partners: SideRows, matches: HashMatches, bounds: Bounds
) -> tuple[SideRows, HashMatches, Rows] | None:
    """Return `partners` in the order of hash and time, matches of only those close enough, and the order itself.

    The order holds the index that each partner had before. None where `matches` has few nominees as it is.
    """
    if matches.count() <= _MANY * (len(probe.hashes) + len(partners.hashes)):
        return None
    order = np.lexsort((partners.times, partners.hashes))
    partners = partners.at(order)
    before, after = bounds
    times = probe.times[matches.probes]
    begins = _first(partners.times, matches, times - before)
    ends = _first(partners.times, matches, times + after + 1)
    near = begins < ends
    return partners, HashMatches(matches.probes[near], begins[near], ends[near]), order


def _first(times: Times, matches: HashMatches, least: Times) -> Rows:
    """Return for each match the first index from its begin on whose time is at least `least`, or else its end.

    From the begin to the end of a match, `times` ascend; `least` has one time for each match.
    """
    low, high = matches.begins.copy(), matches.ends.copy()
    while (going := low < high).any():
        middle = (low + high) // 2
        later = times[np.minimum(middle, len(times) - 1)] >= least
        high = np.where(going & later, middle, high)
        low = np.where(going & ~later, middle + 1, low)
    return low
