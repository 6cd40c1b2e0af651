import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.control.bookkeeping import (
    Bookkeeping,
    ControlInputs,
    StoredBookkeepingError,
    end_bytes,
    end_in,
    key_of,
    watermark_bytes,
    watermark_in,
)
from holdfast.control.producers import Delivery
from tests.control.histories import (
    IDLE_AFTER,
    MID,
    PARTITIONS,
    SOURCE,
    TASKS,
    Batch,
    any_inputs,
    histories,
    inputs,
    lived,
    said,
)
from tests.error_codes import has_code

Store = dict[bytes, bytes]


def written(store: Store, changes: dict[bytes, bytes | None]) -> Store:
    merged = {**store, **changes}
    return {key: value for key, value in merged.items() if value is not None}


@given(histories(), any_inputs, st.data())
def test_a_task_stored_and_restored_anywhere_lives_on_unchanged(
    history: list[Batch], control_inputs: ControlInputs, data: st.DataObject
) -> None:
    whole = resumed = Bookkeeping.started(control_inputs, 0)
    store = written({}, resumed.entries())
    for batch in history:
        whole = whole.batch(batch.deliveries, batch.now)
        after = resumed.batch(batch.deliveries, batch.now)
        store = written(store, after.entries(resumed))
        assert store == written({}, after.entries()), "what changed must be all that changed"
        resumed = Bookkeeping.restored(store, control_inputs, batch.now) if data.draw(st.booleans()) else after
        assert resumed == whole


@given(histories(), any_inputs, st.data())
def test_replays_change_nothing_wherever_they_come(
    history: list[Batch], control_inputs: ControlInputs, data: st.DataObject
) -> None:
    clean = replayed = Bookkeeping.started(control_inputs, 0)
    before: list[Delivery] = []
    for batch in history:
        clean = clean.batch(batch.deliveries, batch.now)
        doubled: list[Delivery] = []
        for delivery in batch.deliveries:
            before.append(delivery)
            doubled += [delivery, *data.draw(st.lists(st.sampled_from(before), max_size=2))]
        suffix = before[data.draw(st.integers(0, len(before))) :]
        replayed = replayed.batch([*doubled, *suffix], batch.now)
        assert replayed == clean


@given(histories(), any_inputs)
def test_watermarks_and_ends_agree_on_what_has_ended(history: list[Batch], control_inputs: ControlInputs) -> None:
    state = lived(history, Bookkeeping.started(control_inputs, 0))
    for partition in PARTITIONS:
        watermark = state.watermarks.partitions[partition]
        assert watermark.ended(state.watermarks.rule(partition)) == state.ends.partitions[partition].ended, partition


def test_a_batch_without_any_message_looks_at_the_clock_too() -> None:
    state = Bookkeeping.started(inputs(), 0).batch([said(1, task, 0) for task in TASKS], 0)
    state = state.batch([said(50, "a", 1)], IDLE_AFTER - 1)
    assert state.batch([], IDLE_AFTER).watermarks.of(MID[0]) == 50


def test_only_partitions_that_changed_are_written() -> None:
    control_inputs = inputs(idle_after=None)
    state = Bookkeeping.started(control_inputs, 0)
    assert state.batch([], 5).entries(state) == {}
    assert list(state.batch([said(5, "a", 0)], 5).entries(state)) == [key_of("watermark", MID[0])]


def test_partitions_that_left_are_deleted() -> None:
    state = Bookkeeping.started(inputs(), 0)
    fewer = ControlInputs((SOURCE,), {})
    changes = state.tracking(fewer, 5).entries(state)
    assert changes[key_of("end", MID[1])] is None
    assert Bookkeeping.restored(written(written({}, state.entries()), changes), fewer, 5) == state.tracking(fewer, 5)


@given(st.one_of(st.binary(), st.binary(max_size=80).map(lambda rest: b"\x02" + rest)))
@example(b"\x02" + b"[" * 100_000)
@example(b'\x02[true,0,["a",["b"]]]')
@example(b"\x02[false,0,[[]]]")
@example(b"\x02[NaN,0,[]]")
def test_any_stored_bytes_are_read_or_a_typed_error(value: bytes) -> None:
    for read in (
        lambda: watermark_in(value, MID[0]),
        lambda: end_in(value, MID[0]),
    ):
        try:
            read()
        except StoredBookkeepingError as error:
            assert "mid" in str(error)


@given(histories(), st.data())
def test_damaged_entries_are_read_or_a_typed_error(history: list[Batch], data: st.DataObject) -> None:
    state = lived(history, Bookkeeping.started(inputs(), 0))
    store = written({}, state.entries())
    key = data.draw(st.sampled_from(sorted(store)))
    value = bytearray(store[key])
    value[data.draw(st.integers(0, len(value) - 1))] ^= data.draw(st.integers(1, 255))
    del value[data.draw(st.integers(0, len(value))) :]
    try:
        Bookkeeping.restored({**store, key: bytes(value)}, inputs(), 0)
    except StoredBookkeepingError:
        return


def test_a_format_of_a_newer_release_says_what_to_do() -> None:
    known = Bookkeeping.started(inputs(), 0)
    newer = b"\x04" + watermark_bytes(known.watermarks.partitions[MID[0]])[1:]
    with pytest.raises(
        StoredBookkeepingError,
        match="the watermark of mid/0 is stored in format 4, and this release reads",
        check=has_code("StoredVersionError"),
    ):
        Bookkeeping.restored({key_of("watermark", MID[0]): newer}, inputs(), 0)
    with pytest.raises(
        StoredBookkeepingError, match="run the release that wrote it", check=has_code("StoredVersionError")
    ):
        end_in(b"\x04" + end_bytes(known.ends.partitions[MID[0]])[1:], MID[0])


def test_entries_from_before_idleness_was_said_are_read() -> None:
    known = Bookkeeping.started(inputs(), 0).batch([said(10, task, 0) for task in TASKS], 7).watermarks
    value = watermark_bytes(known.partitions[MID[0]])
    rows = value[-len(TASKS) * 40 :]
    older = b"\x02" + value[1 : -len(rows)] + b"".join(rows[at * 40 : at * 40 + 32] for at in range(len(TASKS)))
    assert watermark_in(older, MID[0]) == known.partitions[MID[0]]


@pytest.mark.parametrize("key", [b"watermark", b"watermark/mid", b"table/mid/0", b"\xff"])
def test_a_key_that_is_none_is_a_typed_error(key: bytes) -> None:
    with pytest.raises(StoredBookkeepingError, match="has an entry"):
        Bookkeeping.restored({key: b""}, inputs(), 0)
