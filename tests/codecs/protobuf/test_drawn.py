"""Any messages and values: google.protobuf writes the records that are read, and reads those that are written."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from holdfast.planning.types.protobuf.columns import columns_of
from holdfast.planning.types.protobuf.fields import meeting
from holdfast.planning.types.protobuf.text import parse_proto
from holdfast_runtime.streams.codecs.arrow_types import arrow_schema
from holdfast_runtime.streams.codecs.protobuf.compiled_reader import CompiledMessageReader
from holdfast_runtime.streams.codecs.protobuf.plain_writer import written_messages
from holdfast_runtime.streams.codecs.protobuf.protobuf_judge import ProtobufJudge
from holdfast_runtime.streams.codecs.record_reader import RecordReader
from tests.codecs.avro.records import bare_rows
from tests.codecs.protobuf.drawn import Case, cases
from tests.codecs.protobuf.messages import bare_message, codec_of
from tests.codecs.schemas import binary

DAMAGE = st.lists(st.tuples(st.integers(0, 200), st.integers(-2, 7)), min_size=1, max_size=3)
"""A place, and the bit there that is flipped; -1 cuts what is behind it, -2 writes that twice."""


def ordered(value: Any) -> Any:
    """The same with pairs, which maps are, in an order of their own: that of a map says nothing."""
    if isinstance(value, tuple):
        return tuple(ordered(item) for item in value)
    if not isinstance(value, list):
        return value
    items = [ordered(item) for item in value]
    return sorted(items, key=repr) if all(isinstance(item, tuple) and len(item) == 2 for item in items) else items


@given(cases())
def test_messages_are_read_as_google_reads_them(case: Case) -> None:
    values = pa.array([message.SerializeToString() for message in case.messages], pa.binary())
    decoded = codec_of(parse_proto(case.text, message="Root")).decode(values)
    assert not decoded.bad
    expected = [bare_message(message) for message in case.messages]
    assert repr(ordered(bare_rows(decoded.rows) or [()] * len(values))) == repr(ordered(expected))


@given(cases(), st.data())
def test_rows_are_written_as_messages_of_the_same_values(case: Case, data: st.DataObject) -> None:
    values = pa.array([message.SerializeToString() for message in case.messages], pa.binary())
    schema = parse_proto(case.text, message="Root")
    codec = codec_of(schema)
    rows = codec.decode(values).rows
    first = data.draw(st.integers(0, rows.num_rows))
    written = codec.encode(rows.slice(first)).to_pylist()
    assert [case.made.FromString(value) for value in written] == case.messages[first:]
    assert written_messages(meeting(schema, columns_of(schema)).program, rows.slice(first)) == written


@given(cases(), st.data())
def test_damaged_messages_are_read_as_the_law_says(case: Case, data: st.DataObject) -> None:
    values = [message.SerializeToString() for message in case.messages]
    for raw in list(values):
        content = bytearray(raw)
        for place, bit in data.draw(DAMAGE):
            if bit == -1:
                del content[place:]
            elif bit == -2:
                content[place:place] = content[place:]
            elif place < len(content):
                content[place] ^= 1 << bit
        values.insert(data.draw(st.integers(0, len(values))), bytes(content))
    schema = parse_proto(case.text, message="Root")
    columns = columns_of(schema)
    program, arrow = meeting(schema, columns).program, arrow_schema(columns)
    reader, judge = CompiledMessageReader.of(program, arrow), ProtobufJudge(program).read
    assert reader is not None, "protobuf_records.c is not built: `make setup`"
    array = binary(b"before", *values, b"behind").slice(1, len(values))
    read, judged = RecordReader(arrow, judge, reader).read(array, 0), RecordReader(arrow, judge, None).read(array, 0)
    assert read.bad == judged.bad
    assert read.good.tolist() == judged.good.tolist()
    assert repr(bare_rows(read.rows)) == repr(bare_rows(judged.rows))
