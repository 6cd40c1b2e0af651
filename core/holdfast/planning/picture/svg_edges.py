"""The SVG of edges: one smooth line from card to card, coloured if its streams have to agree.

Links that leave a card together share their first stretch, which is drawn once, in the colours of all of them. Must
not decide the route of a line.
"""

from collections.abc import Sequence

from holdfast.planning.picture.pages import CORNER, LinkLane, LinkRoute
from holdfast.planning.picture.parts import PictureEdge, PictureNode, letter
from holdfast.planning.picture.svg_text import COUNT, SET_COLOURS, content, number, rounded, write

CHIP = 16.0
"""Height of the chip with a count, less than the distance of lanes."""
_HEAD = 7.0
_STRANDS, _STRIPE = 3, 9
_DASHES = ("", ' stroke-dasharray="9 4"', ' stroke-dasharray="3 4"')
"""Line styles of agreements that reuse a colour; their marks have another shape too."""
Hop = tuple[LinkLane, LinkLane]


def chip_width(edge: PictureEdge) -> float:
    """Return the width of the count on a link."""
    return max(22.0, COUNT.width(edge.partitions) + 11) if edge.partitions else 0.0


def lines_svg(edges: Sequence[PictureEdge], routes: Sequence[LinkRoute]) -> list[str]:
    """Return all lines: plain ones below coloured ones, arrow heads on top."""
    sets: dict[Hop, set[int]] = {}
    for edge, route in zip(edges, routes, strict=True):
        for hop in _hops(route):
            sets.setdefault(hop, set()).update(edge.agreements)
    bands: list[str] = []
    plain: list[str] = []
    coloured: list[str] = []
    heads: list[str] = []
    drawn: set[Hop] = set()
    for edge, route in zip(edges, routes, strict=True):
        if route.loop:
            plain.append(f'<path d="{_loop(route.lanes[0])}" class="hf-edge"/>')
            heads.append(_head(route.lanes[0].start, route.lanes[0].y + 18, edge, backward=False))
            continue
        for path, indices in _stretches(route, sets, drawn):
            bands += [f'<path d="{path}" class="hf-band hf-set{i % len(SET_COLOURS)}"/>' for i in indices[:1]]
            lines = coloured if indices else plain
            lines += _strands(path, indices, dead=edge.kind == "dead letters")
        end = route.lanes[0] if route.backward else route.lanes[-1]
        heads.append(_head(end.start if route.backward else end.end, end.y, edge, backward=route.backward))
    return [*plain, *bands, *coloured, *heads]


def _hops(route: LinkRoute) -> list[Hop]:
    """The pairs of neighbouring lanes, each with the bend between them."""
    return list(zip(route.lanes, route.lanes[1:], strict=False))


def _stretches(route: LinkRoute, sets: dict[Hop, set[int]], drawn: set[Hop]) -> list[tuple[str, tuple[int, ...]]]:
    """The stretches of a route that are not drawn yet, as paths with the same agreements from end to end."""
    found: list[tuple[str, tuple[int, ...]]] = []
    hops = _hops(route)
    for i, hop in enumerate(hops):
        if hop in drawn:
            continue
        drawn.add(hop)
        indices = tuple(sorted(sets[hop]))
        final = i == len(hops) - 1
        path = _bend(hop, to_end=final)
        # Only first stretches are shared, so the rest of the route is connected.
        if found and found[-1][1] == indices:
            found[-1] = (found[-1][0] + path, indices)
        else:
            found.append((f"M{number(hop[0].start)} {number(hop[0].y)}{path}", indices))
    return found


def _bend(hop: Hop, *, to_end: bool) -> str:
    here, there = hop
    end = number(there.end if to_end else there.start)
    if here.end < here.start or there.end < there.start:
        return _turn(here, there, right=here.start < here.end) + (f"H{end}" if to_end else "")
    path = f"H{number(here.end)}"
    if abs(here.y - there.y) > 1 / 20:
        reach = (there.start - here.end) / 2
        path += (
            f"C{number(here.end + reach)} {number(here.y)} {number(there.start - reach)} {number(there.y)} "
            f"{number(there.start)} {number(there.y)}"
        )
    return f"{path}H{end}"


def _turn(here: LinkLane, there: LinkLane, *, right: bool) -> str:
    """A turn down to a lane that runs the other way, to the next row of the picture."""
    ahead = CORNER if right else -CORNER
    sweep = 1 if right else 0
    arc = f"a{number(CORNER)} {number(CORNER)} 0 0 {sweep}"
    return (
        f"H{number(here.end - ahead)}{arc} {number(ahead)} {number(CORNER)}V{number(there.y - CORNER)}"
        f"{arc} {number(-ahead)} {number(CORNER)}"
    )


def _strands(path: str, indices: tuple[int, ...], *, dead: bool) -> list[str]:
    """One line, striped if it has several agreements."""
    if not indices:
        return [f'<path d="{path}" class="hf-edge{" hf-dead" if dead else ""}"/>']
    if len(indices) == 1:
        lap = indices[0] // len(SET_COLOURS) % len(_DASHES)
        return [f'<path d="{path}" class="hf-strand hf-set{indices[0] % len(SET_COLOURS)}"{_DASHES[lap]}/>']
    shown = indices[:_STRANDS]
    period = _STRIPE * len(shown)
    parts = []
    for i, index in enumerate(shown):
        dashes = (
            "" if not i else f' stroke-dasharray="{_STRIPE * (len(shown) - i)} {period - _STRIPE * (len(shown) - i)}"'
        )
        parts.append(f'<path d="{path}" class="hf-strand hf-set{index % len(SET_COLOURS)}"{dashes}/>')
    return parts


def _head(x: float, y: float, edge: PictureEdge, *, backward: bool) -> str:
    css = f"hf-setfill{edge.agreements[0] % len(SET_COLOURS)}" if edge.agreements else "hf-head"
    back = _HEAD if backward else -_HEAD
    return f'<path d="M{number(x)} {number(y)}l{number(back)} -4v8z" class="{css}"/>'


def _loop(lane: LinkLane) -> str:
    """A link from a card to itself: out on the right, over the top, in on the left."""
    y = lane.y + 18
    above = lane.y - 16
    left, right = lane.start, lane.end
    return (
        f"M{number(right)} {number(y)}c22 0 22 {number(above - y)} 0 {number(above - y)}"
        f"H{number(left)}c-22 0 -22 {number(y - above)} 0 {number(y - above)}"
    )


def chips_svg(edges: Sequence[PictureEdge], routes: Sequence[LinkRoute], names: dict[str, PictureNode]) -> list[str]:
    """Return the counts, each on the horizontal stretch in front of the card that its link enters."""
    parts: list[str] = []
    for edge, route in zip(edges, routes, strict=True):
        if not edge.partitions or route.loop:
            continue
        lane, wide = route.lanes[-1], chip_width(edge)
        right = lane.end - (3 if route.backward else _HEAD + 2)
        bound = f" hf-set{edge.agreements[0] % len(SET_COLOURS)}" if edge.agreements else ""
        css, ink = ("hf-error", ("hf-bad",)) if edge.wrong else (f"hf-chip{bound}", ())
        parts += [
            f"<g><title>{content(_sentence(edge, names))}</title>",
            rounded((right - wide, lane.y - CHIP / 2, wide, CHIP), CHIP / 2, css),
            write(right - wide / 2, lane.y + 3.8, edge.partitions, COUNT, "hf-mid", *ink),
            "</g>",
        ]
    return parts


def _sentence(edge: PictureEdge, names: dict[str, PictureNode]) -> str:
    ends = f"{names[edge.source].name} → {names[edge.target].name}: partitions {edge.partitions}"
    if not edge.agreements:
        return ends
    return f"{ends}; must agree: {', '.join(letter(i) for i in edge.agreements)}"
