"""The plan of an app on a cluster as a drawing: cards and lines with their places, for the page to draw.

Counts are those of the placement record, or of the spec: brokers are not asked. What is wrong with a plan the operator
says in the condition PlanValid, who knows all counts; so no problem found here is shown. Must not read anything.
"""

from collections.abc import Iterator
from dataclasses import asdict, replace

from holdfast.errors import HoldfastError, safely
from holdfast.planning.picture.layout import LinkRoute, Rectangle
from holdfast.planning.picture.model import picture_of
from holdfast.planning.picture.parts import Picture, PictureCard, PictureEdge
from holdfast.planning.picture.svg import card_head, card_lines, card_title, layout_of, line_paths
from holdfast.planning.plan import PlanningFacts, plan
from holdfast.protocol.report import MOST_STREAMS
from holdfast.spec.app import StreamApp
from holdfast.spec.kept_streams import StreamNames
from holdfast.spec.parse import parse_app
from holdfast.tasks.record import PlacementRecord
from holdfast.trees import Tree
from holdfast_cli.cluster.app import Missing, OrMissing
from holdfast_cli.output.screen import one_line
from holdfast_cli.ui.row_labels import RowLabel, RowLabels, row_labels

_LAG = "000,000,000 unread"
"""Room on the card of a stream that is read for its lag, which changes more often than the plan."""
_RATE = "000.0 k/s"
_WRITTEN = f"{_RATE} written"
_READ = ("input", "side input", "intermediate")
_FIELDS = ("apiVersion", "kind", "metadata", "spec")
_MOST_CARDS = 1_500
"""More cards would take a browser seconds, and nobody would see them as a whole."""


def plan_view(app_tree: Tree, record: OrMissing[PlacementRecord | None]) -> Tree:
    """Return the drawing; `why`: why there is none, or what it lacks."""
    try:
        app = parse_app(_as_applied(app_tree))
        facts = _facts(app, None if isinstance(record, Missing) else record)
        picture = safely(lambda: picture_of(plan(app, facts), app))
    except HoldfastError as error:
        return {"drawing": None, "why": one_line(str(error))}
    if len(picture.cards) > _MOST_CARDS:
        return {"drawing": None, "why": f"it has {len(picture.cards):,} parts, too many to draw: see holdfast plan"}
    why = f"partition counts are those of the spec: {record.why}" if isinstance(record, Missing) else None
    return {"drawing": safely(lambda: _drawing(picture, row_labels(picture))), "why": why}


def _facts(app: StreamApp, record: PlacementRecord | None) -> PlanningFacts:
    """What is known without brokers: topics as they were when the record was written."""
    if record is None:
        return PlanningFacts()
    called = record.called(StreamNames.of(app.spec))
    counts = {**called.side_counts, **called.counts()}
    topics = {stream.name: counts[stream.name] for stream in app.spec.streams if stream.name in counts}
    return PlanningFacts(topics=topics, record=called)


def _as_applied(app_tree: Tree) -> Tree:
    """The app without what the API server adds to an object."""
    metadata = app_tree.get("metadata") or {}
    names = {field: metadata[field] for field in ("name", "namespace") if field in metadata}
    return {**{field: app_tree[field] for field in _FIELDS if field in app_tree}, "metadata": names}


def _roomy(picture: Picture, labels: RowLabels) -> Picture:
    """The picture without problems, and with room for what changes on the cards of streams."""
    cards = tuple(
        replace(card, problems=(), warnings=(), agreements=(), details=(*card.details, *_rooms(card, labels)))
        for card in picture.cards
    )
    return replace(picture, cards=cards)


def _rooms(card: PictureCard, labels: RowLabels) -> Iterator[str]:
    if _is_read(card):
        yield _LAG
    if card.id in labels.cards:
        yield _WRITTEN


def _is_read(card: PictureCard) -> bool:
    return card.makes_stream or (card.kind == "stream" and card.tag in _READ)


def _drawing(picture: Picture, labels: RowLabels) -> Tree:
    layout = layout_of(_roomy(picture, labels), [_RATE if label else "" for label in labels.edges])
    names = {card.id: card.name for card in picture.cards}
    lines = zip(picture.edges, layout.routes, labels.edges, strict=True)
    return {
        "width": round(layout.width, 1),
        "height": round(layout.height, 1),
        "mostStreams": MOST_STREAMS,
        "cards": [_card(card, box, labels) for card, box in zip(picture.cards, layout.rectangles, strict=True)],
        "lines": [_line(edge, route, names, label) for edge, route, label in lines],
    }


def _card(card: PictureCard, box: Rectangle, labels: RowLabels) -> Tree:
    tag, key = card_head(card)
    return {
        "id": card.id,
        "kind": card.kind,
        "x": round(box.x, 1),
        "y": round(box.y, 1),
        "width": round(box.width, 1),
        "height": round(box.height, 1),
        "tag": tag,
        "key": key,
        "lines": card_lines(card),
        "lag": card.name if _is_read(card) else None,
        "rows": _rows(labels.cards.get(card.id)),
        "title": card_title(card),
    }


def _rows(label: RowLabel | None) -> Tree | None:
    return None if label is None else asdict(label)


def _line(edge: PictureEdge, route: LinkRoute, names: dict[str, str], label: RowLabel | None) -> Tree:
    path, tip = line_paths(route)
    end = route.lanes[-1]
    return {
        "kind": edge.kind,
        "path": path,
        "tip": tip,
        "partitions": None if route.loop else edge.partitions,
        "rows": None if route.loop else _rows(label),
        "x": round(end.x, 1),
        "y": round(end.bottom, 1),
        "title": f"{names[edge.source]} {edge.kind} {names[edge.target]}",
    }
