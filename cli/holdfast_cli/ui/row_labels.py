"""Whose rows a line of the picture stands for: on which lines, or cards, the page writes the rows a second of a stream.

A driver counts rows by stream, not by step. All steps that read a stream get all its rows, so that each line from it
has what was read. What was written is on the line into a stream if there is one, else on the stream's card. Must not
know rates, which change more often than the plan.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from holdfast.planning.picture.parts import Picture, PictureCard, PictureEdge


@dataclass(frozen=True, slots=True)
class RowLabel:
    """A place for rows a second."""

    way: Literal["read", "written"]
    stream: str


@dataclass(frozen=True, slots=True)
class RowLabels:
    """All places of a picture for rows a second."""

    edges: tuple[RowLabel | None, ...]
    """In the order of the picture's edges."""
    cards: Mapping[str, RowLabel]
    """Card that several lines write to -> its place."""


def row_labels(picture: Picture) -> RowLabels:
    """Return where the rows of each stream are shown."""
    stream_of = {card.id: card.name for card in picture.cards if is_stream(card)}
    writers = Counter(edge.target for edge in picture.edges if edge.target in stream_of)
    return RowLabels(
        tuple(_label(edge, stream_of, writers) for edge in picture.edges),
        {card: RowLabel("written", stream_of[card]) for card, lines in writers.items() if lines > 1},
    )


def is_stream(card: PictureCard) -> bool:
    """Whether the card stands for a stream, alone or with the step that makes it."""
    return card.kind == "stream" or card.makes_stream


def _label(edge: PictureEdge, stream_of: Mapping[str, str], writers: Mapping[str, int]) -> RowLabel | None:
    if edge.source in stream_of and edge.kind in ("reads", "feeds"):
        return RowLabel("read", stream_of[edge.source])
    if writers.get(edge.target) == 1:
        return RowLabel("written", stream_of[edge.target])
    return None
