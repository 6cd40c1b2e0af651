"""Why: which column each box stands in: every link runs one column or more to the right, once circles are broken.

Long links get a waypoint in each column they cross, so that they can be led around boxes; links that leave one box
together share their waypoints, like a bus. Must not know heights or orders.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

Pair = tuple[int, int]


@dataclass(slots=True)
class LinkSegment:
    """A piece of a link between neighbouring columns; where it leaves and enters, from the middle of its ends."""

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
        """Whether this is a box and no waypoint."""
        return index < self.boxes


def columns_of(count: int, links: Sequence[Pair]) -> BoxColumns:
    """The columns of a graph of boxes `0 ... count-1`."""
    backward = _backward(count, links)
    forward = [(b, a) if back else (a, b) for (a, b), back in zip(links, backward, strict=True)]
    column = _settled(count, forward)
    columns = BoxColumns(count, [[] for _ in range(max(column, default=-1) + 1)], column, backward=backward)
    for box in range(count):
        columns.members[column[box]].append(box)
    shared: dict[tuple[int, int], int] = {}
    for index, (left, right) in enumerate(forward):
        # Links that run against the flow end in different boxes on the left and share nothing.
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
    """The links that close a circle, found by walking depth first from where nothing flows in."""
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
    """The column of each box: as far left as its inputs allow, or where nothing holds it, beside its first reader."""
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
    """The boxes in an order in which every link runs onwards."""
    waits = [len(sources) for sources in inputs]
    order = [box for box, count in enumerate(waits) if not count]
    for box in order:
        for reader in sorted(readers[box]):
            waits[reader] -= 1
            if not waits[reader]:
                order.append(reader)
    return order
