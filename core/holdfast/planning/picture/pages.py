"""The page of a picture: the places of columns, the routes of links, and where a wide graph continues in a new row.

A document is narrower than a long pipeline. A row ends where few links pass between two columns, and those links turn
back to the beginning of the next row. Must not move boxes within their columns.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from holdfast.planning.picture.layers import BoxColumns, LinkSegment

_ARROW, _LEAD, _BEND, _STEEP, _MOST = 9.0, 11.0, 26.0, 0.16, 64.0
CORNER = 9.0
"""The radius of a turn."""
_WIDE = 1080.0
"""How wide a row should be."""
_WORTH = 1.15
"""Rows are only folded where they are this much wider."""
_TURN, _BETWEEN_TURNS, _ABOVE_ROW, _BELOW_ROW = 20.0, 12.0, 26.0, 22.0
_TURNS_AT_MOST = 3
_TURN_COSTS = (0.1, 0.25, 0.4, 0.55)


Departures = dict[tuple[int, float], list[LinkSegment]]
"""Segments into a column, by the box or waypoint they leave and the height at which they do."""


@dataclass(frozen=True, slots=True)
class LinkLane:
    """A horizontal stretch of a link. Between two lanes the link bends, or turns if one of them runs to the left."""

    start: float
    end: float
    y: float


@dataclass(frozen=True, slots=True)
class LinkRoute:
    """The lanes of a link, left to right. Links that leave a box together begin with equal lanes."""

    lanes: tuple[LinkLane, ...]
    backward: bool = False
    """Whether its arrow head is at the beginning."""
    loop: bool = False
    """Whether it runs from a box to itself, over its top."""


@dataclass(frozen=True, slots=True)
class BoxHeights:
    """The middle of each box and waypoint, and how much height it needs, before anything is folded."""

    middle: Sequence[float]
    tall: Sequence[float]


@dataclass(slots=True)
class PictureGrid:
    """The x of each column and of the level stretch in front of it, the y of each box and waypoint."""

    left: list[float]
    right: list[float]
    approach: list[float]
    y: list[float]
    turns: dict[tuple[int, float], tuple[LinkLane, LinkLane]]
    """(Box or waypoint, height from its middle) -> the two lanes to the next row: back to its beginning and into it."""
    width: float = 0.0
    height: float = 0.0


def folded(columns: BoxColumns, widths: Sequence[float], labels: Sequence[float], standing: BoxHeights) -> PictureGrid:
    """Return the page for columns with boxes and link labels of these widths, folded into rows if it is too wide."""
    count = len(columns.members)
    wide = [max((widths[i] for i in column if columns.is_box(i)), default=0.0) for column in columns.members]
    approach = _approaches(columns, labels)
    bends = [_BEND / 2] * count
    for one in columns.segments:
        rise = abs(standing.middle[one.right] + one.enters - standing.middle[one.left] - one.leaves)
        bends[columns.column[one.right]] = max(bends[columns.column[one.right]], _bend_width(rise))
    before = [_LEAD + bend + room if c else 0.0 for c, (bend, room) in enumerate(zip(bends, approach, strict=True))]
    into = [_by_departure(segments) for segments in columns.into]
    rows = _rows([a + b for a, b in zip(before, wide, strict=True)], [len(groups) for groups in into])
    page = PictureGrid([0.0] * count, [0.0] * count, approach, list(standing.middle), {})
    for row, (first, end) in enumerate(rows):
        _begin_row(columns, page, standing, into[first] if row else {}, range(first, end))
        for c in range(first, end):
            if c > first:
                page.left[c] = page.right[c - 1] + before[c]
            page.right[c] = page.left[c] + wide[c]
        page.width = max(page.width, page.right[end - 1])
    return page


def _bend_width(rise: float) -> float:
    return _BEND + min(_MOST, _STEEP * rise) if rise > 1 else _BEND / 2


def _approaches(columns: BoxColumns, labels: Sequence[float]) -> list[float]:
    approach = [0.0, *[_ARROW] * (len(columns.members) - 1)]
    for label, chain in zip(labels, columns.chains, strict=True):
        if chain and label:
            end = columns.column[columns.segments[chain[-1]].right]
            approach[end] = max(approach[end], label + _ARROW + 6)
    return approach


def _by_departure(segments: Sequence[LinkSegment]) -> Departures:
    groups: Departures = {}
    for one in segments:
        groups.setdefault((one.left, one.leaves), []).append(one)
    return groups


def _rows(advance: Sequence[float], leaving: Sequence[int]) -> list[tuple[int, int]]:
    """The first column and the end of each row, with even widths and few links from row to row."""
    whole, total = [(0, len(advance))], sum(advance)
    if total <= _WIDE * _WORTH:
        return whole
    rows = _evenly(advance, leaving, _WIDE)
    widest = max(sum(advance[begin:end]) for begin, end in rows)
    if widest > _WIDE:
        # If one row can't be narrower, the others need not be narrower either.
        rows = _evenly(advance, leaving, widest)
    return rows if widest * _WORTH <= total else whole


def _evenly(advance: Sequence[float], leaving: Sequence[int], limit: float) -> list[tuple[int, int]]:
    """The cheapest rows, by dynamic programming over the number of columns from the left."""
    aim = sum(advance) / -(-sum(advance) // limit)
    best, begins = [0.0], [0]
    for _ in advance:
        cost, begin = min(_choices(advance, leaving, best, aim, limit))
        best.append(cost)
        begins.append(begin)
    ends = [len(advance)]
    while begins[ends[-1]]:
        ends.append(begins[ends[-1]])
    return [(begins[end], end) for end in reversed(ends)]


def _choices(
    advance: Sequence[float], leaving: Sequence[int], best: Sequence[float], aim: float, limit: float
) -> Iterator[tuple[float, int]]:
    """The cost of each possible last row, with the column where it begins."""
    wide, found = 0.0, False
    for begin in reversed(range(len(best))):
        wide += advance[begin]
        if found and wide > limit:
            return
        if not begin or leaving[begin] <= _TURNS_AT_MOST:
            found = True
            uneven = ((wide - aim) / aim) ** 2 if wide <= limit else 4 * (wide / limit) ** 2
            yield best[begin] + uneven + (_TURN_COSTS[min(leaving[begin], _TURNS_AT_MOST)] if begin else 0), begin


def _begin_row(columns: BoxColumns, page: PictureGrid, standing: BoxHeights, groups: Departures, row: range) -> None:
    """Place a row below the previous one, and route the links from there to its beginning."""
    members = [index for c in row for index in columns.members[c]]
    top = min(standing.middle[i] - standing.tall[i] / 2 for i in members)
    bottom = max(standing.middle[i] + standing.tall[i] / 2 for i in members)
    first = row[0]
    if not groups:
        down = page.height - top
        page.left[first] = 0.0
    else:
        order = sorted(groups, key=lambda group: (page.y[group[0]] + group[1], group))
        gutter = page.height + _BELOW_ROW
        down = gutter + _BETWEEN_TURNS * (len(order) - 1) + _ABOVE_ROW - top
        entries = _entries(groups, order, standing)
        rise = max(
            abs(y - standing.middle[s.right] - s.enters)
            for y, group in zip(entries, order, strict=True)
            for s in groups[group]
        )
        level = _BETWEEN_TURNS * (len(order) - 1) + _TURN
        page.left[first] = level + _bend_width(rise) + page.approach[first]
        for i, (group, y) in enumerate(zip(order, entries, strict=True)):
            # The topmost turns widest and comes back lowest, so that turns do not cross.
            inner = _BETWEEN_TURNS * (len(order) - 1 - i)
            turn_at = page.right[first - 1] + _TURN + inner
            page.width = max(page.width, turn_at)
            page.turns[group] = (
                LinkLane(turn_at - CORNER, inner, gutter + inner),
                LinkLane(inner + CORNER, level, y + down),
            )
    for index in members:
        page.y[index] = standing.middle[index] + down
    page.height = bottom + down


def _entries(groups: Departures, order: Sequence[tuple[int, float]], standing: BoxHeights) -> list[float]:
    """The heights at which turned links enter the next row: near their targets, in order and apart."""
    entries: list[float] = []
    for group in order:
        ends = [standing.middle[one.right] + one.enters for one in groups[group]]
        wanted = sum(ends) / len(ends)
        entries.append(max(wanted, entries[-1] + _BETWEEN_TURNS) if entries else wanted)
    return entries


def route_of(columns: BoxColumns, chain: Sequence[int], page: PictureGrid, *, backward: bool) -> LinkRoute:
    """Return the route of a link."""
    lanes: list[LinkLane] = []
    at = page.right[columns.column[columns.segments[chain[0]].left]]
    for index in chain:
        one = columns.segments[index]
        c = columns.column[one.right]
        turn = page.turns.get((one.left, one.leaves))
        y = page.y[one.left] + one.leaves
        before = page.right[c - 1]
        if turn is None:
            lanes.append(LinkLane(at, before + _LEAD, y))
        else:
            lanes += [LinkLane(at, turn[0].start + CORNER, y), *turn]
        at = page.left[c] - page.approach[c]
    last = columns.segments[chain[-1]]
    c = columns.column[last.right]
    lanes.append(LinkLane(at, page.left[c], page.y[last.right] + last.enters))
    return LinkRoute(tuple(lanes), backward=backward)
