"""The geometry of a picture: from sizes of boxes and links between them to rectangles and routes.

Boxes stand in rows, and links run down from row to row: a pipeline is longer than wide, and a page has more room below
than beside it. A link over several rows has a waypoint in each row between, so that it runs beside the boxes there;
links that leave one box together share theirs. Parts of the graph that nothing connects stand side by side. Nothing is
random: the same graph always gets the same layout. Must not know plans, colours or formats.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

PORT = 20.0
"""The least distance between links that enter one box."""
_APPROACH = 31.0
"""Straight way into a box, with room for an arrow head and a label."""
_BEND, _STEEP, _MOST = 13.0, 0.08, 60.0
_BOXES_APART, _LINES_APART, _PARTS_APART = 30.0, 14.0, 48.0
_LOOP, _PAGE = 26.0, 1000.0
_STIFF = 8.0
_LARGE = 20_000
"""Boxes and waypoints of a graph that nobody will look at as a whole, and that would take half a minute."""


@dataclass(frozen=True, slots=True)
class Box:
    """The size of a box that is to be placed."""

    width: float
    height: float


@dataclass(frozen=True, slots=True)
class BoxLink:
    """A link between two boxes, by their indices; `label` is the width of its widest label."""

    source: int
    target: int
    label: float = 0.0


@dataclass(frozen=True, slots=True)
class Rectangle:
    """What a box covers of the picture."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """The x of its right edge."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """The y of its bottom edge."""
        return self.y + self.height


@dataclass(frozen=True, slots=True)
class LinkLane:
    """An upright stretch of a link. Between two lanes the link bends, where no box is."""

    x: float
    top: float
    bottom: float


@dataclass(frozen=True, slots=True)
class LinkRoute:
    """The lanes of a link from above to below; of a link from a box to itself the right edge of the box."""

    lanes: tuple[LinkLane, ...]
    upward: bool = False
    """Whether it closes a cycle: its arrow head is at the upper end."""
    loop: bool = False


@dataclass(frozen=True, slots=True)
class PictureLayout:
    """All rectangles and routes, in the order of the given boxes and links."""

    rectangles: tuple[Rectangle, ...]
    routes: tuple[LinkRoute, ...]
    width: float
    height: float


def lay_out(boxes: Sequence[Box], links: Sequence[BoxLink], more: float = 0.0) -> PictureLayout:
    """Return rectangles for all boxes and routes for all links; parts of the graph side by side, the largest first.

    `more`: room for further labels above the one of a link, where it enters a box.
    """
    rectangles: dict[int, Rectangle] = {}
    routes: dict[int, LinkRoute] = {}
    inside = [(part, _connected(boxes, links, *part, _APPROACH + more)) for part in _parts(len(boxes), links)]
    room = max([_PAGE, *(layout.width for _, layout in inside)])
    x = y = deepest = width = 0.0
    for (members, along), layout in inside:
        if x and x + layout.width > room:
            x, y, deepest = 0.0, y + deepest + _PARTS_APART, 0.0
        for i, rectangle in zip(members, layout.rectangles, strict=True):
            rectangles[i] = replace(rectangle, x=rectangle.x + x, y=rectangle.y + y)
        for i, route in zip(along, layout.routes, strict=True):
            lanes = tuple(LinkLane(lane.x + x, lane.top + y, lane.bottom + y) for lane in route.lanes)
            routes[i] = replace(route, lanes=lanes)
        width, deepest = max(width, x + layout.width), max(deepest, layout.height)
        x += layout.width + _PARTS_APART
    in_order = tuple(rectangles[i] for i in range(len(boxes))), tuple(routes[i] for i in range(len(links)))
    return PictureLayout(*in_order, width, y + deepest)


def _parts(count: int, links: Sequence[BoxLink]) -> list[tuple[list[int], list[int]]]:
    """The connected parts of the graph: boxes and links, by their indices."""
    beside: list[list[int]] = [[] for _ in range(count)]
    for link in links:
        beside[link.source].append(link.target)
        beside[link.target].append(link.source)
    part_of: dict[int, int] = {}
    members: list[list[int]] = []
    for start in range(count):
        if start not in part_of:
            boxes = [start]
            part_of[start] = len(members)
            for box in boxes:
                fresh = [other for other in dict.fromkeys(beside[box]) if other not in part_of]
                part_of.update(dict.fromkeys(fresh, len(members)))
                boxes += fresh
            members.append(sorted(boxes))
    inside: dict[int, list[int]] = defaultdict(list)
    for i, link in enumerate(links):
        inside[part_of[link.source]].append(i)
    parts = [(boxes, inside[number]) for number, boxes in enumerate(members)]
    return sorted(parts, key=lambda part: (-len(part[0]), part[0]))


@dataclass(slots=True)
class _Hop:
    """A link's way from one row into the next; it leaves and enters at offsets from the middle of its ends."""

    upper: int
    lower: int
    leaves: float = 0.0
    enters: float = 0.0


@dataclass(slots=True)
class _Rows:
    """Boxes and waypoints in rows. Indices below `boxes` are boxes, the others waypoints."""

    boxes: int
    row: list[int]
    upward: list[bool]
    """For each link whether it runs from a lower row to a higher one."""
    members: list[list[int]]
    hops: list[_Hop] = field(default_factory=list)
    chains: list[list[_Hop]] = field(default_factory=list)
    """The hops of each link from above to below; none of a link from a box to itself."""


def _connected(
    boxes: Sequence[Box], links: Sequence[BoxLink], members: list[int], along: list[int], approach: float
) -> PictureLayout:
    """The layout of one part of the graph."""
    index = {box: i for i, box in enumerate(members)}
    inner = [(index[links[i].source], index[links[i].target]) for i in along]
    rows = _rows(len(members), inner)
    _reduce_crossings(rows)
    least_widths = _set_ports(rows, [links[i].label for i in along])
    high = [boxes[i].height for i in members]
    wide = [max(boxes[i].width, least) for i, least in zip(members, least_widths, strict=True)]
    loops = {a for a, b in inner if a == b}
    middle = _across(rows, [width + 2 * _LOOP * (i in loops) for i, width in enumerate(wide)])
    tops, bottoms = _down(rows, middle, high, approach)
    rectangles = tuple(
        Rectangle(middle[i] - wide[i] / 2, tops[rows.row[i]], wide[i], high[i]) for i in range(len(members))
    )
    routes = []
    for (a, _), chain, upward in zip(inner, rows.chains, rows.upward, strict=True):
        if not chain:
            routes.append(LinkRoute((LinkLane(rectangles[a].right, rectangles[a].y, rectangles[a].bottom),), loop=True))
            continue
        first, last = chain[0], chain[-1]
        lanes = [
            LinkLane(middle[first.upper] + first.leaves, rectangles[first.upper].bottom, bottoms[rows.row[first.upper]])
        ]
        for hop in chain[1:]:
            r = rows.row[hop.upper]
            lanes.append(LinkLane(middle[hop.upper], tops[r] - approach, bottoms[r]))
        top = rectangles[last.lower].y
        lanes.append(LinkLane(middle[last.lower] + last.enters, top - approach, top))
        routes.append(LinkRoute(tuple(lanes), upward=upward))
    width = max(middle[i] + (wide[i] / 2 if i < len(wide) else 0) + _LOOP * (i in loops) for i in range(len(middle)))
    return PictureLayout(rectangles, tuple(routes), width, bottoms[-1])


def _rows(count: int, pairs: Sequence[tuple[int, int]]) -> _Rows:
    """The rows of a connected graph: boxes are below all they read, and inputs of one box just above it."""
    order = _flow(count, pairs)
    turn = {box: i for i, box in enumerate(order)}
    upward = [turn[a] > turn[b] for a, b in pairs]
    downward = [(b, a) if up else (a, b) for (a, b), up in zip(pairs, upward, strict=True)]
    inputs, readers = _beside(count, downward)
    row, loose = [0] * count, [False] * count
    for box in order:
        row[box] = max((row[source] + 1 for source in inputs[box]), default=0)
        # A branch that only this box reads moves with it.
        loose[box] = all(loose[source] and len(readers[source]) == 1 for source in inputs[box])
    for box in reversed(order):
        if loose[box] and readers[box]:
            row[box] = min(row[reader] for reader in readers[box]) - 1
    rows = _Rows(count, row, upward, [[] for _ in range(max(row) + 1)])
    for box in order:
        rows.members[row[box]].append(box)
    shared: dict[tuple[int, bool, int], _Hop] = {}
    for (upper, lower), up in zip(downward, upward, strict=True):
        rows.chains.append([])
        chain_end = upper
        for r in range(row[upper] + 1, row[lower] + 1):
            hop = shared.get((upper, up, r)) if r < row[lower] else None
            if hop is None:
                hop = _Hop(chain_end, lower if r == row[lower] else len(row))
                rows.hops.append(hop)
            if r < row[lower] and hop.lower == len(row):
                row.append(r)
                rows.members[r].append(hop.lower)
                shared[upper, up, r] = hop
            rows.chains[-1].append(hop)
            chain_end = hop.lower
    return rows


def _beside(count: int, pairs: Sequence[tuple[int, int]]) -> tuple[list[set[int]], list[set[int]]]:
    """For each box its inputs, and its readers."""
    inputs: list[set[int]] = [set() for _ in range(count)]
    readers: list[set[int]] = [set() for _ in range(count)]
    for a, b in pairs:
        if a != b:
            readers[a].add(b)
            inputs[b].add(a)
    return inputs, readers


def _flow(count: int, pairs: Sequence[tuple[int, int]]) -> list[int]:
    """The boxes in an order in which only links that close a cycle run backwards."""
    inputs, readers = _beside(count, pairs)
    waits = [len(sources) for sources in inputs]
    ready = [box for box in reversed(range(count)) if not waits[box]]
    rest = set(range(count)).difference(ready)
    order: list[int] = []
    while ready or rest:
        if not ready:
            # All that is left waits for a cycle: begin it where rows come in, and never with a box that nobody reads.
            ready = [min(rest, key=lambda box: (waits[box] == len(inputs[box]), not readers[box], box))]
            rest.discard(ready[0])
        box = ready.pop()
        order.append(box)
        for reader in sorted(readers[box], reverse=True):
            waits[reader] -= 1
            if reader in rest and not waits[reader]:
                rest.discard(reader)
                ready.append(reader)
    return order


def _neighbours(rows: _Rows) -> tuple[list[list[_Hop]], list[list[_Hop]]]:
    """For each member the hops from the row above, and those into the row below."""
    above: list[list[_Hop]] = [[] for _ in rows.row]
    below: list[list[_Hop]] = [[] for _ in rows.row]
    for hop in rows.hops:
        above[hop.lower].append(hop)
        below[hop.upper].append(hop)
    return above, below


def _reduce_crossings(rows: _Rows) -> None:
    """Order each row by the mean rank of its neighbours, downwards and upwards in turn."""
    above, below = _neighbours(rows)
    for sweep in range(8 if len(rows.row) < _LARGE else 2):
        down = sweep % 2 == 0
        rank: dict[int, float] = {}
        for row in rows.members if down else reversed(rows.members):
            targets: dict[int, float] = {}
            for i, member in enumerate(row):
                near = [rank[hop.upper if down else hop.lower] for hop in (above if down else below)[member]]
                targets[member] = sum(near) / len(near) if near else (i + 0.5) / len(row)
            row.sort(key=targets.__getitem__)
            rank.update((member, (i + 0.5) / len(row)) for i, member in enumerate(row))


def _set_ports(rows: _Rows, labels: Sequence[float]) -> list[float]:
    """Set where links enter boxes, in the order of their other ends; return the width that each box needs for that."""
    index_in_row = {member: i for row in rows.members for i, member in enumerate(row)}
    into: dict[int, list[_Hop]] = defaultdict(list)
    apart = [PORT] * rows.boxes
    for chain, label, upward in zip(rows.chains, labels, rows.upward, strict=True):
        if chain:
            into[chain[-1].lower].append(chain[-1])
            apart[chain[-1].lower] = max(apart[chain[-1].lower], label + 6)
            # Beside the links that leave downwards, so that arrow heads are told from beginnings.
            chain[0].leaves = PORT if upward else 0.0
    for box, hops in into.items():
        hops.sort(key=lambda hop: (index_in_row[hop.upper], hop.leaves))
        for i, hop in enumerate(hops):
            hop.enters = (i - (len(hops) - 1) / 2) * apart[box]
    return [len(into[box]) * apart[box] for box in range(rows.boxes)]


def _across(rows: _Rows, wide: Sequence[float]) -> list[float]:
    """The middle of each member: near its neighbours, in the order of its row, the leftmost edge at zero."""
    above, below = _neighbours(rows)
    half = [width / 2 for width in wide] + [0.0] * (len(rows.row) - len(wide))
    gaps = [
        [0.0, *(half[a] + half[b] + (_BOXES_APART if half[a] and half[b] else _LINES_APART) for a, b in pairwise(row))]
        for row in rows.members
    ]
    x = [0.0] * len(rows.row)
    for row, apart in zip(rows.members, gaps, strict=True):
        for member, coordinate in zip(row, accumulate(apart), strict=True):
            x[member] = coordinate - sum(apart) / 2
    for turn in range(9 if len(rows.row) < _LARGE else 3):
        down = turn % 2 == 0
        for r in range(len(gaps)) if down else reversed(range(len(gaps))):
            targets = []
            for member in rows.members[r]:
                from_above = [x[hop.upper] + hop.leaves - hop.enters for hop in above[member]]
                from_below = [x[hop.lower] + hop.enters - hop.leaves for hop in below[member]]
                ends = (from_above or from_below) if down else (from_below or from_above)
                targets.append(sum(ends) / len(ends) if ends else x[member])
            # Long links are to be straight.
            weights = [1.0 if half[member] else _STIFF for member in rows.members[r]]
            for member, coordinate in zip(rows.members[r], _nearest(targets, weights, gaps[r]), strict=True):
                x[member] = coordinate
    left = min(coordinate - half[i] for i, coordinate in enumerate(x))
    return [coordinate - left for coordinate in x]


def _nearest(targets: Sequence[float], weights: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """The coordinates nearest to the targets, in their order and at least `gaps` apart: least squares, by pooling."""
    offsets = list(accumulate(gaps))
    pools: list[tuple[float, float, int]] = []
    for target, weight, offset in zip(targets, weights, offsets, strict=True):
        mean, heavy, size = target - offset, weight, 1
        while pools and pools[-1][0] > mean:
            other, more, count = pools.pop()
            mean = (mean * heavy + other * more) / (heavy + more)
            heavy, size = heavy + more, size + count
        pools.append((mean, heavy, size))
    means = [mean for mean, _, size in pools for _ in range(size)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]


def _down(
    rows: _Rows, middle: Sequence[float], high: Sequence[float], approach: float
) -> tuple[list[float], list[float]]:
    """The top and the bottom of each row; rows are further apart where links run far across."""
    across = [0.0] * len(rows.members)
    for hop in rows.hops:
        r = rows.row[hop.lower]
        across[r] = max(across[r], abs(middle[hop.lower] + hop.enters - middle[hop.upper] - hop.leaves))
    tops: list[float] = []
    bottoms: list[float] = []
    for r, row in enumerate(rows.members):
        tops.append(bottoms[-1] + _BEND + min(_MOST, _STEEP * across[r]) + approach if r else 0.0)
        bottoms.append(tops[r] + max((high[member] for member in row if member < rows.boxes), default=0.0))
    return tops, bottoms
