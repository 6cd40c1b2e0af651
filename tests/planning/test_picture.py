import itertools
import random
import re
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from holdfast.planning.picture.formats import dot_of, mermaid_of
from holdfast.planning.picture.layout import Box, BoxLink, PictureLayout, Rectangle, lay_out
from holdfast.planning.picture.parts import Picture, clean, letter
from holdfast.planning.picture.svg import cells, clipped, layout_of, svg_of, wrapped
from holdfast.spec.parse import SpecInvalidError
from tests.planning.picture_cases import (
    HOSTILE,
    REJECTED,
    SELF_JOIN,
    STEP_CIRCLE,
    TABLE_CIRCLE,
    conformance_pictures,
    drawn,
    hostile_specs,
    long_chain,
    many_joins,
    spec,
    stream,
)

SVG = "{http://www.w3.org/2000/svg}"
PICTURES: dict[str, Picture] = {
    **dict(conformance_pictures()),
    "rejected": drawn(REJECTED),
    "table-circle": drawn(TABLE_CIRCLE),
    "step-circle": drawn(STEP_CIRCLE),
    "self-join": drawn(SELF_JOIN),
    "many-joins": drawn(many_joins(20)),
    "long-chain": drawn(long_chain(60)),
}
every_picture = pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES)
WRITERS: list[Callable[[Picture], str]] = [svg_of, mermaid_of, dot_of]


def texts(picture: Picture) -> list[str]:
    """What is written in the SVG, for people who see it: not tooltips."""
    root = ET.fromstring(svg_of(picture))  # noqa: S314 - our own text
    return ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]


def apart(first: Rectangle, second: Rectangle) -> bool:
    return first.right <= second.x or second.right <= first.x or first.bottom <= second.y or second.bottom <= first.y


# What the picture says


@every_picture
def test_every_stream_step_and_table_is_drawn_in_every_format(picture: Picture) -> None:
    svg, mermaid, dot = svg_of(picture), mermaid_of(picture), dot_of(picture)
    written = texts(picture)
    for card in picture.cards:
        assert card.name in written
        assert f" {card.name}" in svg  # the tooltip has the whole name
        assert f'"{card.name}<br/>' in mermaid
        assert f'"{card.id}" [' in dot


@every_picture
def test_counts_stand_on_the_edges(picture: Picture) -> None:
    written = texts(picture)
    for edge in picture.edges:
        if edge.partitions and edge.source != edge.target:
            assert edge.partitions in written
            assert f'label="{edge.partitions}"' in dot_of(picture)
            assert f'|"{edge.partitions}"|' in mermaid_of(picture)


@every_picture
def test_problems_are_numbered_at_their_node_and_told_below(picture: Picture) -> None:
    whole = " ".join(texts(picture))
    for note in picture.problems:
        assert f"{note.reason} at {note.subject}" in whole
        for word in clean(note.message).split():
            assert word in whole
    numbered = {number for card in picture.cards for number in card.problems}
    assert {note.number for note in picture.problems if note.subject} == numbered


def test_the_title_says_whether_the_plan_is_valid() -> None:
    assert "valid" in texts(PICTURES["self-join"])
    assert f"rejected: {len(PICTURES['rejected'].problems)} problems" in texts(PICTURES["rejected"])
    assert "rejected: 1 problem" in texts(PICTURES["seed-fig5"])


def test_counts_that_disagree_are_shown_together_the_largest_first() -> None:
    edges = {(edge.source, edge.target): edge for edge in PICTURES["rejected"].edges}
    assert edges["step:large", "step:paid"].partitions == "16"
    assert edges["step:paid", "step:known"].partitions == "16/8"
    assert edges["step:moved", "step:counts"].partitions == "16"
    assert edges["step:large", "step:paid"].wrong
    assert not edges["step:moved", "step:counts"].wrong


def test_a_step_that_makes_a_stream_shares_its_node() -> None:
    moved = [card for card in PICTURES["rejected"].cards if card.name == "moved"]
    assert [(card.kind, card.makes_stream, card.details) for card in moved] == [
        ("step", True, ("16 partitions · default",))
    ]


def test_an_agreement_runs_from_its_streams_to_its_step() -> None:
    picture = PICTURES["rejected"]
    assert [agreement.streams for agreement in picture.agreements] == [
        ("orders", "payments"),
        ("orders", "payments", "people"),
    ]
    carries = {(edge.source, edge.target): edge.agreements for edge in picture.edges}
    assert carries["stream:orders", "step:large"] == (0,)
    assert carries["step:large", "step:paid"] == (0,)
    assert carries["step:paid", "step:known"] == (1,)
    assert carries["stream:people", "table:persons"] == (1,)
    assert carries["table:persons", "step:known"] == (1,)
    assert carries["step:moved", "step:counts"] == ()
    marks = {card.name: card.agreements for card in picture.cards if card.agreements}
    assert marks == {"orders": (0, 1), "payments": (0, 1), "people": (1,), "paid": (0,), "known": (1,)}


def test_join_sets_with_the_same_streams_are_one_agreement() -> None:
    (agreement,) = PICTURES["random-14"].agreements
    assert (agreement.streams, [name for name, _ in agreement.steps], agreement.kept) == (
        ("s2", "s3"),
        ["x0", "x5"],
        False,
    )


def test_a_stream_that_is_joined_with_itself_needs_no_agreement() -> None:
    assert PICTURES["self-join"].agreements == ()
    assert len(PICTURES["self-join"].edges) == 2


def test_agreements_beyond_the_colours_differ_by_letter_and_dash() -> None:
    svg = svg_of(PICTURES["many-joins"])
    assert all(letter(i) in texts(PICTURES["many-joins"]) for i in range(20))
    assert "<path" in svg.split('stroke-dasharray="9 4"')[0].splitlines()[-1]
    assert [letter(i) for i in (0, 25, 26, 27, 51, 52)] == ["A", "Z", "AA", "AB", "AZ", "BA"]


def test_unplanned_steps_of_a_circle_are_drawn() -> None:
    assert {card.name for card in PICTURES["step-circle"].cards} == {"events", "x", "y", "own"}


def test_many_warnings_become_a_count() -> None:
    steps = [{"name": f"s{i}", "from": ["events"], "filter": "true"} for i in range(12)]
    assert "and 4 more warnings" in texts(drawn(spec([stream("events")], steps)))


# The same app gives the same bytes


@pytest.mark.parametrize("write", WRITERS)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=15)
def test_the_order_of_a_file_does_not_change_the_picture(write: Callable[[Picture], str], seed: int) -> None:
    shuffled: dict[str, Any] = dict(REJECTED)
    for part in ("streams", "steps", "tables"):
        shuffled[part] = random.Random(seed).sample(REJECTED[part], len(REJECTED[part]))  # noqa: S311 - no secret
    assert write(drawn(shuffled)) == write(PICTURES["rejected"])


# Hostile texts


@given(hostile_specs())
@settings(suppress_health_check=[HealthCheck.filter_too_much])  # what is drawn is often no spec
def test_any_text_gives_valid_xml_and_one_line_per_statement(given_spec: dict[str, Any]) -> None:
    try:
        picture = drawn(given_spec)
    except SpecInvalidError:
        assume(False)
    written = texts(picture)
    assert all(clean(card.name)[:8] in " ".join(written) for card in picture.cards)
    assert all(apart(a, b) for a, b in itertools.combinations(layout_of(picture).rectangles, 2))
    lines = mermaid_of(picture).splitlines()
    assert sum(bool(re.match(r"  n\d+[\[(].*:::[a-z]+$", line)) for line in lines) == len(picture.cards)
    assert all(line.count('"') in (0, 2) for line in lines if not line.startswith("  %%"))
    for line in dot_of(picture).splitlines():
        assert line.replace("\\\\", "").replace('\\"', "").count('"') % 2 == 0


def test_texts_can_not_become_markup() -> None:
    steps = [{"name": "f", "from": ["events"], "filter": HOSTILE}]
    picture = drawn(spec([stream("events")], steps))
    svg, mermaid, dot = (write(picture) for write in WRITERS)
    root = ET.fromstring(svg)  # noqa: S314 - our own text
    known = {"svg", "title", "desc", "style", "g", "rect", "path", "circle", "text", "tspan"}
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= known
    assert not any(forbidden in svg for forbidden in ("<b>", "<!--", "\u202e", "\u0007", "href", "<script", "url("))
    assert "%%{" not in mermaid
    assert "<b>" not in mermaid
    assert '\\"' in dot


def test_control_characters_and_marks_of_direction_are_replaced() -> None:
    assert clean("a\u0000b\u202ec\ud800d\ufffee\u2028f  g\n\th") == "a\ufffdb\ufffdc\ufffdd\ufffde f g h"


# Geometry


@every_picture
def test_cards_do_not_overlap_and_stand_inside_the_picture(picture: Picture) -> None:
    layout = layout_of(picture)
    assert all(apart(a, b) for a, b in itertools.combinations(layout.rectangles, 2))
    assert all(rectangle.x >= -0.1 and rectangle.right <= layout.width + 0.1 for rectangle in layout.rectangles)
    assert all(rectangle.y >= -0.1 and rectangle.bottom <= layout.height + 0.1 for rectangle in layout.rectangles)


@every_picture
def test_lines_do_not_run_through_cards(picture: Picture) -> None:
    assert_lines_are_beside_boxes(layout_of(picture))


def assert_lines_are_beside_boxes(layout: PictureLayout) -> None:
    """Also the bends, which stay in the rectangle between the ends of their lanes."""
    for route in layout.routes:
        lanes = () if route.loop else route.lanes
        areas = [(lane.x, lane.top, lane.x, lane.bottom) for lane in lanes]
        areas += [(a.x, a.bottom, b.x, b.top) for a, b in itertools.pairwise(lanes)]
        for x, top, other, bottom in areas:
            assert top <= bottom
            left, right = sorted((x, other))
            for rectangle in layout.rectangles:
                across = left < rectangle.right - 0.1 and rectangle.x + 0.1 < right
                beside = rectangle.right <= left or right <= rectangle.x
                assert bottom <= rectangle.y + 0.1 or rectangle.bottom - 0.1 <= top or not (across or not beside)


@every_picture
def test_links_enter_a_card_on_lanes_with_room_for_counts(picture: Picture) -> None:
    layout = layout_of(picture)
    ends = [(r.lanes[-1], e) for r, e in zip(layout.routes, picture.edges, strict=True) if not r.loop]
    for (a, first), (b, second) in itertools.combinations(ends, 2):
        labels = (cells(first.partitions) + cells(second.partitions)) * 7 / 2 + 10 if first.partitions else 16
        assert abs(a.x - b.x) > labels or a.bottom != b.bottom


links = st.integers(1, 14).flatmap(
    lambda count: st.tuples(
        st.just(count),
        st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=30),
    )
)


@given(links)
def test_any_graph_is_laid_out_without_overlaps(graph: tuple[int, list[tuple[int, int]]]) -> None:
    count, pairs = graph
    layout = lay_out([Box(100 + i, 50) for i in range(count)], [BoxLink(a, b, 20) for a, b in pairs])
    assert len(layout.rectangles) == count
    assert all(apart(a, b) for a, b in itertools.combinations(layout.rectangles, 2))
    for (a, b), route in zip(pairs, layout.routes, strict=True):
        upper, lower = (layout.rectangles[i] for i in ((b, a) if route.upward else (a, b)))
        assert route.loop == (a == b)
        if a != b:
            assert (route.lanes[0].top, route.lanes[-1].bottom) == (upper.bottom, lower.y)
            assert upper.x < route.lanes[0].x < upper.right
            assert lower.x < route.lanes[-1].x < lower.right
    assert_lines_are_beside_boxes(layout)


def test_a_chain_runs_straight() -> None:
    layout = lay_out([Box(100, 50)] * 4, [BoxLink(i, i + 1) for i in range(3)])
    assert len({rectangle.x for rectangle in layout.rectangles}) == 1
    assert all(len({lane.x for lane in route.lanes}) == 1 for route in layout.routes)


def test_only_links_that_close_a_cycle_run_upwards() -> None:
    layout = layout_of(PICTURES["table-circle"])
    names = {edge: route.upward for edge, route in zip(PICTURES["table-circle"].edges, layout.routes, strict=True)}
    assert [(edge.source, edge.target) for edge, up in names.items() if up] == [("table:last", "step:seen")]


def test_unconnected_parts_stand_side_by_side_and_in_rows() -> None:
    layout = layout_of(PICTURES["many-joins"])
    assert layout.width < 1100
    assert len({rectangle.y for rectangle in layout.rectangles}) == 20


def test_a_thousand_nodes_are_laid_out() -> None:
    count = 1000
    chain = [BoxLink(i, i + 1, 20) for i in range(count - 1)]
    far = [BoxLink(i, min(count - 1, i + 1 + i * 7919 % 37), 20) for i in range(0, count - 1, 3)]
    layout = lay_out([Box(120, 60)] * count, [*chain, *far])
    rectangles = sorted(layout.rectangles, key=lambda rectangle: (rectangle.x, rectangle.y))
    assert all(apart(a, b) for a, b in itertools.pairwise(rectangles))


def test_an_app_of_a_thousand_steps_is_drawn() -> None:
    picture = drawn(long_chain(1000))
    root = ET.fromstring(svg_of(picture))  # noqa: S314 - our own text
    assert len(root.findall(f"{SVG}g/{SVG}g/{SVG}title")) == 2001


# Text


@given(st.text(max_size=60), st.integers(3, 60))
def test_a_text_never_takes_more_room_than_it_is_given(text: str, room: int) -> None:
    shown = clean(text)
    assert cells(clipped(text, room)) <= room
    assert all(cells(line) <= room for line in wrapped(text, room))
    assert "".join(wrapped(text, room)).replace(" ", "") == shown.replace(" ", "")


@every_picture
def test_texts_stay_on_their_cards_and_apart(picture: Picture) -> None:
    root = ET.fromstring(svg_of(picture))  # noqa: S314 - our own text
    cards = [group for group in root.findall(f"{SVG}g/{SVG}g") if len(group.findall(f"{SVG}text")) > 1]
    for group, rectangle in zip(cards, layout_of(picture).rectangles, strict=True):
        drawn = []
        for text in group.findall(f"{SVG}text"):
            wide, x, css = cells(text.text or "") * 6.82, float(text.get("x", "")), text.get("class", "")
            left = x - wide if "hf-end" in css else x - wide / 2 if "hf-mid" in css else x
            bottom = float(text.get("y", ""))
            drawn.append(Rectangle(left, bottom - 9, wide, 11))
        assert all(apart(a, b) for a, b in itertools.combinations(drawn, 2))
        assert all(rectangle.x < one.x and one.right < rectangle.right for one in drawn)
        assert all(rectangle.y < one.y and one.bottom < rectangle.bottom for one in drawn)
