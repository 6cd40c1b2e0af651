"""The columns of a layered layout: the column of each box, and an order within columns with few crossing links.

Once cycles are broken, every link runs one column or more to the right. Long links get a waypoint in each column they
cross, so that they can be routed around boxes; links that leave one box together share waypoints. Sweeps in both
directions order each column by the mean place of the neighbours; the best order found is taken. Nothing is random: the
same graph always gets the same order. Must not know heights.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

Pair = tuple[int, int]


@dataclass(slots=True)
class LinkSegment:
    """A piece of a link between neighbouring columns; it leaves and enters at offsets from the middle of its ends."""

    left: int
    right: int
    leaves: float = 0.0
    enters: float = 0.0


@dataclass(slots=True)
class BoxColumns:
    """Boxes and waypoints by column. Indices below `boxes` are boxes, the others waypoints."""

    boxes: int
    members: list[list[int]]
    column: list[int]
    segments: list[LinkSegment] = field(default_factory=list)
    chains: list[list[int]] = field(default_factory=list)
    """For each link the indices of its segments, left to right; empty for a link from a box to itself."""
    backward: list[bool] = field(default_factory=list)
    """For each link whether it runs from right to left."""

    @property
    def into(self) -> list[list[LinkSegment]]:
        """Segments by the column they end in."""
        found: list[list[LinkSegment]] = [[] for _ in self.members]
        for segment in self.segments:
            found[self.column[segment.right]].append(segment)
        return found

    def is_box(self, index: int) -> bool:
        """Whether this is a box, not a waypoint."""
        return index < self.boxes


def columns_of(count: int, links: Sequence[Pair]) -> BoxColumns:
    """Return the columns of a graph of boxes `0 ... count-1`."""
    backward = _backward(count, links)
    forward = [(b, a) if back else (a, b) for (a, b), back in zip(links, backward, strict=True)]
    column = _settled(count, forward)
    columns = BoxColumns(count, [[] for _ in range(max(column, default=-1) + 1)], column, backward=backward)
    for box in range(count):
        columns.members[column[box]].append(box)
    shared: dict[tuple[int, int], int] = {}
    for index, (left, right) in enumerate(forward):
        # Links against the flow end in different boxes on the left, so they share no waypoints.
        bus = -1 - index if backward[index] else left
        columns.chains.append(_chain(columns, left, right, bus, shared))
    return columns


def _chain(columns: BoxColumns, left: int, right: int, bus: int, shared: dict[tuple[int, int], int]) -> list[int]:
    chain: list[int] = []
    if left == right:
        return chain
    at = left
    for column in range(columns.column[left] + 1, columns.column[right]):
        known = shared.get((bus, column))
        if known is None:
            waypoint = len(columns.column)
            columns.column.append(column)
            columns.members[column].append(waypoint)
            known = shared[bus, column] = len(columns.segments)
            columns.segments.append(LinkSegment(at, waypoint))
        chain.append(known)
        at = columns.segments[known].right
    chain.append(len(columns.segments))
    columns.segments.append(LinkSegment(at, right))
    return chain


def _backward(count: int, links: Sequence[Pair]) -> list[bool]:
    """The links that close a cycle, found depth first from boxes without inputs."""
    out: list[list[int]] = [[] for _ in range(count)]
    entered = [False] * count
    for index, (a, b) in enumerate(links):
        if a != b:
            out[a].append(index)
            entered[b] = True
    backward = [False] * len(links)
    state = [0] * count  # 1: on the path from the start, 2: done
    for start in sorted(range(count), key=lambda box: (entered[box], box)):
        if state[start]:
            continue
        state[start] = 1
        path = [(start, iter(out[start]))]
        while path:
            box, rest = path[-1]
            index = next(rest, -1)
            if index < 0:
                state[box] = 2
                path.pop()
                continue
            target = links[index][1]
            backward[index] = state[target] == 1
            if not state[target]:
                state[target] = 1
                path.append((target, iter(out[target])))
    return backward


def _settled(count: int, forward: Sequence[Pair]) -> list[int]:
    """The column of each box: as far left as its inputs allow, or without such a limit just before its first reader."""
    readers: list[set[int]] = [set() for _ in range(count)]
    inputs: list[set[int]] = [set() for _ in range(count)]
    for a, b in forward:
        if a != b:
            readers[a].add(b)
            inputs[b].add(a)
    order = _flow(readers, inputs)
    column = [0] * count
    loose = [False] * count
    for box in order:
        column[box] = max((column[source] + 1 for source in inputs[box]), default=0)
        # A branch that only this box reads can move with it, so moving both shortens a link and lengthens none.
        loose[box] = all(loose[source] and len(readers[source]) == 1 for source in inputs[box])
    for box in reversed(order):
        if loose[box] and readers[box]:
            column[box] = min(column[reader] for reader in readers[box]) - 1
    return column


def _flow(readers: Sequence[set[int]], inputs: Sequence[set[int]]) -> list[int]:
    """The boxes in topological order."""
    waits = [len(sources) for sources in inputs]
    order = [box for box, count in enumerate(waits) if not count]
    for box in order:
        for reader in sorted(readers[box]):
            waits[reader] -= 1
            if not waits[reader]:
                order.append(reader)
    return order


Neighbours = list[list[int]]
_SMALL, _MEDIUM = 1_500, 15_000
_PATIENCE = 4


def reduce_crossings(columns: BoxColumns) -> None:
    """Order the members of each column so that few links cross."""
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
    """Return the neighbours of each box and waypoint in the column before and in the column after."""
    before: Neighbours = [[] for _ in columns.column]
    after: Neighbours = [[] for _ in columns.column]
    for segment in columns.segments:
        before[segment.right].append(segment.left)
        after[segment.left].append(segment.right)
    return before, after


def _first_order(columns: BoxColumns, before: Neighbours, after: Neighbours) -> list[list[int]]:
    """The initial order, depth first from the right: the inputs of one box start side by side."""
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
        # Members with equal means keep their order, or swap it in every other pair of turns to escape a local optimum.
        column.sort(key=wanted.__getitem__, reverse=False) if not settle else _sort_swapping(column, wanted)
        place = {index: i for i, index in enumerate(column)}


def _sort_swapping(column: list[int], wanted: dict[int, float]) -> None:
    column.reverse()
    column.sort(key=wanted.__getitem__)


def _exchange(members: list[list[int]], before: Neighbours, after: Neighbours) -> None:
    """Swap adjacent members of a column if that removes crossings."""
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
    """The crossings between the links of two members, the first above the second."""
    if not towards[above] or not towards[below]:
        return 0
    lower = sorted(place[other] for other in towards[below])
    return sum(bisect_left(lower, place[other]) for other in towards[above])


def _crossings(members: Sequence[Sequence[int]], after: Neighbours) -> int:
    """The number of crossings, counted with a tree of sums per gap between columns."""
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
