"""The SVG of streams, steps and tables as cards, and the marks that tie them to the lists: letters and numbers.

Streams are pills, tables cylinders, steps boxes; a step that makes a stream is a box with the end of a pill. The same
functions draw marks on cards and in the lists, so that both look the same; colour is never the only difference. Must
not place anything: it measures cards and draws them at given places.
"""

from dataclasses import dataclass

from holdfast.planning.picture.layout import Box, BoxPlace
from holdfast.planning.picture.parts import DetailLine, PictureNode, letter
from holdfast.planning.picture.svg_text import (
    BADGE,
    CODE,
    DETAIL,
    KEY,
    NAME,
    SET_COLOURS,
    TAG,
    Style,
    content,
    number,
    rounded,
    write,
)
from holdfast.planning.picture.text import clean

PILL = 26.0
"""The radius of a pill's ends, where no mark is placed."""
DOT = 8.0
"""Half the size of a mark."""
_SHOWN = 3
_SQUARE, _DIAMOND = 1, 2
_SHAPES = 3


def agreement_dots(node: PictureNode, place: BoxPlace) -> list[str]:
    """Return the marks of a node's agreements, on its upper left edge."""
    shown = node.agreements[:_SHOWN]
    parts: list[str] = []
    x = place.x + (PILL if node.kind == "stream" else 16)
    for index in shown:
        parts += agreement_dot(index, x, place.y)
        x += 2 * DOT + 2
    if len(node.agreements) > len(shown):
        parts.append(write(x - 6, place.y - 3, f"+{len(node.agreements) - len(shown)}", KEY))
    return parts


def agreement_dot(index: int, x: float, y: float) -> list[str]:
    """Return the mark of an agreement: its letter on its colour; one that reuses a colour has another shape."""
    css = f"hf-dot hf-setfill{index % len(SET_COLOURS)}"
    shape = index // len(SET_COLOURS) % _SHAPES
    if shape == _SQUARE:
        mark = rounded((x - 7.5, y - 7.5, 15, 15), 2.5, css)
    elif shape == _DIAMOND:
        mark = f'<path d="M{number(x)} {number(y - 10)}l10 10l-10 10l-10 -10z" class="{css}"/>'
    else:
        mark = f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(DOT)}" class="{css}"/>'
    return [mark, write(x, y + 3.4, letter(index), BADGE, "hf-mid")]


def number_badges(node: PictureNode, place: BoxPlace) -> list[str]:
    """Return the numbers of a node's problems and warnings, on its upper right edge."""
    x = place.right - (PILL if node.kind == "stream" else 16)
    found = [(n, True) for n in node.problems] + [(n, False) for n in node.warnings]
    parts: list[str] = []
    if len(found) > _SHOWN:
        x -= KEY.width(more := f"+{len(found) - _SHOWN}")
        parts.append(write(x + 10, place.y - 3, more, KEY))
    for n, problem in reversed(found[:_SHOWN]):
        parts += number_badge(n, x, place.y, problem=problem)
        x -= 2 * half_of(n) + 2
    return parts


def half_of(n: int) -> float:
    """Return half the width of a badge, which grows with its digits."""
    return max(DOT, BADGE.width(str(n)) / 2 + 4)


def number_badge(n: int, x: float, y: float, *, problem: bool) -> list[str]:
    """Return the badge with a number: a red circle for a problem, an amber square for a warning."""
    half = half_of(n)
    css, corner = ("hf-errorfill", DOT) if problem else ("hf-warnfill", 4.0)
    return [
        rounded((x - half, y - DOT, 2 * half, 2 * DOT), corner, f"hf-dot {css}"),
        write(x, y + 3.4, str(n), BADGE, "hf-mid"),
    ]


_TAG_OF_VERB = {
    "filter": "rows", "select": "rows", "merge": "rows", "apply": "rows",
    "process": "keyed", "deduplicate": "keyed", "aggregate": "keyed",
    "join": "meets", "lookup": "meets",
    "repartition": "moves", "broadcast": "moves",
    "to": "data", "toTable": "table",
}  # fmt: skip
_ROOM, _NAME_ROOM, _KEY_ROOM, _LEAST = 184.0, 192.0, 84.0, 104.0
_TOP, _TAG_ROW, _NAME_ROW, _LINE_ROW, _BOTTOM = 9.0, 15.0, 20.0, 15.0, 8.0
_LID, _CORNER = 7.0, 7.0


@dataclass(frozen=True, slots=True)
class _Inset:
    left: float
    right: float
    top: float


def _inset(node: PictureNode) -> _Inset:
    if node.kind == "stream":
        return _Inset(20, 20, 0)
    if node.kind == "table":
        return _Inset(12, 12, _LID)
    return _Inset(12, 20 if node.makes_stream else 12, 0)


def box_of(node: PictureNode) -> Box:
    """Return the size of a node's card."""
    inset = _inset(node)
    first = TAG.width(_tag(node)) + 10 + (KEY.width(_key(node)) + 26 if node.key else 0)
    lines = max((_style(line).width(_shown(line)) for line in node.details), default=0.0)
    wide = max(_LEAST - inset.left - inset.right, first, NAME.width(_name(node)), lines)
    return Box(wide + inset.left + inset.right, _tall(node) + inset.top)


def _tall(node: PictureNode) -> float:
    return _TOP + _TAG_ROW + _NAME_ROW + _LINE_ROW * len(node.details) + _BOTTOM


def _tag(node: PictureNode) -> str:
    return "TO TABLE" if node.tag == "toTable" else node.tag.upper()


def _key(node: PictureNode) -> str:
    return KEY.fit(clean(node.key), _KEY_ROOM)


def _name(node: PictureNode) -> str:
    return NAME.fit(clean(node.name), _NAME_ROOM)


def _style(line: DetailLine) -> Style:
    return CODE if line.code else DETAIL


def _shown(line: DetailLine) -> str:
    return _style(line).fit(clean(line.text), _ROOM)


def node_svg(node: PictureNode, place: BoxPlace) -> list[str]:
    """Return a node's card with its badges."""
    inset = _inset(node)
    x = place.x + inset.left
    y = place.y + inset.top + max(0.0, (place.height - inset.top - _tall(node)) / 2) + _TOP
    kind = "table" if node.kind == "table" else "data" if node.kind == "stream" else _TAG_OF_VERB.get(node.tag, "rows")
    wide = TAG.width(_tag(node)) + 10
    parts = [
        "<g>",
        f"<title>{content(_tooltip(node))}</title>",
        *_shape(node, place),
        rounded((x - 1, y, wide, 14), 4, f"hf-tag-{kind}"),
        write(x - 1 + wide / 2, y + 10.2, _tag(node), TAG, f"hf-tagtext-{kind}", "hf-mid"),
    ]
    if node.key:
        right = place.right - inset.right
        parts.append(write(right, y + 10.5, _key(node), KEY, "hf-end"))
        parts.append(_key_glyph(right - KEY.width(_key(node)) - 13, y + 7))
    y += _TAG_ROW + 14
    parts.append(write(x, y, _name(node), NAME))
    for line in node.details:
        y += _LINE_ROW
        parts.append(write(x, y + 1, _shown(line), _style(line)))
    return [*parts, *agreement_dots(node, place), *number_badges(node, place), "</g>"]


def _tooltip(node: PictureNode) -> str:
    count = node.partitions
    facts = [f"{node.tag} {node.name}", *(line.text for line in node.details), node.key_in_words]
    if count is not None:
        facts.append(f"{count.text} partitions: {count.how}")
    return "; ".join(fact for fact in facts if fact)


def _shape(node: PictureNode, place: BoxPlace) -> list[str]:
    css = "hf-error" if node.problems else "hf-warn" if node.warnings else f"hf-{node.kind}"
    width = "2" if node.problems or node.warnings else "1.2"
    x, y, right = number(place.x), number(place.y), number(place.right)
    if node.kind == "table":
        across, lid = number(place.width / 2), number(_LID)
        low, high = number(place.bottom - _LID), number(place.y + _LID)
        body = f"M{x} {high}A{across} {lid} 0 0 1 {right} {high}V{low}A{across} {lid} 0 0 1 {x} {low}Z"
        rim = f"M{x} {high}A{across} {lid} 0 0 0 {right} {high}"
        return [
            f'<path d="{body}" class="{css}" stroke-width="{width}"/>',
            f'<path d="{rim}" class="{css}" fill-opacity="0" stroke-width="{width}"/>',
        ]
    round_end = min(PILL, place.height / 2)
    near = round_end if node.kind == "stream" else _CORNER
    far = round_end if node.kind == "stream" or node.makes_stream else _CORNER
    path = (
        f"M{number(place.x + near)} {y}H{number(place.right - far)}{_turn(far, far, far)}V{number(place.bottom - far)}"
        f"{_turn(far, -far, far)}H{number(place.x + near)}{_turn(near, -near, -near)}V{number(place.y + near)}"
        f"{_turn(near, near, -near)}Z"
    )
    return [f'<path d="{path}" class="{css}" stroke-width="{width}"/>']


def _turn(radius: float, right: float, down: float) -> str:
    """A quarter of a circle, clockwise."""
    return f"a{number(radius)} {number(radius)} 0 0 1 {number(right)} {number(down)}"


def _key_glyph(x: float, y: float) -> str:
    """A small key, drawn because not every font has one."""
    level = number(y)
    return (
        f'<g class="hf-glyph" stroke-width="1.2"><circle cx="{number(x + 2.5)}" cy="{level}" r="2.4"/>'
        f'<path d="M{number(x + 5)} {level}H{number(x + 10)}M{number(x + 8.6)} {level}v2.4"/></g>'
    )
