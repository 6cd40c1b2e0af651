"""The geometry of a picture: from sizes of boxes and links between them to places and routes.

`lay_out` lists the steps of a layered layout, left to right. All boxes of a column are as wide as its widest, each link
enters its box on its own lane, and a lane has room for a label in front of the box. Must not know plans, colours or
formats.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from holdfast.planning.picture.layers import BoxColumns, columns_of, reduce_crossings
from holdfast.planning.picture.pages import BoxHeights, LinkLane, LinkRoute, folded, route_of
from holdfast.planning.picture.placing import heights_of

LANE = 20.0
"""Distance between links that enter one box, with room for a label in front of each."""
_LOOP = 24.0
_APART = 40.0
_WAYPOINT = 2.0
_ROW = 900.0


@dataclass(frozen=True, slots=True)
class Box:
    """The size of a box that is to be placed."""

    width: float
    height: float


@dataclass(frozen=True, slots=True)
class BoxLink:
    """A link between two boxes, by their indices; `label` is the width of its label."""

    source: int
    target: int
    label: float = 0.0


@dataclass(frozen=True, slots=True)
class BoxPlace:
    """The place of a box."""

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

    @property
    def middle(self) -> float:
        """The y halfway down."""
        return self.y + self.height / 2


@dataclass(frozen=True, slots=True)
class PictureLayout:
    """All places and routes, in the order of the given boxes and links."""

    places: tuple[BoxPlace, ...]
    routes: tuple[LinkRoute, ...]
    width: float
    height: float


def lay_out(boxes: Sequence[Box], links: Sequence[BoxLink]) -> PictureLayout:
    """Return places for all boxes and routes for all links; each connected part by itself, the largest first."""
    places: list[BoxPlace] = [BoxPlace(0, 0, box.width, box.height) for box in boxes]
    routes: list[LinkRoute] = [LinkRoute(()) for _ in links]
    parts = _parts(len(boxes), links)
    width = top = 0.0
    for part in (part for part in parts if part.links):
        index = {box: i for i, box in enumerate(part.boxes)}
        inner = [replace(links[i], source=index[links[i].source], target=index[links[i].target]) for i in part.links]
        inside = _connected([boxes[i] for i in part.boxes], inner)
        for i, place in zip(part.boxes, inside.places, strict=True):
            places[i] = replace(place, y=place.y + top)
        for i, route in zip(part.links, inside.routes, strict=True):
            routes[i] = replace(route, lanes=tuple(replace(lane, y=lane.y + top) for lane in route.lanes))
        width = max(width, inside.width)
        top += inside.height + _APART
    alone = [part.boxes[0] for part in parts if not part.links]
    return _in_rows(alone, PictureLayout(tuple(places), tuple(routes), width, top))


@dataclass(frozen=True, slots=True)
class _Part:
    """A connected part of the graph: boxes and links, by their indices."""

    boxes: tuple[int, ...]
    links: tuple[int, ...]


def _parts(count: int, links: Sequence[BoxLink]) -> list[_Part]:
    beside: list[list[int]] = [[] for _ in range(count)]
    for link in links:
        beside[link.source].append(link.target)
        beside[link.target].append(link.source)
    part_of = [-1] * count
    members: list[list[int]] = []
    for start in range(count):
        if part_of[start] >= 0:
            continue
        found = [start]
        part_of[start] = len(members)
        for box in found:
            for other in beside[box]:
                if part_of[other] < 0:
                    part_of[other] = len(members)
                    found.append(other)
        members.append(sorted(found))
    inside: dict[int, list[int]] = defaultdict(list)
    for i, link in enumerate(links):
        inside[part_of[link.source]].append(i)
    parts = [_Part(tuple(boxes), tuple(inside[number])) for number, boxes in enumerate(members)]
    return sorted(parts, key=lambda part: (-len(part.boxes), part.boxes))


def _in_rows(alone: Sequence[int], layout: PictureLayout) -> PictureLayout:
    """Boxes without any link, in rows below the others."""
    places = list(layout.places)
    room = max(layout.width, _ROW)
    x, y, row, width = 0.0, layout.height, 0.0, layout.width
    for i in alone:
        box = places[i]
        if x and x + box.width > room:
            x, y, row = 0.0, y + row + _APART, 0.0
        places[i] = replace(box, x=x, y=y)
        x, row = x + box.width + _APART, max(row, box.height)
        width = max(width, places[i].right)
    height = y + row if alone else max(layout.height - _APART, 0.0)
    return replace(layout, places=tuple(places), width=width, height=height)


def _connected(boxes: Sequence[Box], links: Sequence[BoxLink]) -> PictureLayout:
    columns = columns_of(len(boxes), [(link.source, link.target) for link in links])
    reduce_crossings(columns)
    entries = _set_ports(columns)
    loops = {link.source for link in links if link.source == link.target}
    high = [max(box.height, entries[i] * LANE + 8) for i, box in enumerate(boxes)]
    waypoints = len(columns.column) - len(boxes)
    tall = [h + (2 * _LOOP if i in loops else 0) for i, h in enumerate(high)] + [_WAYPOINT] * waypoints
    middle = heights_of(columns, tall)
    labels = [link.label for link in links]
    page = folded(columns, [box.width for box in boxes], labels, BoxHeights(middle, tall))
    places = tuple(
        BoxPlace(page.left[c], page.y[i] - high[i] / 2, page.right[c] - page.left[c], high[i])
        for i, c in enumerate(columns.column[: len(boxes)])
    )
    routes = tuple(
        route_of(columns, chain, page, backward=back)
        if chain
        else LinkRoute((LinkLane(places[link.source].x, places[link.source].right, places[link.source].y),), loop=True)
        for link, chain, back in zip(links, columns.chains, columns.backward, strict=True)
    )
    return PictureLayout(places, routes, page.width, page.height)


def _set_ports(columns: BoxColumns) -> list[int]:
    """Set where links enter and leave boxes, in the order of their other ends; return the lanes each box needs."""
    place = {index: i for column in columns.members for i, index in enumerate(column)}
    into: dict[int, list[int]] = defaultdict(list)
    out: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for i, (chain, back) in enumerate(zip(columns.chains, columns.backward, strict=True)):
        if chain:
            into[columns.segments[chain[-1]].right].append(chain[-1])
            # All links along the flow leave at one port in the middle; each link against the flow has its own port.
            out[columns.segments[chain[0]].left][i if back else -1].append(chain[0])
    needed = [0] * columns.boxes
    for box, ends in into.items():
        ends.sort(key=lambda segment: (place[columns.segments[segment].left], segment))
        for i, segment in enumerate(ends):
            columns.segments[segment].enters = (i - (len(ends) - 1) / 2) * LANE
        needed[box] = len(ends)
    for box, ports in out.items():
        means = {
            port: sum(place[columns.segments[s].right] for s in starts) / len(starts) for port, starts in ports.items()
        }
        order = sorted(ports, key=lambda port: (means[port], port))
        centre = order.index(-1) if -1 in ports else (len(order) - 1) / 2
        for i, port in enumerate(order):
            for segment in ports[port]:
                columns.segments[segment].leaves = (i - centre) * LANE
        needed[box] = max(needed[box], 2 * len(ports) - 1)
    return needed
