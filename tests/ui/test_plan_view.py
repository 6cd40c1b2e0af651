"""The plan of an app on a cluster as a drawing."""

from typing import Any

from holdfast.spec.kept_state import KeptState
from holdfast.tasks.partitions import StreamPartition
from holdfast.tasks.record import PlacementRecord
from holdfast_cli.cluster.app import Missing
from holdfast_cli.ui.plan_view import plan_view
from tests.ui.clusters import Tree, whole_app

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
