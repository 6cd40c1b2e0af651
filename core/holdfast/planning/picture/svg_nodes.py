"""Why: the small marks that tie the graph to the lists below it: letters for agreements, numbers for findings.

The same functions draw them on cards and in the lists, so that a reader finds the same mark again. Colour is never the
only difference: letters and numbers say the same.
"""

from holdfast.planning.picture.layout import BoxPlace
from holdfast.planning.picture.parts import PictureNode, letter
from holdfast.planning.picture.svg_text import BADGE, KEY, SET_COLOURS, number, rounded, write

PILL = 26.0
"""The radius of a pill's ends, over which no mark is put."""
DOT = 8.0
"""Half of a mark."""
_SHOWN = 3
_SQUARE, _DIAMOND = 1, 2
_SHAPES = 3


def agreement_dots(node: PictureNode, place: BoxPlace) -> list[str]:
    """The agreements a node is part of, on its upper left edge."""
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
    """The mark of an agreement: its letter on its colour; one that reuses a colour has another shape."""
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
    """The numbers of what was found at a node, on its upper right edge."""
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
    """Half the width of a badge, which grows with its digits."""
    return max(DOT, BADGE.width(str(n)) / 2 + 4)


def number_badge(n: int, x: float, y: float, *, problem: bool) -> list[str]:
    """The number of a problem in a red circle, of a warning in an amber square."""
    half = half_of(n)
    css, corner = ("hf-errorfill", DOT) if problem else ("hf-warnfill", 4.0)
    return [
        rounded((x - half, y - DOT, 2 * half, 2 * DOT), corner, f"hf-dot {css}"),
        write(x, y + 3.4, str(n), BADGE, "hf-mid"),
    ]
