"""What a stream has beside its values, its key and its event time: what the planner takes, and what it refuses."""

from typing import Any

import pytest

from holdfast.planning.plan import Plan
from holdfast.reasons import Reason
from tests.planning.apps import only, plan_of, step, stream, warned

NESTED = "payload STRUCT<id: STRING, at: BIGINT, ts: TIMESTAMP, tags: ARRAY<STRUCT<id: STRING>>>, text STRING"
COUNT = {"by": ["id"], "window": "1m", "compute": ["count(*) AS n"]}
TIMES: list[tuple[dict[str, Any], str | None]] = [
    ({"from": "payload.ts"}, None),
    ({"from": "payload.at", "unit": "Seconds"}, None),
    ({"from": "coalesce(payload.at, 0)", "unit": "Microseconds"}, None),
    ({"from": "timestamp"}, None),
    ({"column": "timestamp"}, None),
    ({"from": "offset", "unit": "Seconds"}, None),
    ({"from": "payload.at"}, "which is BIGINT; say what it counts, e.g. unit: Milliseconds"),
    ({"from": "payload.ts", "unit": "Seconds"}, "which is TIMESTAMP and has no unit; leave unit out"),
    ({"from": "text"}, "which is STRING; it must be a TIMESTAMP or a whole number"),
    ({"from": "payload.at * 2", "unit": "Seconds"}, "can fail on a row or needs Spark; compute it in a select step"),
    ({"from": "CAST(text AS TIMESTAMP)"}, "can fail on a row or needs Spark; compute it in a select step"),
    ({"from": "to_timestamp(text)"}, "can fail on a row or needs Spark; compute it in a select step"),
    ({"from": "payload.when"}, "payload has no field when"),
    ({"from": "payload.at AS at", "unit": "Seconds"}, "eventTime.from has no name; write payload.at AS at without AS"),
    ({"from": "max(payload.at)", "unit": "Seconds"}, "max works over many rows, and eventTime.from judges each row"),
    ({"column": "payload"}, "eventTime names payload, which is STRUCT<id: STRING, at: BIGINT"),
    ({"column": "offset"}, "it must be a TIMESTAMP; if it counts time, write from: offset and its unit"),
]


def planned(read: dict[str, Any], *steps: dict[str, Any]) -> Plan:
    """The plan of an app that reads such a stream and writes what comes out of the last step."""
    source = stream("in", 4, **({"key": None, "schema": NESTED, "eventTime": None} | read))
    out = stream("out", 4, key=None, schema=None, eventTime=None)
    last = steps[-1]["name"] if steps else "in"
    return plan_of([source, out], [*steps, step("written", last, to="out")])


@pytest.mark.parametrize(("event_time", "refusal"), TIMES, ids=[str(event_time) for event_time, _ in TIMES])
def test_event_time_is_any_time_that_every_row_has(event_time: dict[str, Any], refusal: str | None) -> None:
    metadata = ["timestamp", "offset"]
    of_stream = planned({"metadata": metadata, "eventTime": event_time})
    of_step = planned({"metadata": metadata}, step("all", "in", select=["*"], eventTime=event_time))
    for plan in (of_stream, of_step):
        if refusal is None:
            assert plan.valid
        else:
            assert refusal in only(plan).message


def test_a_time_that_a_step_sets_is_one_for_windows() -> None:
    picked = ["payload.id AS id", "payload.ts AS ts"]
    steps = [step("rows", "in", select=picked), step("n", "rows", aggregate=COUNT)]
    missing = only(planned({}, *steps))
    assert missing.reason is Reason.EVENT_TIME_MISSING
    assert "or to a select, apply or process before n" in missing.message
    steps[0]["eventTime"] = {"column": "ts"}
    assert planned({}, *steps).valid


def test_a_time_set_behind_a_merge_is_warned_of() -> None:
    time, picked = {"column": "ts"}, ["payload.id AS id", "payload.ts AS ts"]
    sides = [step("one", "in", select=picked), step("two", "in", select=picked)]
    merged = step("both", "one", "two", merge={})
    behind = step("rows", "both", select=["*"], eventTime=time)
    (warning,) = (one for one in planned({}, *sides, merged, behind).warnings if one.step == "rows")
    assert warning.reason is Reason.EVENT_TIME_MERGED
    assert "rows that both has merged" in warning.message
    before = [one | {"eventTime": time} for one in sides]
    assert Reason.EVENT_TIME_MERGED not in warned(planned({}, *before, merged))
    moved = step("moved", "both", repartition={"by": ["id"]})
    assert Reason.EVENT_TIME_MERGED not in warned(planned({}, *sides, merged, moved, behind | {"from": ["moved"]}))


@pytest.mark.parametrize(
    ("picked", "by"),
    [
        (["payload.id AS id"], "id"),
        (["payload.id AS user"], "user"),
        (["payload", "payload.ID AS id"], "id"),
        (["payload.tags[0].id AS id"], None),
        (["lower(payload.id) AS id"], None),
        (["text AS id"], None),
    ],
)
def test_a_key_inside_a_column_is_followed_to_its_copy(picked: list[str], by: str | None) -> None:
    read = {"key": ["payload.id"]}
    counted = {"by": [by or "id"], "compute": ["count(*) AS n"]}
    plan = planned(read, step("rows", "in", select=picked), step("n", "rows", aggregate=counted))
    wrong = {problem.reason for problem in plan.problems}
    assert (Reason.KEY_MISMATCH in wrong) == (by is None)


def test_a_key_inside_a_column_outlives_what_renames_the_column() -> None:
    steps = [
        step("renamed", "in", select=["payload AS p"]),
        step("kept", "renamed", filter="p.at > 0"),
        step("rows", "kept", select=["p.id AS id"]),
        step("n", "rows", aggregate={"by": ["id"], "compute": ["count(*) AS n"]}),
    ]
    assert planned({"key": ["payload.id"]}, *steps).valid


@pytest.mark.parametrize(
    ("key", "refusal"),
    [
        ("payload.user", "key: payload has no field user"),
        ("load.id", "key: there is no column load"),
        ("x", "key names x"),
    ],
)
def test_a_key_that_is_not_there_is_named(key: str, refusal: str) -> None:
    assert refusal in only(planned({"key": [key]}, step("all", "in", filter="text = 'a'"))).message


def test_the_key_of_records_is_the_partition_key() -> None:
    counted = step("n", "in", aggregate={"by": ["user"], "compute": ["count(*) AS n"]})
    plan = planned({"metadata": ["key AS user"]}, counted)
    assert plan.valid
    assert plan.stream("in").key == ("user",)
    by_text = step("n", "in", aggregate={"by": ["text"], "compute": ["count(*) AS n"]})
    assert only(planned({"metadata": ["key AS user"]}, by_text)).reason is Reason.KEY_MISMATCH


def test_a_column_stands_once() -> None:
    twice = only(planned({"metadata": ["key AS text"]}))
    assert twice.message == "metadata gives a second column text; give it another name, e.g. key AS record_text"
    assert only(planned({"metadata": ["key", "keyBytes AS KEY"]})).reason is Reason.DUPLICATE_COLUMN


@pytest.mark.parametrize(
    ("metadata", "key", "refusal"),
    [
        (["key AS user"], None, None),
        (["keyBytes AS id"], ["id"], None),
        (["key AS user"], ["id"], "records are written with id as their key, so user can't be their key too"),
        (["partition"], None, "metadata has partition, but steps write this stream, and there it follows from the key"),
        (["timestamp"], None, "there it is the event time of the row; leave it out"),
        (["headers"], None, "the metadata of stream out names headers, which is no column"),
        (["headers AS user"], None, "needs user as ARRAY<STRUCT<key: STRING, value: BINARY>>, and it is STRING"),
        (["key AS nobody"], None, "the key of stream out names nobody, which is no column"),
        (["key AS id"], None, "the metadata of stream out needs id as STRING, and it is BINARY"),
    ],
)
def test_records_can_be_given_a_key_of_their_own(
    metadata: list[str], key: list[str] | None, refusal: str | None
) -> None:
    source = stream("in", 4, key=None, schema="user STRING, id BINARY", eventTime=None)
    out = stream("out", 4, key=key, schema=None, eventTime=None, metadata=metadata)
    plan = plan_of([source, out], [step("all", "in", select=["*", "1 AS partition"]), step("w", "all", to="out")])
    if refusal is None:
        assert plan.valid
    else:
        assert refusal in plan.problems[0].message


def test_only_inputs_of_steps_say_where_a_run_begins() -> None:
    assert planned({"start": "latest"}).valid
    written = stream("out", 4, key=None, schema=None, eventTime=None, start="latest")
    source = stream("in", 4, key=None, schema=NESTED, eventTime=None)
    problem = only(plan_of([source, written], [step("written", "in", to="out")]))
    assert (problem.reason, problem.stream) == (Reason.START_INVALID, "out")
    assert problem.message == "stream out has start: latest, and is no input of steps; leave it out"
