"""No input is made for a name that may be mistyped: what is said, what `create` changes, whose names are asked."""

from typing import Any

import pytest

from holdfast.planning.input_topics import near_inputs
from holdfast.planning.plan import Plan, PlanningFacts
from holdfast.reasons import Reason
from holdfast.spec.streams import System
from holdfast.suggest import nearest_names
from tests.planning.apps import app_of, lookup, only, plan_of, step, stream, warned

KAFKA = [{"name": name, "kafka": {"bootstrapServers": f"{name}:9092"}} for name in ("events", "archive")]
TABLE = {"name": "t", "key": ["k"], "sources": ["side"]}


def in_kafka(name: str, partitions: int | None = 4, **fields: Any) -> dict[str, Any]:
    return stream(name, partitions, **{"system": "events", "topic": f"shop.{name}", **fields})


def planned(streams: list[dict[str, Any]], steps: list[dict[str, Any]], facts: PlanningFacts, **spec: Any) -> Plan:
    return plan_of(streams, steps, facts, systems=KAFKA, **spec)


FILTERED = step("w", "a", filter="v > 1")
OUT = step("out", "w", to="o")
MISSING = "topic shop.a of stream a does not exist in system events; "
MAKE = "make the topic, or set create: true{} on the stream, and the app makes it"


@pytest.mark.parametrize(
    ("fields", "near", "cure"),
    [
        ({}, (), f"correct topic, {MAKE.format('')}"),
        ({"partitions": None}, (), f"correct topic, {MAKE.format(' and partitions: N')}"),
        ({}, ("shop.b",), f"did you mean shop.b? Correct topic, {MAKE.format('')}"),
        ({}, ("shop.b", "a"), f"did you mean shop.b or a? Correct topic, {MAKE.format('')}"),
        ({"partitions": None, "create": True}, (), "set partitions: N on the stream, with which it is made"),
        ({"partitions": None, "create": True}, ("shop.b",), "set partitions: N on the stream, with which it is made"),
    ],
)
def test_a_missing_input_is_a_problem_with_its_cure(fields: dict[str, Any], near: tuple[str, ...], cure: str) -> None:
    problem = only(planned([in_kafka("a", **fields)], [FILTERED], PlanningFacts(topics={"a": None}, near={"a": near})))
    assert (problem.reason, problem.stream, problem.message) == (Reason.TOPIC_MISSING, "a", MISSING + cure)


def test_a_missing_side_input_is_a_problem_too() -> None:
    streams, facts = [in_kafka("a"), in_kafka("side")], PlanningFacts(topics={"a": 4, "side": None})
    problem = only(planned(streams, [lookup("l", "a", "t")], facts, tables=[TABLE]))
    assert (problem.reason, problem.stream) == (Reason.TOPIC_MISSING, "side")


def test_an_input_to_create_is_planned_with_its_partitions() -> None:
    result = planned([in_kafka("a", 3, create=True)], [FILTERED], PlanningFacts(topics={"a": None}))
    assert [task.name for task in result.tasks] == ["partition-0", "partition-1", "partition-2"]
    assert result.stream("a").is_made


def test_create_means_nothing_for_a_topic_that_is_there() -> None:
    facts = PlanningFacts(topics={"a": 6})
    created, plain = (planned([in_kafka("a", **fields)], [FILTERED], facts) for fields in ({"create": True}, {}))
    assert created.tasks == plain.tasks
    assert warned(created) == warned(plain)


def test_a_topic_that_comes_later_needs_no_edit() -> None:
    answers: tuple[dict[str, int | None], ...] = ({}, {"a": None}, {"a": 6})
    results = [planned([in_kafka("a")], [FILTERED], PlanningFacts(topics=answer)) for answer in answers]
    assert [result.valid for result in results] == [True, False, True]
    assert len(results[-1].tasks) == 6


def test_what_the_app_writes_is_still_made() -> None:
    letters: dict[str, Any] = {"onDecodeError": "DeadLetter", "deadLetter": "dead"}
    streams = [in_kafka("a", **letters), in_kafka("o"), in_kafka("between"), in_kafka("dead")]
    steps = [
        FILTERED,
        step("to-between", "w", to="between"),
        step("again", "between", filter="v > 2"),
        step("out", "again", to="o"),
        step("read-dead", "dead", filter="v > 3"),
    ]
    result = planned(streams, steps, PlanningFacts(topics={"a": 4, "o": None, "between": None, "dead": None}))
    assert result.valid, result.problems
    assert {one.name for one in result.streams if not one.is_made} == {"a"}


def test_what_is_written_under_another_name_is_made() -> None:
    streams = [in_kafka("a"), in_kafka("o"), in_kafka("same", topic="shop.o")]
    steps = [FILTERED, OUT, step("again", "same", filter="v > 2")]
    result = planned(streams, steps, PlanningFacts(topics={"a": 4, "o": None, "same": None}))
    assert result.valid, result.problems
    assert warned(result) >= {Reason.TOPIC_SHARED}


def test_only_systems_with_a_missing_input_are_asked_for_names() -> None:
    streams = [
        in_kafka("a"),
        in_kafka("o"),
        in_kafka("made", system="archive", create=True),
        in_kafka("there", system="archive"),
    ]
    steps = [step("w", "a", "made", "there", merge={}), OUT]
    app, asked_systems = app_of(streams, steps, systems=KAFKA), list[str]()

    def names_in(system: System) -> list[str]:
        asked_systems.append(system.name)
        return ["shop.b", "shop.aa", "else.where"]

    counts = {"a": None, "o": None, "made": None, "there": 4}
    assert near_inputs(app.spec, counts, names_in) == {"a": ("shop.aa", "shop.b")}
    assert asked_systems == ["events"]
    assert near_inputs(app.spec, counts | {"a": 4}, names_in) == {}
    assert asked_systems == ["events"]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("shop.clikcs", ("shop.clicks",)),
        ("Shop.Clicks", ("shop.clicks",)),
        ("clicks", ("shop.clicks",)),
        ("shop_clicks", ("shop.clicks",)),
        ("orders", ("orders-v1", "orders-v2", "orders-v3")),
        ("nothing", ()),
        ("x", ()),
        ("x" * 4096, ()),
    ],
)
def test_the_nearest_of_a_hundred_thousand_names_are_few(name: str, near: tuple[str, ...]) -> None:
    names = [f"team-{n % 97}.service-{n}.events.v{n % 5}" for n in range(100_000)]
    assert sorted(nearest_names(name, [*names, "shop.clicks", *(f"orders-v{n}" for n in range(1, 4))])) == [*near]
