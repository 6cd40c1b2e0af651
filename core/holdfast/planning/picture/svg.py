"""The plan as one self-contained SVG file, for light and dark pages.

This is the picture to put in a document. All its texts have one font in which every letter is equally wide, so that
their widths are known without the reader's fonts. The same picture always gives the same bytes. No scripts, no external
references, all text escaped.
"""

import textwrap
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise
from xml.sax.saxutils import escape

from holdfast.planning.picture.layout import Box, BoxLink, LinkRoute, PictureLayout, Rectangle, lay_out
from holdfast.planning.picture.parts import SET_COLOURS, Picture, PictureCard, PictureEdge, PictureNote, clean, letter

_LETTER = 0.62 * 11
"""The width of a letter: the largest of the common fonts, so that a text takes at most the room it is given."""
_LINE, _PAD, _MARK, _INDENT, _LID = 16.0, 12.0, 16.0, 30.0, 7.0
_HEADING = "hf-strong hf-heading"
_MARGIN, _HEAD = 28.0, 78.0
_LEAST, _CARD, _KEY, _TITLE, _PAGE = 14, 30, 14, 50, 90
"""In letters: the narrowest and the widest text of a card, the widest key and title, the narrowest page."""
_READABLE = 110
_MARKS_SHOWN, _WARNINGS_SHOWN, _AGREEMENTS_SHOWN = 6, 8, 60
_DASHES = ("", ' stroke-dasharray="9 4"', ' stroke-dasharray="3 4"')
"""Line styles of agreements that reuse a colour."""
_DARK_SETS = ("#4f9ef0", "#2fbf98", "#e597dc", "#f0eca0", "#a8e0fa", "#7a70ea")
_COLOURS = {
    ".hf-picture": ("fill:#17202b", "fill:#e8edf3"),
    ".hf-paper": ("fill:#ffffff;stroke:#d8dee6", "fill:#10151c;stroke:#2c3643"),
    ".hf-step,.hf-chip": ("fill:#ffffff;stroke:#b6c0cc", "fill:#19212b;stroke:#4b596a"),
    ".hf-stream": ("fill:#f1f6fb;stroke:#8fa6be", "fill:#16263a;stroke:#54759a"),
    ".hf-table": ("fill:#f7f4ee;stroke:#b3a78f", "fill:#262219;stroke:#857552"),
    ".hf-error": ("fill:#fff5f4;stroke:#d3322b", "fill:#321716;stroke:#f0625b"),
    ".hf-warn": ("fill:#fffaf0;stroke:#c27c0e", "fill:#2c2210;stroke:#dc9a2e"),
    ".hf-soft": ("fill:#566373", "fill:#9dabbb"),
    ".hf-good": ("fill:#157a3d", "fill:#5bc983"),
    ".hf-bad": ("fill:#b3251f", "fill:#ff8680"),
    ".hf-amber": ("fill:#8f5a06", "fill:#e9b45c"),
    ".hf-badge": ("fill:#ffffff", "fill:#10151c"),
    ".hf-edge": ("stroke:#94a1b0", "stroke:#6b7a8c"),
    ".hf-head": ("fill:#94a1b0", "fill:#6b7a8c"),
    **{
        f".hf-{what}{i}": (f"{how}:{SET_COLOURS[i]}", f"{how}:{dark}")
        for i, dark in enumerate(_DARK_SETS)
        for what, how in (("set", "stroke"), ("mark", "fill"))
    },
}
_FIXED = (
    ".hf-picture{font:11px ui-monospace,SFMono-Regular,Menlo,Consolas,'Liberation Mono','DejaVu Sans Mono',monospace}"
    ".hf-strong,.hf-badge{font-weight:600}.hf-mid{text-anchor:middle}.hf-end{text-anchor:end}"
    ".hf-edge{fill:none;stroke-width:1.5}.hf-bound{stroke-width:2.5}.hf-dead{stroke-dasharray:2 4}"
)
Mark = tuple[str, str]
"""A letter or a number, and the class of its colour."""


def svg_of(picture: Picture) -> str:
    """Return the picture as a standalone SVG document."""
    layout = layout_of(picture)
    title = clipped(picture.app, _TITLE)
    width = max(layout.width, _PAGE * _LETTER)
    colour = "hf-good" if picture.valid else "hf-bad"
    cards = {card.id: card for card in picture.cards}
    routes = list(zip(picture.edges, layout.routes, strict=True))
    # Coloured lines lie above the plain ones with which they share their first stretch.
    routes.sort(key=lambda pair: bool(pair[0].agreements))
    parts = [
        _text(_MARGIN, 40, title, "hf-strong"),
        _text(_MARGIN + (cells(title) + 2) * _LETTER, 40, picture.verdict, f"hf-strong {colour}"),
        _text(_MARGIN, 40 + _LINE, _size(picture), "hf-soft"),
        f'<g transform="translate({_n(_MARGIN + (width - layout.width) / 2)} {_n(_HEAD)})">',
        *(_line(edge, route) for edge, route in routes),
        *(_card(card, rectangle) for card, rectangle in zip(picture.cards, layout.rectangles, strict=True)),
        *(_chip(edge, route, cards) for edge, route in routes if edge.partitions and not route.loop),
        "</g>",
    ]
    y = _HEAD + layout.height
    for text, css, mark in _below(picture, min(_READABLE, int(width / _LETTER))):
        y += _LINE
        parts += _mark(*mark, _MARGIN, y)[0] if mark else []
        parts.append(_text(_MARGIN + (_INDENT if css != _HEADING else 0), y, text, css))
    return _page(picture, parts, width + 2 * _MARGIN, y + _MARGIN)


def layout_of(picture: Picture, labels: Sequence[str] = ()) -> PictureLayout:
    """Return the layout of the cards and lines of a picture; `labels`: one for each line, above its counts."""
    index = {card.id: i for i, card in enumerate(picture.cards)}
    links = [
        BoxLink(index[edge.source], index[edge.target], max(_chip_width(edge.partitions), _chip_width(label)))
        for edge, label in zip(picture.edges, labels or [""] * len(picture.edges), strict=True)
    ]
    return lay_out([_box(card) for card in picture.cards], links, _LINE if any(labels) else 0.0)


def cells(text: str) -> int:
    """Return how many letters wide a text is at most: those of East Asia take two."""
    return sum(2 if unicodedata.east_asian_width(char) in ("W", "F") else 1 for char in text)


def clipped(text: str, most: int) -> str:
    """Return as much of a text as fits into so many letters, with an ellipsis if it is cut."""
    shown = clean(text)
    if cells(shown) <= most:
        return shown
    end = 0
    while cells(shown[: end + 1]) < most:
        end += 1
    return shown[:end].rstrip() + "…"


def wrapped(text: str, most: int) -> list[str]:
    """Return a text in lines of at most so many letters; a longer word is cut."""
    shown = clean(text)
    return textwrap.wrap(shown, most if shown.isascii() else most // 2, break_on_hyphens=False)


def card_head(card: PictureCard) -> tuple[str, str]:
    """Return the first line of a card: what it is, and its key, empty if there is none."""
    return card.tag.upper(), f"key {clipped(card.key, _KEY)}" if card.key else ""


def card_lines(card: PictureCard) -> tuple[str, ...]:
    """Return the lines of a card below the first: its name, then its details."""
    return tuple(clipped(line, _CARD) for line in (card.name, *card.details))


def card_title(card: PictureCard) -> str:
    """Return all that a card says and has no room for."""
    facts = [f"{card.tag} {card.name}", *card.details, f"key {card.key}" if card.key else "", card.more]
    return clean("; ".join(fact for fact in facts if fact))


def _texts(card: PictureCard) -> list[tuple[str, str]]:
    """The lines of a card below the first, with their classes."""
    name, *details = card_lines(card)
    return [(name, "hf-strong"), *((line, "hf-soft") for line in details)]


def _marks(card: PictureCard) -> list[Mark]:
    """The letters of a card's agreements, and the numbers of its problems and warnings."""
    marks = [_letter(i) for i in card.agreements]
    marks += [(str(n), "hf-bad") for n in card.problems] + [(str(n), "hf-amber") for n in card.warnings]
    more = len(marks) - _MARKS_SHOWN
    return [*marks[:_MARKS_SHOWN], (f"+{more}", "hf-soft")] if more > 0 else marks


def _letter(index: int) -> Mark:
    return letter(index), f"hf-mark{index % len(SET_COLOURS)}"


def _mark(text: str, css: str, x: float, y: float) -> tuple[list[str], float]:
    """A mark beside a text with its baseline at `y`; and where the next one goes."""
    wide = max(_MARK, cells(text) * _LETTER + 8)
    return [_rect(x, y - 12, wide, _MARK, 8, css), _text(x + wide / 2, y, text, "hf-badge hf-mid")], x + wide + 3


def _box(card: PictureCard) -> Box:
    """The size of a card."""
    first = cells(card.tag) + (cells(clipped(card.key, _KEY)) + 6 if card.key else 0)
    wide = max(_LEAST, first, *(cells(text) for text, _ in _texts(card))) * _LETTER + 2 * _PAD
    rows = 2 + len(card.details) + (1 if _marks(card) else 0)
    return Box(max(wide, _marks_width(card)), rows * _LINE + 14 + (_LID if card.kind == "table" else 0))


def _marks_width(card: PictureCard) -> float:
    return 2 * _PAD + sum(_mark(*mark, 0, 0)[1] for mark in _marks(card))


def _card(card: PictureCard, rectangle: Rectangle) -> str:
    """A card, with all that it does not show as a tooltip."""
    x, y = rectangle.x + _PAD, rectangle.y + 18 + (_LID if card.kind == "table" else 0)
    tag, key = card_head(card)
    parts = [f"<g><title>{_escaped(card_title(card))}</title>", _shape(card, rectangle)]
    parts.append(_text(x, y, tag, "hf-soft"))
    if key:
        parts.append(_text(rectangle.right - _PAD, y, key, "hf-soft hf-end"))
    for text, css in _texts(card):
        y += _LINE
        parts.append(_text(x, y, text, css))
    for mark in _marks(card):
        drawn, x = _mark(*mark, x, y + _LINE + 1)
        parts += drawn
    return "\n".join([*parts, "</g>"])


def _shape(card: PictureCard, rectangle: Rectangle) -> str:
    """Streams are pills, tables cylinders, steps boxes."""
    css = "hf-error" if card.problems else "hf-warn" if card.warnings else f"hf-{card.kind}"
    if card.kind != "table":
        return _rect(
            rectangle.x, rectangle.y, rectangle.width, rectangle.height, 22 if card.kind == "stream" else 5, css
        )
    left, right, high, low = _n(rectangle.x), _n(rectangle.right), _n(rectangle.y + _LID), _n(rectangle.bottom - _LID)
    arc = f"A{_n(rectangle.width / 2)} {_n(_LID)} 0 0"
    body = f"M{left} {high}{arc} 1 {right} {high}V{low}{arc} 1 {left} {low}ZM{left} {high}{arc} 0 {right} {high}"
    return f'<path d="{body}" class="{css}"/>'


def _line(edge: PictureEdge, route: LinkRoute) -> str:
    """The line of an edge with its arrow head, in the colour of what has to agree along it."""
    css, head, dash = ("hf-edge hf-dead" if edge.kind == "dead letters" else "hf-edge"), "hf-head", ""
    if edge.agreements:
        lap, colour = divmod(edge.agreements[0], len(SET_COLOURS))
        css, head, dash = f"hf-edge hf-bound hf-set{colour}", f"hf-mark{colour}", _DASHES[lap % len(_DASHES)]
    path, tip = line_paths(route)
    return f'<path d="{path}" class="{css}"{dash}/><path d="{tip}" class="{head}"/>'


def line_paths(route: LinkRoute) -> tuple[str, str]:
    """Return the line of a route and its arrow head, as data of SVG paths."""
    first, last = route.lanes[0], route.lanes[-1]
    if route.loop:
        y, down = first.top + 12, first.bottom - first.top - 24
        path = f"M{_n(first.x)} {_n(y)}c26 0 26 {_n(down)} 0 {_n(down)}"
        return path, f"M{_n(first.x)} {_n(y + down)}l7 -4v8z"
    path = f"M{_n(first.x)} {_n(first.top)}V{_n(first.bottom)}"
    for above, below in pairwise(route.lanes):
        middle = _n((above.bottom + below.top) / 2)
        path += f"C{_n(above.x)} {middle} {_n(below.x)} {middle} {_n(below.x)} {_n(below.top)}V{_n(below.bottom)}"
    if route.upward:
        return path, f"M{_n(first.x)} {_n(first.top)}l-4 7h8z"
    return path, f"M{_n(last.x)} {_n(last.bottom)}l-4 -7h8z"


def _chip_width(text: str) -> float:
    return cells(text) * _LETTER + 12 if text else 0.0


def _chip(edge: PictureEdge, route: LinkRoute, cards: dict[str, PictureCard]) -> str:
    """The counts on an edge, above the card that it enters."""
    lane, wide = route.lanes[-1], _chip_width(edge.partitions)
    title = f"{cards[edge.source].name} → {cards[edge.target].name}: partitions {edge.partitions}"
    if edge.agreements:
        title += f"; must agree: {', '.join(map(letter, edge.agreements))}"
    bound = f" hf-set{edge.agreements[0] % len(SET_COLOURS)}" if edge.agreements else ""
    chip = _rect(lane.x - wide / 2, lane.bottom - 27, wide, _LINE, 8, "hf-error" if edge.wrong else f"hf-chip{bound}")
    text = _text(lane.x, lane.bottom - 15, edge.partitions, "hf-mid hf-bad" if edge.wrong else "hf-mid")
    return f"<g><title>{_escaped(title)}</title>{chip}{text}</g>"


def _below(picture: Picture, most: int) -> Iterator[tuple[str, str, Mark | None]]:
    """The lines under the graph, with their classes and marks; agreements and warnings beyond a page become a count."""
    if picture.agreements:
        yield "", "", None
        yield "Must agree in partition count", _HEADING, None
    for i, agreement in enumerate(picture.agreements[:_AGREEMENTS_SHOWN]):
        asked_by = ", ".join(f"{verb} {name}" for name, verb in agreement.steps)
        line = clipped(f"{agreement.partitions}  {asked_by}: {', '.join(agreement.streams)}", most)
        yield line, "" if agreement.kept else "hf-bad", _letter(i)
    if (more := len(picture.agreements) - _AGREEMENTS_SHOWN) > 0:
        yield f"and {more} more", "", None
    yield from _notes("Problems", picture.problems, "hf-bad", most)
    yield from _notes("Warnings", picture.warnings[:_WARNINGS_SHOWN], "hf-amber", most)
    if (more := len(picture.warnings) - _WARNINGS_SHOWN) > 0:
        yield f"and {more} more warning{'' if more == 1 else 's'}", "hf-amber", None


def _notes(heading: str, notes: Sequence[PictureNote], css: str, most: int) -> Iterator[tuple[str, str, Mark | None]]:
    if notes:
        yield "", "", None
        yield heading, _HEADING, None
    for note in notes:
        title = f"{note.reason} at {note.subject}" if note.subject else note.reason
        yield clipped(title, most), "hf-strong", (str(note.number), css)
        for line in wrapped(note.message, most):
            yield line, "hf-soft", None
        for line in wrapped(f"Way out: {note.repair}", most) if note.repair else ():
            yield line, "hf-good", None


def _size(picture: Picture) -> str:
    """The size of the plan: `16 tasks · 4 streams · 6 steps · 1 table`."""
    kinds = [card.kind for card in picture.cards]
    made = sum(card.makes_stream for card in picture.cards)
    counts = [
        (picture.tasks, "task"),
        (kinds.count("stream") + made, "stream"),
        (kinds.count("step"), "step"),
        (kinds.count("table"), "table"),
    ]
    return " · ".join(f"{n} {what}{'' if n == 1 else 's'}" for n, what in counts if n)


def _page(picture: Picture, parts: list[str], width: float, height: float) -> str:
    # Ids are per app, so that several pictures can stand in one page.
    title, described = (_escaped(f"holdfast-{picture.app}-{part}") for part in ("title", "desc"))
    names = {card.id: card.name for card in picture.cards}
    flows = "; ".join(f"{names[edge.source]} to {names[edge.target]}" for edge in picture.edges)
    problem_text = "".join(
        f" {note.reason} at {note.subject or picture.app}: {note.message}." for note in picture.problems
    )
    description = f"Plan of {picture.app}, {_size(picture)}. Rows flow: {flows}.{problem_text}"
    light, dark = ("".join(f"{what}{{{look[i]}}}" for what, look in _COLOURS.items()) for i in (0, 1))
    wide, high = _n(width), _n(height)
    size = f'width="{wide}" height="{high}" viewBox="0 0 {wide} {high}"'
    xmlns = 'xmlns="http://www.w3.org/2000/svg"'
    head = [
        f'<svg {xmlns} {size} class="hf-picture" role="img" aria-labelledby="{title} {described}">',
        f'<title id="{title}">{_escaped(f"{picture.app}: {picture.verdict}")}</title>',
        f'<desc id="{described}">{_escaped(description)}</desc>',
        f"<style>{light}{_FIXED}@media (prefers-color-scheme:dark){{{dark}}}</style>",
        _rect(0.5, 0.5, width - 1, height - 1, 12, "hf-paper"),
    ]
    return "\n".join([*head, *parts, "</svg>"]) + "\n"


def _n(value: float) -> str:
    """A coordinate: at most one digit after the point, the same on every machine."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def _escaped(text: str) -> str:
    """Any text, to stand between tags or as the value of an attribute."""
    return escape(clean(text), {'"': "&quot;", "'": "&#39;"})


def _text(x: float, y: float, text: str, css: str) -> str:
    return f'<text x="{_n(x)}" y="{_n(y)}" class="{css}">{_escaped(text)}</text>' if text else ""


def _rect(x: float, y: float, width: float, height: float, corner: float, css: str) -> str:
    size = f'width="{_n(width)}" height="{_n(height)}" rx="{_n(corner)}"'
    return f'<rect x="{_n(x)}" y="{_n(y)}" {size} class="{css}"/>'
