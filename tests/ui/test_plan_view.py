"""The plan of an app on a cluster as a drawing."""

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from holdfast.spec.kept_state import KeptState
from holdfast.tasks.partitions import StreamPartition
from holdfast.tasks.record import PlacementRecord
from holdfast_cli.cluster.app import Missing
from holdfast_cli.ui.plan_view import plan_view
from tests.ui.clusters import Tree, whole_app

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").rglob("app.yaml"))
RECORD = PlacementRecord(
    run_id="1",
    grouping={f"partition-{at}": (StreamPartition("clicks", at),) for at in range(8)},
    task_location={},
    task_processor={},
    side_counts={"out": 8},
    state=KeptState(),
)


def drawing(app: Tree, record: Any = RECORD) -> Tree:
    """The drawing, which there is."""
    tree = plan_view(app, record)
    assert tree["why"] is None
    return dict(tree["drawing"])


def test_cards_and_lines_have_the_counts_of_the_placement_record() -> None:
    picture = drawing(whole_app())
    cards = {card["id"]: card for card in picture["cards"]}
    assert set(cards) == {"stream:clicks", "step:written", "stream:out"}
    assert cards["stream:clicks"]["lines"][0] == "clicks"
    assert "8 partitions" in cards["stream:clicks"]["title"]
    assert [line["partitions"] for line in picture["lines"]] == ["8", "8"]
    assert cards["stream:clicks"]["y"] < cards["step:written"]["y"] < cards["stream:out"]["y"]
    assert all(0 <= card["x"] <= card["x"] + card["width"] <= picture["width"] for card in cards.values())


def test_lag_has_room_on_each_stream_that_is_read() -> None:
    (lagging,) = [card for card in drawing(whole_app())["cards"] if card["lag"]]
    assert (lagging["id"], lagging["lag"]) == ("stream:clicks", "clicks")
    assert len(lagging["lines"]) == 2
    app = whole_app()
    app["spec"]["streams"].append({"name": "more", "system": "events", "key": ["k"], "schema": "k STRING"})
    app["spec"]["steps"][0] = {"name": "both", "from": ["clicks", "more"], "merge": {}}
    app["spec"]["steps"].append({"name": "written", "from": ["both"], "to": "out"})
    cards = plan_view(app, None)["drawing"]["cards"]
    assert {card["lag"] for card in cards if card["lag"]} == {"clicks", "more"}


def with_graph(streams: tuple[str, ...], *steps: Tree, **spec: Any) -> Tree:
    """The app with more inputs and these steps."""
    app = whole_app()
    declared = {"system": "events", "key": ["k"], "schema": "k STRING", "partitions": 8}
    app["spec"]["streams"] += [{"name": name, **declared} for name in streams]
    return {**app, "spec": {**app["spec"], "steps": list(steps), **spec}}


def rows_on(picture: Tree) -> dict[str, tuple[str, str]]:
    """Title of a line, or id of a card -> whose rows are shown there."""
    places = {line["title"]: line["rows"] for line in picture["lines"]}
    places |= {card["id"]: card["rows"] for card in picture["cards"]}
    return {place: (rows["way"], rows["stream"]) for place, rows in places.items() if rows}


def test_rows_are_on_lines_from_and_to_streams() -> None:
    app = with_graph(
        ("views",),
        {"name": "both", "from": ["clicks", "views"], "merge": {}},
        {"name": "kept", "from": ["clicks"], "filter": "k > ''"},
        {"name": "by-k", "from": ["both"], "repartition": {"by": ["k"]}},
        {"name": "few", "from": ["by-k"], "filter": "k > ''"},
        {"name": "written", "from": ["few"], "to": "out"},
    )
    picture = plan_view(app, None)["drawing"]
    assert rows_on(picture) == {
        "clicks reads both": ("read", "clicks"),
        "views reads both": ("read", "views"),
        "clicks reads kept": ("read", "clicks"),
        "both reads by-k": ("written", "by-k"),
        "by-k reads few": ("read", "by-k"),
        "written writes out": ("written", "out"),
    }
    assert {card["lag"] for card in picture["cards"]} == {None, "clicks", "views", "by-k"}


def test_rows_of_several_writers_are_on_the_streams_card() -> None:
    app = with_graph(
        (),
        {"name": "high", "from": ["clicks"], "filter": "k > 'm'", "onError": "DeadLetter", "deadLetter": "bad"},
        {"name": "low", "from": ["clicks"], "filter": "k < 'm'"},
        {"name": "high-written", "from": ["high"], "to": "out"},
        {"name": "low-written", "from": ["low"], "to": "out"},
    )
    app["spec"]["streams"].append({"name": "bad", "system": "events", "partitions": 1})
    picture = plan_view(app, None)["drawing"]
    assert rows_on(picture) == {
        "clicks reads high": ("read", "clicks"),
        "clicks reads low": ("read", "clicks"),
        "high dead letters bad": ("written", "bad"),
        "stream:out": ("written", "out"),
    }


def test_rows_into_tables_are_those_of_their_side_inputs() -> None:
    app = with_graph(
        ("owners",),
        {"name": "owned", "from": ["clicks"], "lookup": {"table": "owner-of", "by": ["k"], "type": "Left"}},
        {"name": "written", "from": ["owned"], "to": "out"},
        tables=[{"name": "owner-of", "sources": ["owners"], "key": ["k"], "distribution": "Partitioned"}],
    )
    places = rows_on(plan_view(app, None)["drawing"])
    assert places["owners feeds owner-of"] == ("read", "owners")
    assert "owner-of looks up owned" not in places


def many_steps() -> Tree:
    """Eight inputs that are merged and joined, and thirty steps."""
    inputs = tuple(f"in-{at}" for at in range(7))
    everything: Tree = {"name": "everything", "from": ["clicks", *inputs], "merge": {}}
    filters = [{"name": f"filters-{at}", "from": [name], "filter": "k > ''"} for at, name in enumerate(inputs)]
    chosen = [{"name": f"chosen-{at}", "from": ["everything"], "filter": "k > ''"} for at in range(7)]
    parted = [{"name": f"parted-{at}", "from": [f"chosen-{at}"], "repartition": {"by": ["k"]}} for at in range(7)]
    again: Tree = {"name": "again", "from": [f"parted-{at}" for at in range(7)], "merge": {}}
    written = [{"name": f"written-{at}", "from": [f"filters-{at}"], "to": "out"} for at in range(7)]
    return with_graph(inputs, everything, *filters, *chosen, *parted, again, *written)


def example(path: Path) -> Tree:
    return {**whole_app(), "spec": YAML(typ="safe").load(path)["spec"]}


@pytest.mark.parametrize(
    "app",
    [many_steps(), *map(example, EXAMPLES)],
    ids=["thirty steps", *(path.parent.name for path in EXAMPLES)],
)
def test_rates_on_lines_touch_no_card_and_no_other_line(app: Tree) -> None:
    picture = plan_view(app, None)["drawing"]
    width, height = 9 * 6.82 + 4, 16
    places = [(line["x"], line["y"] - (43 if line["partitions"] else 27)) for line in picture["lines"] if line["rows"]]
    assert places
    for x, y in places:
        for card in picture["cards"]:
            beside = x + width / 2 <= card["x"] or card["x"] + card["width"] <= x - width / 2
            assert beside or y + height <= card["y"] or card["y"] + card["height"] <= y, card["id"]
        for line in picture["lines"]:
            # Upright from where it has bent for the last time to its card.
            top, bottom = float(line["path"].rpartition("V")[0].split()[-1]), line["y"]
            if line["x"] == x and y < bottom < y + 60:
                assert top <= y, line["title"]
            elif top < y + height and y < bottom:
                assert abs(line["x"] - x) >= width / 2, line["title"]
        beside_it = [other for other in places if other != (x, y) and abs(other[1] - y) < height]
        assert all(abs(other - x) >= width for other, _ in beside_it)


def test_a_plan_without_a_record_is_drawn_too() -> None:
    assert plan_view(whole_app(), None)["why"] is None
    refused = plan_view(whole_app(), Missing("you may not get configmaps"))
    assert refused["why"] == "partition counts are those of the spec: you may not get configmaps"
    assert refused["drawing"] is not None


def test_a_spec_that_is_invalid_says_why() -> None:
    app = whole_app()
    app["spec"]["steps"] = []
    tree = plan_view(app, None)
    assert tree["drawing"] is None
    assert "spec.steps" in tree["why"]
