import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.control.messages import (
    END_OF_TIME,
    ControlRecordError,
    EndOfStreamMessage,
    MessageNumber,
    RecordKind,
    StreamRecord,
    UserRecord,
    WatermarkMessage,
    decode,
    encode,
    kind_of,
)
from holdfast.control.runs import WriterRun
from tests.error_codes import has_code

NUMBERS = st.integers(0, END_OF_TIME - 1)
MESSAGE_NUMBERS = st.builds(MessageNumber, NUMBERS, NUMBERS)
NAMES = st.text(min_size=1)
SENDERS = st.one_of(
    st.tuples(NAMES, st.integers(1, END_OF_TIME - 1)),
    st.tuples(st.none(), st.none() | st.integers(1, END_OF_TIME - 1)),
)
RUNS = st.none() | st.builds(WriterRun, NAMES, NUMBERS)
RECORDS: st.SearchStrategy[StreamRecord] = st.one_of(
    st.builds(UserRecord, st.binary(), st.integers(0, 999)),
    st.builds(
        lambda time, at, who, run, idle: WatermarkMessage(time, at, who[0], who[1], run, idle),
        st.integers(-(2**63), END_OF_TIME - 1),
        MESSAGE_NUMBERS,
        SENDERS,
        RUNS,
        st.booleans(),
    ),
    st.builds(
        lambda stream, at, who, run: EndOfStreamMessage(stream, at, who[0], who[1], run),
        NAMES,
        MESSAGE_NUMBERS,
        SENDERS,
        RUNS,
    ),
)
PAYLOAD = {"version": 1, "taskName": "a", "taskCount": 2, "timestamp": 5, "batch": 0, "sequence": 0}


def control(kind: int = 1, **changes: object) -> bytes:
    return bytes((kind,)) + json.dumps(PAYLOAD | changes).encode()


@given(RECORDS)
def test_what_is_encoded_is_decoded(record: StreamRecord) -> None:
    assert decode(encode(record)) == record


@given(st.one_of(st.binary(), st.builds(lambda kind, rest: bytes((kind,)) + rest, st.integers(0, 3), st.binary())))
@example(b"\x01" + b"[" * 100_000)
@example(b"\x01" + b"9" * 5_000)
@example(b"\x01\xff\xfe{\x00}\x00")
@example(b'\x02{"version":1,"taskName":"\\ud800","taskCount":1,"streamId":"s","batch":0,"sequence":0}')
def test_any_bytes_are_a_record_or_a_typed_error(value: bytes) -> None:
    try:
        record = decode(value)
    except ControlRecordError:
        return
    assert decode(encode(record)) == record


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=4,
)


@given(st.sampled_from([1, 2]), st.dictionaries(st.sampled_from([*PAYLOAD, "streamId", "more"]), JSON))
def test_any_payload_is_a_message_or_a_typed_error(kind: int, changes: dict[str, object]) -> None:
    try:
        record = decode(control(kind, **changes))
    except ControlRecordError:
        return
    assert decode(encode(record)) == record


def test_a_control_message_is_a_type_byte_and_json() -> None:
    value = encode(WatermarkMessage(1700000000000, MessageNumber(7, 0), "partition-3", 16))
    assert value[:1] == b"\x01"
    assert json.loads(value[1:]) == {
        "version": 1,
        "taskName": "partition-3",
        "taskCount": 16,
        "timestamp": 1700000000000,
        "batch": 7,
        "sequence": 0,
    }
    end = encode(EndOfStreamMessage("clicks", MessageNumber(7, 1)))
    assert end[:1] == b"\x02"
    assert json.loads(end[1:]) == {
        "version": 1,
        "taskName": None,
        "taskCount": None,
        "streamId": "clicks",
        "batch": 7,
        "sequence": 1,
    }


def test_later_fields_of_the_same_version_are_passed_over() -> None:
    assert decode(control(drain="run-7")) == WatermarkMessage(5, MessageNumber(0, 0), "a", 2)


def test_the_kind_is_told_by_the_first_byte_alone() -> None:
    assert [kind_of(byte) for byte in (0, 1, 2, 3, 4, 255)] == [
        RecordKind.USER,
        RecordKind.WATERMARK,
        RecordKind.END_OF_STREAM,
        RecordKind.USER_WITH_MICROS,
        None,
        None,
    ]


@pytest.mark.parametrize("value", [b'{"ad_id": "x", "user": "y"}', b"", None])
def test_an_unknown_type_byte_names_place_and_likely_causes(value: bytes | None) -> None:
    with pytest.raises(ControlRecordError, check=has_code("UnknownTypeByteError")) as refused:
        decode(value, "clicks/3 at offset 17")
    text = str(refused.value)
    assert text.startswith("clicks/3 at offset 17 ")
    for cause in ("no intermediate stream of Holdfast", "`control: true` is set by mistake", "a newer release"):
        assert cause in text
    if value:
        assert 'type byte 123 (first bytes 7b 22 61 64 5f 69 64 22 3a 20 22 78, as text b\'{"ad_id": "x\')' in text


@pytest.mark.parametrize(
    ("value", "description"),
    [(b"\x03", "not nothing"), (b"\x03\x01", "not 01"), (b"\x03\0\0{}", "not 00 00"), (b"\x03\x03\xe8", "not 03 e8")],
)
def test_microseconds_that_no_row_has_are_refused_with_the_place(value: bytes, description: str) -> None:
    with pytest.raises(
        ControlRecordError, match=f"1 to 999 microseconds follow, and {description}; likely causes"
    ) as refused:
        decode(value, "clicks/3 at offset 17")
    assert str(refused.value).startswith("clicks/3 at offset 17 starts with type byte 3")


def test_a_row_at_a_whole_millisecond_takes_no_byte_more() -> None:
    assert encode(UserRecord(b"{}")) == b"\0{}"
    assert encode(UserRecord(b"{}", 400)) == b"\x03\x01\x90{}"


def test_a_newer_version_says_which_app_to_upgrade_first() -> None:
    with pytest.raises(
        ControlRecordError,
        match="version 2, and this release reads version 1: upgrade the app that",
        check=has_code("ControlVersionError"),
    ):
        decode(control(version=2))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"\x01{", "its payload is no JSON"),
        (b"\x01[]", "its payload is list and not an object"),
        (control(version="1"), "version is '1'; it must be a whole number from 0 on"),
        (control(timestamp=True), "timestamp is True; it must be a whole number from"),
        (control(timestamp=END_OF_TIME), "timestamp is 9223372036854775807"),
        (control(taskCount=0), "taskCount is 0; it must be a whole number from 1 on"),
        (control(taskCount=None), "taskCount is None"),
        (control(run=7), "run is 7; it must be text"),
        (control(run="a/1/b"), "attempt is None; it must be a whole number"),
        (control(taskName=""), "taskName is ''; it must be text"),
        (control(batch=-1), "batch is -1"),
        (control(kind=2), "streamId is None; it must be text"),
    ],
)
def test_a_payload_that_can_not_be_is_refused_by_field(value: bytes, message: str) -> None:
    with pytest.raises(ControlRecordError, check=has_code("ControlPayloadError")) as refused:
        decode(value)
    assert message in str(refused.value)


def test_what_nobody_could_read_is_not_written() -> None:
    with pytest.raises(
        ControlRecordError,
        match=r"a control message to be written .*taskCount is None",
        check=has_code("ControlPayloadError"),
    ):
        encode(WatermarkMessage(5, MessageNumber(0, 0), "a"))
