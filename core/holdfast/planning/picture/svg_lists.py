"""The SVG around the graph: the title with the verdict above it, agreements and findings below it.

Must not leave a problem out; warnings beyond a handful become a count.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.planning.picture.parts import Agreement, Picture, PictureNote
from holdfast.planning.picture.svg_nodes import agreement_dot, half_of, number_badge
from holdfast.planning.picture.svg_text import BODY, COUNT, HEADING, REASON, TITLE, content, rounded, write, write_pair
from holdfast.planning.picture.text import clean, wrapped

TITLE_HEIGHT = 46.0
"""Room for the title above the graph."""
_ENTRY_ROW, _LINE, _LETTER, _GUTTER, _AFTER_NOTE = 26.0, 17.0, 26.0, 32.0, 10.0
_READABLE, _TWO_COLUMNS, _ONE_COLUMN = 900.0, 880.0, 3
_WARNINGS_SHOWN, _AGREEMENTS_SHOWN = 8, 60
_FEW, _LIST_ENTRY = 4, 420.0


@dataclass(frozen=True, slots=True)
class Block:
    """Drawn lines and their height."""

    parts: list[str]
    height: float


def title_svg(picture: Picture, x: float, y: float) -> list[str]:
    """Return the title: name, verdict and size, on one line."""
    colour = "good" if picture.valid else "bad"
    name = TITLE.fit(picture.app, 420)
    at = x + TITLE.width(name) + 12
    wide = HEADING.width(picture.verdict) + 20
    return [
        write(x, y + 19, name, TITLE),
        rounded((at, y + 2, wide, 22), 11, f"hf-{colour}fill"),
        write(at + wide / 2, y + 17, picture.verdict, HEADING, "hf-mid", f"hf-{colour}"),
        write(at + wide + 14, y + 17, size_of(picture), BODY),
    ]


def title_width(picture: Picture) -> float:
    """Return the width of the title."""
    name = TITLE.width(TITLE.fit(picture.app, 420))
    return name + HEADING.width(picture.verdict) + 46 + BODY.width(size_of(picture))


def size_of(picture: Picture) -> str:
    """Return the size of the plan: `16 tasks · 4 streams · 6 steps · 1 table`."""
    kinds = [node.kind for node in picture.nodes]
    made = sum(node.makes_stream for node in picture.nodes)
    counts = [
        (picture.tasks, "task"),
        (kinds.count("stream") + made, "stream"),
        (kinds.count("step"), "step"),
        (kinds.count("table"), "table"),
    ]
    return " · ".join(f"{n} {what}{'' if n == 1 else 's'}" for n, what in counts if n)


def agreements_svg(agreements: Sequence[Agreement], x: float, y: float, width: float) -> Block:
    """Return the legend of letters and colours, in as many columns as fit."""
    if not agreements:
        return Block([], 0)
    parts = [write(x, y + 12, "Must agree in partition count", HEADING)]
    shown = agreements[:_AGREEMENTS_SHOWN]
    entry = min(width, max(_entry_width(one) for one in shown), _LIST_ENTRY if len(shown) > _FEW else width)
    columns = max(1, int((width + _GUTTER) // (entry + _GUTTER)))
    rows = -(-len(shown) // columns)
    for i, one in enumerate(shown):
        left, top = x + i // rows * (entry + _GUTTER), y + 24 + i % rows * _ENTRY_ROW
        parts += _agreement(i, one, left, top, entry)
    height = 24 + rows * _ENTRY_ROW
    if len(agreements) > len(shown):
        parts.append(write(x, y + height + 12, f"and {len(agreements) - len(shown)} more", BODY))
        height += _LINE
    return Block(parts, height)


def _asked_by(one: Agreement) -> str:
    return ", ".join(f"{verb} {name}" for name, verb in one.steps)


def _count_width(one: Agreement) -> float:
    return max(22.0, COUNT.width(one.partitions) + 11)


def _entry_width(one: Agreement) -> float:
    texts = BODY.width(", ".join(one.streams)) + REASON.width(_asked_by(one))
    return _LETTER + _count_width(one) + 8 + texts + 12


def _agreement(index: int, one: Agreement, x: float, y: float, entry: float) -> list[str]:
    wide = _count_width(one)
    room = entry - _LETTER - wide - 18
    asked_by = REASON.fit(_asked_by(one), max(room / 2, room - BODY.width(", ".join(one.streams))))
    streams = BODY.fit(", ".join(one.streams), room - REASON.width(asked_by))
    css, text = ("hf-chip", ()) if one.kept else ("hf-error", ("hf-bad",))
    at = x + _LETTER
    return [
        f"<g><title>{content(_asked_by(one) + ': ' + ', '.join(one.streams))}</title>",
        *agreement_dot(index, x + 9, y + 9),
        rounded((at, y + 1, wide, 16), 8, css),
        write(at + wide / 2, y + 12.8, one.partitions, COUNT, "hf-mid", *text),
        write_pair(at + wide + 8, y + 13, (asked_by, REASON), (streams, BODY), 8),
        "</g>",
    ]


def problems_svg(notes: Sequence[PictureNote], x: float, y: float, width: float) -> Block:
    """Return all problems with their numbers."""
    return _notes("Problems", notes, x, y, width)


def warnings_svg(notes: Sequence[PictureNote], x: float, y: float, width: float) -> Block:
    """Return the first warnings, and how many more there are."""
    block = _notes("Warnings", notes[:_WARNINGS_SHOWN], x, y, width, problem=False)
    rest = len(notes) - _WARNINGS_SHOWN
    if rest <= 0:
        return block
    more = write(x, y + block.height + 16, f"and {rest} more warning{'' if rest == 1 else 's'}", BODY, "hf-amber")
    return Block([*block.parts, more], block.height + 10 + _LINE)


def _notes(
    heading: str, notes: Sequence[PictureNote], x: float, y: float, width: float, *, problem: bool = True
) -> Block:
    if not notes:
        return Block([], 0)
    columns = 2 if width >= _TWO_COLUMNS and len(notes) > _ONE_COLUMN else 1
    room = min(_READABLE, (width - _GUTTER * (columns - 1)) / columns)
    text_at = max(_LETTER + 4, max(2 * half_of(note.number) for note in notes) + 12)
    bodies = [_body(note, room - text_at) for note in notes]
    heights = [_LINE * (1 + len(body)) + _AFTER_NOTE for body in bodies]
    parts = [write(x, y + 12, heading, HEADING, "hf-bad" if problem else "hf-amber")]
    left, top, lowest = x, y + 26, 0.0
    for i, (note, body) in enumerate(zip(notes, bodies, strict=True)):
        # The first column is the longer one; the remaining notes are in the second.
        if left == x and columns > 1 and sum(heights[:i]) >= sum(heights) / 2:
            left, top = x + room + _GUTTER, y + 26
        parts += _note(note, body, (left, top, room, text_at), problem=problem)
        top += heights[i]
        lowest = max(lowest, top)
    return Block(parts, lowest - y - _AFTER_NOTE)


def _note(
    note: PictureNote, body: list[tuple[str, str]], at: tuple[float, float, float, float], *, problem: bool
) -> list[str]:
    left, top, room, text_at = at
    half = half_of(note.number)
    reason = REASON.fit(note.reason, room / 2)
    place = BODY.fit(f"at {note.place}" if note.place else "", room - text_at - REASON.width(reason) - 10)
    parts = [
        *number_badge(note.number, left + half + 1, top + 8, problem=problem),
        write_pair(left + text_at, top + 12, (reason, REASON), (place, BODY), 6),
    ]
    for i, (line, css) in enumerate(body, start=1):
        parts.append(write(left + text_at, top + 12 + i * _LINE, line, BODY, *([css] if css else [])))
    return parts


def _body(note: PictureNote, room: float) -> list[tuple[str, str]]:
    """The lines of a note and their colours."""
    lines = [(line, "") for line in wrapped(clean(note.message), room, BODY.size)]
    if note.repair:
        lines += [(line, "hf-good") for line in wrapped(clean(f"Way out: {note.repair}"), room, BODY.size)]
    return lines
