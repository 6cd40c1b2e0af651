"""The heights of boxes and waypoints: chains straight, nothing overlapping, branches balanced.

The method of Brandes and Köpf: align what can be aligned, once for each of four directions of preference, and take
the middle of the four results. Must keep the order within columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from holdfast.planning.picture.layers import BoxColumns

_BETWEEN_BOXES, _BETWEEN_WAYPOINTS = 30.0, 14.0


@dataclass(frozen=True, slots=True)
class _Tie:
    """A neighbour in the previous column (in walking direction), and the offset below it for a straight link."""

    other: int
    below: float


def heights_of(columns: BoxColumns, tall: Sequence[float]) -> list[float]:
    """Return the middle of each box and waypoint; `tall` is the height each needs. The topmost edge is at zero."""
    crossed = _crossed(columns)
    drafts = []
    for from_left in (True, False):
        for downwards in (True, False):
            draft = _draft(columns, tall, crossed, from_left=from_left, downwards=downwards)
            drafts.append(draft if downwards else [-y for y in draft])
    _level(drafts, tall)
    middles = [sorted(draft[i] for draft in drafts) for i in range(len(tall))]
    placed = [(four[1] + four[2]) / 2 for four in middles]
    top = min((y - tall[i] / 2 for i, y in enumerate(placed)), default=0.0)
    return [y - top for y in placed]


def _level(drafts: list[list[float]], tall: Sequence[float]) -> None:
    """Shift the drafts so that they share the edge of the most compact one."""
    spans = [
        (
            min((y - tall[i] / 2 for i, y in enumerate(draft)), default=0.0),
            max((y + tall[i] / 2 for i, y in enumerate(draft)), default=0.0),
        )
        for draft in drafts
    ]
    low, high = min(spans, key=lambda span: span[1] - span[0])
    for number, draft in enumerate(drafts):
        packed_to_top = number % 2 == 0
        shift = low - spans[number][0] if packed_to_top else high - spans[number][1]
        draft[:] = [y + shift for y in draft]


def _crossed(columns: BoxColumns) -> set[tuple[int, int]]:
    """The links that cross a long link between two of its waypoints: the long link is kept straight instead of them."""
    place = {index: i for column in columns.members for i, index in enumerate(column)}
    before: list[list[int]] = [[] for _ in columns.column]
    for segment in columns.segments:
        before[segment.right].append(segment.left)
    crossed: set[tuple[int, int]] = set()
    for here, there in pairwise(columns.members):
        first, done = 0, 0
        for i, index in enumerate(there):
            inner = None if columns.is_box(index) else next((o for o in before[index] if not columns.is_box(o)), None)
            if inner is None and i < len(there) - 1:
                continue
            last = len(here) - 1 if inner is None else place[inner]
            for member in there[done : i + 1]:
                for other in before[member]:
                    straight = not columns.is_box(member) and not columns.is_box(other)
                    if not first <= place[other] <= last and not straight:
                        crossed.add((other, member))
            first, done = last, i + 1
    return crossed


def _draft(
    columns: BoxColumns, tall: Sequence[float], crossed: set[tuple[int, int]], *, from_left: bool, downwards: bool
) -> list[float]:
    sign = 1 if downwards else -1
    members = [column if downwards else column[::-1] for column in columns.members]
    ties: list[list[_Tie]] = [[] for _ in columns.column]
    for segment in columns.segments:
        if (segment.left, segment.right) in crossed:
            continue
        offset = sign * (segment.leaves - segment.enters)
        if from_left:
            ties[segment.right].append(_Tie(segment.left, offset))
        else:
            ties[segment.left].append(_Tie(segment.right, -offset))
    root, shift = _lined_up(members if from_left else members[::-1], ties)
    return _packed(columns, members, tall, root, shift)


def _lined_up(members: Sequence[Sequence[int]], ties: Sequence[Sequence[_Tie]]) -> tuple[list[int], list[float]]:
    """Align members in blocks: for each member the first one of its block, and the offset below that."""
    size = len(ties)
    root, shift = list(range(size)), [0.0] * size
    taken = [False] * size
    place: dict[int, int] = {}
    for column in members:
        last = -1
        for index in column:
            near = sorted(ties[index], key=lambda tie: (place[tie.other], tie.below))
            middle = (len(near) - 1) // 2, len(near) // 2
            for tie in [near[i] for i in dict.fromkeys(middle)] if near else ():
                if last < place[tie.other] and not taken[tie.other]:
                    root[index] = root[tie.other]
                    shift[index] = shift[tie.other] + tie.below
                    taken[tie.other] = True
                    last = place[tie.other]
                    break
        place = {index: i for i, index in enumerate(column)}
    return root, shift


def _packed(
    columns: BoxColumns,
    members: Sequence[Sequence[int]],
    tall: Sequence[float],
    root: Sequence[int],
    shift: Sequence[float],
) -> list[float]:
    """Place every block as high as the blocks above it allow, then move it down towards those below if it can."""
    below: list[dict[int, float]] = [{} for _ in root]
    above: list[int] = [0] * len(root)
    for column in members:
        for upper, lower in pairwise(column):
            between = _BETWEEN_BOXES if columns.is_box(upper) and columns.is_box(lower) else _BETWEEN_WAYPOINTS
            apart = (tall[upper] + tall[lower]) / 2 + between + shift[upper] - shift[lower]
            a, b = root[upper], root[lower]
            if b not in below[a]:
                above[b] += 1
            below[a][b] = max(apart, below[a].get(b, apart))
    order = [index for index in range(len(root)) if root[index] == index and not above[index]]
    at = [0.0] * len(root)
    for block in order:
        for lower, apart in below[block].items():
            at[lower] = max(at[lower], at[block] + apart)
            above[lower] -= 1
            if not above[lower]:
                order.append(lower)
    for block in reversed(order):
        if below[block]:
            at[block] = max(at[block], min(at[lower] - apart for lower, apart in below[block].items()))
    return [at[root[index]] + shift[index] for index in range(len(root))]
