"""The record's JSON, its shards and head, and the refusal of everything else."""

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.errors import HoldfastError, UserActionError
from holdfast.placement.metadata_store import ContentUnreadableError
from holdfast.placement.record_format import (
    FORMAT,
    MIGRATIONS,
    MOST_SHARDS,
    RecordAddress,
    RecordForeignError,
    RecordNewerError,
    RecordUnreadableError,
    Tree,
    cut,
    digest_of,
    head_bytes,
    join,
    migrate,
    read_head,
)
from holdfast.tasks.partitions import StreamPartition
from holdfast.tasks.record import ParentEnd, PlacementRecord, RecordInvalidError, parse_record, record_tree
from tests.placement.records import records

PLACE = RecordAddress("app/record/1/head", "app", "1")
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


@given(records(st.just("1")), st.integers(1, 300))
def test_any_record_comes_back_from_its_shards_none_over_the_budget(record: PlacementRecord, budget: int) -> None:
    shards = cut(record, budget)
    assume(len(shards) <= MOST_SHARDS)  # a store's budget is 900 KB, so that this is a gigabyte
    assert all(0 < len(shard) <= budget for shard in shards)
    assert join(PLACE, read_head(PLACE, head_of(shards)), shards) == record


def head_of(shards: tuple[bytes, ...]) -> bytes:
    return head_bytes("app", "1", 1, [digest_of(shard) for shard in shards])


def test_the_shards_in_order_are_the_file_that_holdfast_plan_reads() -> None:
    shards = cut(parse_record(GROWN), 50)
    assert len(shards) > 3
    assert json.loads(b"".join(shards)) == GROWN


def test_equal_records_are_equal_bytes_whatever_order_they_were_built_in() -> None:
    turned = {key: dict(reversed(value.items())) if isinstance(value, dict) else value for key, value in GROWN.items()}
    assert cut(parse_record(turned), 50) == cut(parse_record(GROWN), 50)


def test_a_record_that_could_not_be_read_again_is_not_written() -> None:
    with pytest.raises(RecordInvalidError, match=r"grouping\.t"):
        cut(PlacementRecord("1", {"t": (StreamPartition("", 0),)}, {}, {}), 100)


# The order of parent and child


def test_the_record_says_what_of_the_parent_comes_before_its_child() -> None:
    record = parse_record(GROWN)
    assert record.child_after == {StreamPartition("clicks", 16): ParentEnd(StreamPartition("clicks", 0), 1234)}
    assert record_tree(record) == GROWN


def test_a_record_whose_streams_never_grew_has_the_pinned_four_fields() -> None:
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


# Migrations


def test_a_plain_record_in_the_heads_place_is_format_0_and_is_read() -> None:
    head = read_head(PLACE, json.dumps(GROWN).encode())
    assert (head.format, head.generation, head.has_record) == (0, 0, True)
    assert join(PLACE, head, ()) == parse_record(GROWN)


def test_there_is_one_migration_for_each_older_format_and_each_leads_to_the_next() -> None:
    document: Tree = dict(PLAIN)
    for number, migration in enumerate(MIGRATIONS):
        document = migration(document, "app")
        assert document["format"] == number + 1
    assert number + 1 == FORMAT
    assert document == {"format": 1, "app": "app", "runId": "1", "record": PLAIN}


def test_migrations_run_in_order_from_the_format_found_and_change_no_input() -> None:
    def adding(name: str) -> Any:
        return lambda document, app: {**document, "steps": [*document.get("steps", []), f"{name} of {app}"]}

    chain = [adding("0 to 1"), adding("1 to 2"), adding("2 to 3")]
    start: Tree = {}
    assert migrate(start, 0, "a", chain)["steps"] == ["0 to 1 of a", "1 to 2 of a", "2 to 3 of a"]
    assert migrate(start, 2, "a", chain)["steps"] == ["2 to 3 of a"]
    assert migrate(start, 3, "a", chain) == start == {}


# Refusals


def changed(**fields: object) -> bytes:
    """A head somebody wrote by our rules, with other fields."""
    tree = json.loads(head_bytes("app", "1", 1, ["a" * 64]))
    del tree["checksum"]
    tree = {name: value for name, value in {**tree, **fields}.items() if value is not None}
    checksum = digest_of(json.dumps(tree, sort_keys=True, separators=(",", ":")).encode())
    return json.dumps({**tree, "checksum": checksum}).encode()


@pytest.mark.parametrize(
    ("value", "error", "why"),
    [
        (b"", RecordUnreadableError, "it is not JSON"),
        (b"\xff\xfe", RecordUnreadableError, "it is not JSON"),
        (b"[" * 100_000, RecordUnreadableError, "it is nested deeper than 64 levels"),
        (b"1" * 5000, RecordUnreadableError, "it is not JSON"),
        (b"[]", RecordForeignError, "it is no placement record, but a list"),
        (b"null", RecordForeignError, "it is no placement record, but a NoneType"),
        (b"{}", RecordForeignError, "but an object with nothing in it"),
        (b'{"leader": "me"}', RecordForeignError, "but an object with leader"),
        (json.dumps({**PLAIN, "runId": "2"}).encode(), RecordForeignError, "run 2, and not to app app, run 1"),
        (changed(format=FORMAT + 1), RecordNewerError, f"it has format {FORMAT + 1}, .* up to {FORMAT}: upgrade"),
        (b'{"format": 99}', RecordNewerError, "it has format 99"),
        (changed(format=0), RecordUnreadableError, "its format is 0"),
        (changed(format="1"), RecordUnreadableError, "its format is '1'"),
        (changed(format=True), RecordUnreadableError, "its format is True"),
        (changed(format=-1), RecordUnreadableError, "its format is -1"),
        (b'{"format": 1}', RecordUnreadableError, "its fields are not format, app, runId, generation, shards and ch"),
        (changed(shards=None), RecordUnreadableError, "its fields are not"),
        (changed(more=1), RecordUnreadableError, "its fields are not"),
        (changed(app="other"), RecordForeignError, "it belongs to app other, run 1, and not to app app, run 1"),
        (changed(runId="2"), RecordForeignError, "it belongs to app app, run 2, and not to app app, run 1"),
        (changed(generation="1"), RecordUnreadableError, "its generation is no number or its shards"),
        (changed(shards={}), RecordUnreadableError, "its generation is no number or its shards"),
        (changed(shards=["a"]), RecordUnreadableError, "its generation is no number or its shards"),
    ],
)
def test_what_is_no_head_of_ours_is_refused_by_key_and_by_what_was_found(
    value: bytes, error: type[HoldfastError], why: str
) -> None:
    with pytest.raises(error, match=f"^app/record/1/head can't be used: .*{why}"):
        read_head(PLACE, value)
    assert issubclass(error, UserActionError)


def test_a_plain_record_with_a_wrong_field_is_refused_by_field() -> None:
    head = read_head(PLACE, json.dumps({**PLAIN, "taskLocation": {"t": 1}}).encode())
    with pytest.raises(RecordUnreadableError, match=r"app/record/1/head can't be used: taskLocation\.t must be text"):
        join(PLACE, head, ())


def test_shards_that_hold_another_runs_record_are_refused() -> None:
    shards = cut(parse_record({**PLAIN, "runId": "2"}), 1000)
    with pytest.raises(RecordForeignError, match="run 2"):
        join(PLACE, read_head(PLACE, head_of(shards)), shards)


def test_no_flipped_bit_of_a_head_goes_unnoticed() -> None:
    whole = head_of(cut(parse_record(GROWN), 100))
    for bit in range(len(whole) * 8):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ContentUnreadableError, match="app/record/1/head"):
            read_head(PLACE, bytes(damaged))


@given(st.binary(max_size=200) | st.text().map(str.encode))
def test_any_bytes_in_place_of_a_head_are_refused_and_nothing_else_happens(value: bytes) -> None:
    with pytest.raises(ContentUnreadableError):
        read_head(PLACE, value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda some: st.lists(some, max_size=3)
)
FIELDS = st.sampled_from(["format", "app", "runId", "generation", "shards", "checksum", "grouping", "taskLocation"])


@given(st.dictionaries(FIELDS, JSON | st.sampled_from(["1", "app", 1, 0, {}])))
def test_any_json_in_place_of_a_head_is_a_plain_record_or_refused(tree: dict[str, Any]) -> None:
    try:
        head = read_head(PLACE, json.dumps(tree).encode())
        assert head.format == 0
        join(PLACE, head, ())
    except ContentUnreadableError as error:
        assert str(error).startswith("app/record/1/head can't be used")
