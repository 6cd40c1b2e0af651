"""Why: in which order boxes and waypoints stand in their columns, so that few links cross.

Sweeps from left to right and back, each placing what stands in a column by the middle of its neighbours; the best order
seen wins. Nothing is random: the same graph always gets the same order.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from holdfast.planning.picture.layers import BoxColumns

Neighbours = list[list[int]]
_SMALL, _MEDIUM = 1_500, 15_000
_PATIENCE = 4


def reduce_crossings(columns: BoxColumns) -> None:
    """Put the members of each column into an order with few crossings."""
    before, after = neighbours(columns)
    size = len(columns.column)
    rounds = 24 if size < _SMALL else 8 if size < _MEDIUM else 2
    members = _first_order(columns, before, after)
    best, fewest, since = [list(column) for column in members], _crossings(members, after), 0
    for turn in range(rounds):
        if not fewest or since >= _PATIENCE:
            break
        _sweep(members, after if turn % 2 else before, backwards=bool(turn % 2), settle=turn % 4 > 1)
        if size < _SMALL:
            _exchange(members, before, after)
        crossings = _crossings(members, after)
        since += 1
        if crossings < fewest:
            best, fewest, since = [list(column) for column in members], crossings, 0
    columns.members = best


def neighbours(columns: BoxColumns) -> tuple[Neighbours, Neighbours]:
    """For each box and waypoint what it is linked with in the column before and the column after."""
    before: Neighbours = [[] for _ in columns.column]
    after: Neighbours = [[] for _ in columns.column]
    for segment in columns.segments:
        before[segment.right].append(segment.left)
        after[segment.left].append(segment.right)
    return before, after


def _first_order(columns: BoxColumns, before: Neighbours, after: Neighbours) -> list[list[int]]:
    """Depth first from the right: what flows into one box starts out side by side."""
    members: list[list[int]] = [[] for _ in columns.members]
    seen = [False] * len(columns.column)
    for start in (index for column in reversed(columns.members) for index in column):
        waiting = [start]
        while waiting:
            index = waiting.pop()
            if seen[index]:
                continue
            seen[index] = True
            members[columns.column[index]].append(index)
            waiting += [other for other in (*after[index], *reversed(before[index])) if not seen[other]]
    return members


def _sweep(members: list[list[int]], towards: Neighbours, *, backwards: bool, settle: bool) -> None:
    """Order each column by the mean place of its neighbours in the column just ordered."""
    place: dict[int, int] = {}
    for column in reversed(members) if backwards else members:
        wanted: dict[int, float] = {}
        for i, index in enumerate(column):
            near = [place[other] for other in towards[index]]
            wanted[index] = sum(near) / len(near) if near else float(i)
        # Equals keep their order, or swap it in every other pair of turns, which gets sweeps out of a rut.
        column.sort(key=wanted.__getitem__, reverse=False) if not settle else _sort_swapping(column, wanted)
        place = {index: i for i, index in enumerate(column)}


def _sort_swapping(column: list[int], wanted: dict[int, float]) -> None:
    column.reverse()
    column.sort(key=wanted.__getitem__)


def _exchange(members: list[list[int]], before: Neighbours, after: Neighbours) -> None:
    """Swap neighbours in a column where that removes crossings."""
    place = {index: i for column in members for i, index in enumerate(column)}
    for column in members:
        for i in range(len(column) - 1):
            above, below = column[i], column[i + 1]
            now = _pair(before, place, above, below) + _pair(after, place, above, below)
            swapped = _pair(before, place, below, above) + _pair(after, place, below, above)
            if swapped < now:
                column[i], column[i + 1] = below, above
                place[above], place[below] = i + 1, i


def _pair(towards: Neighbours, place: dict[int, int], above: int, below: int) -> int:
    """Crossings between the links of two members, the first above the second."""
    if not towards[above] or not towards[below]:
        return 0
    lower = sorted(place[other] for other in towards[below])
    return sum(bisect_left(lower, place[other]) for other in towards[above])


def _crossings(members: Sequence[Sequence[int]], after: Neighbours) -> int:
    """How many links cross, counted with a tree of sums per gap between columns."""
    total = 0
    for here, there in pairwise(members):
        place = {index: i for i, index in enumerate(there)}
        ends = [place[other] for index in here for other in sorted(after[index], key=place.__getitem__)]
        total += _inversions(ends, len(there))
    return total


def _inversions(ends: Sequence[int], size: int) -> int:
    tree = [0] * (size + 1)
    found = 0
    for seen, end in enumerate(ends):
        at, at_or_above = end + 1, 0
        while at:
            at_or_above += tree[at]
            at &= at - 1
        found += seen - at_or_above
        at = end + 1
        while at <= size:
            tree[at] += 1
            at += at & -at
    return found
