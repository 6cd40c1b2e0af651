"""The record's JSON and its stored form, and the refusal of everything else; names of apps and runs as keys."""

import gzip
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import UserActionError
from holdfast.placement.metadata_store import MOST_VALUE_BYTES, object_name
from holdfast.placement.record_store import MOST_TASKS, key_part, read_record, record_bytes, record_key
from holdfast.tasks.partitions import StreamPartition
from holdfast.tasks.record import ParentEnd, PlacementRecord, RecordInvalidError, parse_record, record_tree
from tests.error_codes import has_code
from tests.placement.records import RUN_IDS, large, records

PLAIN: dict[str, Any] = {
    "runId": "1",
    "grouping": {"partition-0": ["clicks/0", "clicks/16"]},
    "taskLocation": {"partition-0": "node-a"},
    "taskProcessor": {"partition-0": "exec-1"},
}
GROWN = {**PLAIN, "childAfter": {"clicks/16": {"parent": "clicks/0", "offset": 1234}}}


@given(records())
def test_any_record_comes_back_from_its_tree_and_its_json(record: PlacementRecord) -> None:
    assert parse_record(json.loads(json.dumps(record_tree(record)))) == record


@given(records())
def test_any_record_comes_back_from_its_stored_form(record: PlacementRecord) -> None:
    assert read_record("app", record.run_id, record_bytes("app", record)) == record


def test_equal_records_are_equal_bytes_however_they_were_built() -> None:
    tree = {**GROWN, "taskLocation": {"partition-0": "node-a", "partition-1": "node-b"}}
    turned = {key: dict(reversed(value.items())) if isinstance(value, dict) else value for key, value in tree.items()}
    assert record_bytes("app", parse_record(turned)) == record_bytes("app", parse_record(tree))


@pytest.mark.parametrize(
    "record",
    [
        PlacementRecord("1", {"t": (StreamPartition("", 0),)}, {}, {}),
        PlacementRecord("1", {"t": (StreamPartition("clicks", 10**9),)}, {}, {}),
    ],
)
def test_an_unreadable_record_is_not_written(record: PlacementRecord) -> None:
    with pytest.raises(
        UserActionError, match="does not name a stream partition", check=has_code("ContentUnreadableError")
    ):
        record_bytes("app", record)


def test_a_partition_in_two_tasks_is_not_written() -> None:
    clicks = StreamPartition("clicks", 0)
    with pytest.raises(RecordInvalidError, match="clicks/0 in a and in b"):
        record_bytes("app", PlacementRecord("1", {"a": (clicks,), "b": (clicks,), "c": ()}, {}, {}))


# Size


@pytest.mark.parametrize("streams", [1, 4])
def test_thirty_thousand_tasks_fit_one_config_map_with_room(streams: int) -> None:
    record = large(MOST_TASKS, streams=streams)
    value = record_bytes("app", record)
    assert len(value) < MOST_VALUE_BYTES * 0.8
    assert read_record("app", "1", value) == record


def test_one_task_too_many_is_refused_with_numbers_and_cure() -> None:
    with pytest.raises(UserActionError, check=has_code("ValueTooLargeError")) as refused:
        record_bytes("app", large(MOST_TASKS + 1, streams=1))
    message = str(refused.value)
    assert "record of app, run 1, is too large: 30001 tasks that read 30001 partitions" in message
    assert "30000 tasks, 1000000 bytes compressed" in message
    assert "Split the app" in message


def test_a_record_too_large_with_few_tasks_is_refused() -> None:
    noise = "".join(hashlib.sha256(b"%d" % number).hexdigest() for number in range(40_000))
    with pytest.raises(
        UserActionError, match=r"is too large: 1 tasks .* \d{7} bytes compressed", check=has_code("ValueTooLargeError")
    ):
        record_bytes("app", PlacementRecord("1", {"t": ()}, {"t": noise}, {}))


# The order of parent and child


def test_the_record_orders_a_child_after_its_parents_end() -> None:
    record = parse_record(GROWN)
    assert record.child_after == {StreamPartition("clicks", 16): ParentEnd(StreamPartition("clicks", 0), 1234)}
    assert record_tree(record) == GROWN


def test_a_record_without_growth_has_the_four_pinned_fields() -> None:
    assert parse_record(PLAIN).child_after == {}
    assert record_tree(parse_record(PLAIN)) == PLAIN


@pytest.mark.parametrize(
    ("children", "named"),
    [
        ([], "childAfter must be an object"),
        ({"clicks/16": 1}, "childAfter.clicks/16 must be an object"),
        ({"clicks/16": {"parent": "clicks/0"}}, "must have parent and offset and nothing else; found parent"),
        ({"clicks/16": {}}, "found neither"),
        ({"clicks/16": {"parent": "clicks/0", "offset": 1, "x": 1}}, "found offset, parent, x"),
        ({"clicks/16": {"parent": 0, "offset": 1}}, "childAfter.clicks/16.parent"),
        ({"clicks/16": {"parent": "clicks/0", "offset": -1}}, "childAfter.clicks/16.offset must be .*; found -1"),
        ({"clicks/16": {"parent": "clicks/0", "offset": True}}, "found True"),
        ({"clicks/16": {"parent": "clicks/0", "offset": "1"}}, "found '1'"),
        ({"clicks": {"parent": "clicks/0", "offset": 1}}, "'clicks' does not name a stream partition"),
        ({"clicks/16": {"parent": "zero", "offset": 1}}, "'zero' does not name a stream partition"),
        ({"clicks/16": {"parent": "views/0", "offset": 1}}, "must be another partition of clicks; found views/0"),
        ({"clicks/16": {"parent": "clicks/16", "offset": 1}}, "must be another partition of clicks; found clicks/16"),
    ],
)
def test_an_unreadable_order_is_refused_by_field(children: object, named: str) -> None:
    with pytest.raises(RecordInvalidError, match=named):
        parse_record({**PLAIN, "childAfter": children})


@pytest.mark.parametrize("count", [0, -1, True, "4", None])
def test_an_impossible_side_input_count_is_refused_by_field(count: object) -> None:
    with pytest.raises(RecordInvalidError, match=r"^sideCounts.rates must be a whole number, 1 or more; found"):
        parse_record({**PLAIN, "sideCounts": {"rates": count}})


# Refusals


def document(**fields: object) -> dict[str, Any]:
    """A document as it is stored, with other fields."""
    value = record_bytes("app", parse_record(GROWN))
    tree = {**json.loads(gzip.decompress(value.partition(b"\n")[2])), **fields}
    return {name: value for name, value in tree.items() if value is not None}


def stored(document: object) -> bytes:
    """A value that somebody wrote by our rules."""
    return signed(gzip.compress(document if isinstance(document, bytes) else json.dumps(document).encode()))


def signed(body: bytes) -> bytes:
    return b"holdfast-record 2 sha256=%s\n" % hashlib.sha256(body).hexdigest().encode() + body


OLD = b'{"app":"app","checksum":"0","format":1,"generation":7,"runId":"1","shards":["0"]}'


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "it starts with b'' and is no placement record"),
        (b"my notes on this", "it starts with b'my notes on this' and is no placement record"),
        (OLD, "an earlier build of Holdfast, which kept records in several parts; go on with that build"),
        (json.dumps(PLAIN).encode(), "an earlier build of Holdfast"),
        (b"holdfast-record 3 anything", "it has format 3, and this Holdfast reads format 2: upgrade Holdfast"),
        (b"holdfast-record 2 sha256=x\n", "its first line is damaged"),
        (b"holdfast-record 1 sha256=" + b"0" * 64 + b"\n", "its first line is damaged"),
        (stored(document())[:-1], "its checksum is wrong"),
        (signed(b"plain"), "it is not compressed as it should be"),
        (stored(b"no JSON"), "it is not JSON"),
        (stored(b"[" * 1000), "nested deeper than 64 levels"),
        (stored([]), "its columns are wrong .*it is a list"),
        (stored({}), "its columns are wrong .*'app'"),
        (stored(document(app="other")), "it belongs to app other, run 1, and not to app app, run 1"),
        (stored(document(runId="2")), "it belongs to app app, run 2, and not to app app, run 1"),
        (stored(document(tasks=None)), "its columns are wrong .*'tasks'"),
        (stored(document(tasks=[1])), "a column of texts holds something else"),
        (stored(document(placeOf=[0, 0])), "argument 2 is longer"),
        (stored(document(placeOf=[7])), "its columns are wrong .*out of range"),
        (stored(document(places=[["a", 1]])), "is no place"),
        (stored(document(inputs={"clicks": [[0], ["0"]]})), "a column of numbers holds something else"),
        (stored(document(inputs={"clicks": [[0], [True]]})), "a column of numbers holds something else"),
        (stored(document(inputs={"clicks": [[0], [-1]]})), "clicks/-1 does not name a stream partition"),
        (stored(document(inputs={"clicks": [[0], [10**30]]})), "a column of numbers holds something else"),
        (stored(document(childAfter={"clicks": [[1], [0], [-1]]})), "childAfter.clicks/1.offset"),
        (stored(document(childAfter={"clicks": [[1], [1], [0]]})), "childAfter.clicks/1.parent"),
        (stored(document(state={"count": 1})), "a column of texts holds something else"),
        (stored(document(sideCounts={"rates": 0})), "sideCounts.rates must be a whole number, 1 or more; found 0"),
        (stored(document(sideCounts={"rates": "4"})), "a column of numbers holds something else"),
        (stored(document(givenUp="count")), "a column of texts holds something else"),
    ],
)
def test_anything_but_this_runs_record_is_refused_by_key(value: bytes, why: str) -> None:
    with pytest.raises(
        UserActionError, match=f"^app/record/1/head can't be used .*{why}", check=has_code("ContentUnreadableError")
    ) as refused:
        read_record("app", "1", value)
    assert isinstance(refused.value, UserActionError)
    assert "it is left as it is. Restore it from a copy, or set a new spec.runId" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b'{"app": "app", "runId": "1", "x": [' + b"[]," * 1_000_001 + b"]}", "holds 1000003 values"),
        (b'{"app": "app", "x": "' + b"x" * (1 << 26) + b'"}', "has 16777217 bytes, and at most 16777216 are read"),
        (json.dumps(document(places=[["x" * 900_000]])).encode(), "is no place"),
    ],
    ids=["values", "bytes", "long"],
)
def test_a_hostile_record_is_refused_in_a_short_sentence(text: bytes, why: str) -> None:
    with pytest.raises(UserActionError, match=why, check=has_code("ContentUnreadableError")) as refused:
        read_record("app", "1", stored(text))
    assert len(str(refused.value)) < 1_000


def test_no_flipped_bit_goes_unnoticed() -> None:
    whole = record_bytes("app", parse_record(GROWN))
    for bit in range(len(whole) * 8):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(UserActionError, match="app/record/1/head", check=has_code("ContentUnreadableError")):
            read_record("app", "1", bytes(damaged))


def test_no_cut_goes_unnoticed() -> None:
    whole = record_bytes("app", parse_record(GROWN))
    for length in range(len(whole)):
        with pytest.raises(UserActionError, match="app/record/1/head", check=has_code("ContentUnreadableError")):
            read_record("app", "1", whole[:length])


@given(st.binary(max_size=200) | st.text().map(str.encode))
def test_any_other_bytes_are_refused_and_nothing_else_happens(value: bytes) -> None:
    for content in (value, signed(value), stored(value)):
        with pytest.raises(UserActionError, check=has_code("ContentUnreadableError")):
            read_record("app", "1", content)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=3), children, max_size=2),
)


@given(st.dictionaries(st.sampled_from(sorted(document())), JSON, max_size=3))
def test_any_json_in_its_columns_is_a_record_or_refused(fields: dict[str, Any]) -> None:
    try:
        read_record("app", "1", stored({**document(), **fields}))
    except UserActionError as error:
        assert str(error).startswith("app/record/1/head can't be used")


# Names of apps and runs become keys; no two runs share one.


@given(RUN_IDS, RUN_IDS)
def test_every_key_is_valid(app: str, run: str) -> None:
    assert object_name(record_key(app, run))


@given(st.lists(st.tuples(RUN_IDS, RUN_IDS), min_size=2, max_size=2, unique=True))
def test_two_runs_and_two_apps_share_no_key(runs: list[tuple[str, str]]) -> None:
    first_key, second_key = (record_key(app, run) for app, run in runs)
    assert first_key != second_key


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("1", "1"),
        ("ad-clicks", "ad-clicks"),
        ("A", "x-84"),
        ("v1.2_b", "x-eooiscivc8"),
        ("x-1", "x-f0mj2"),
        ("-", "x-5k"),
    ],
)
def test_a_plain_name_stays_and_any_other_is_coded(name: str, part: str) -> None:
    assert key_part(name) == part


@pytest.mark.parametrize("name", ["", "a" * 64, "é" * 32])
def test_a_name_too_long_or_empty_is_refused_by_length(name: str) -> None:
    with pytest.raises(UserActionError, match=f"has {len(name.encode())} bytes", check=has_code("KeyNameError")):
        record_key("app", name)
