"""Any schema, columns and values: fastavro writes the records that are read, and reads those that are written."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from holdfast.planning.types.avro.reading import reading
from holdfast.planning.types.avro.writing import writing
from holdfast_runtime.streams.codecs.arrow_types import arrow_schema
from holdfast_runtime.streams.codecs.avro.avro_judge import AvroJudge
from holdfast_runtime.streams.codecs.avro.compiled_reader import CompiledReader
from holdfast_runtime.streams.codecs.avro.plain_writer import written_rows
from holdfast_runtime.streams.codecs.record_reader import UnreadableError, judged_rows
from tests.codecs.avro.drawn import Drawn, drawn
from tests.codecs.avro.records import bare_rows, by_fastavro, codec_of, parsed
from tests.codecs.schemas import binary

DAMAGE = st.lists(st.tuples(st.integers(0, 200), st.integers(-1, 7)), min_size=1, max_size=3)
"""A place, and the bit there that is flipped; -1 cuts what is behind it."""


def judged(judge: AvroJudge, values: pa.BinaryArray, schema: pa.Schema) -> tuple[pa.RecordBatch, list[int]]:
    """What the law says: the rows, and the records that are none."""
    rows, bad = [], []
    for index, raw in enumerate(values.to_pylist()):
        try:
            rows.append(judge.read(raw))
        except UnreadableError:
            bad.append(index)
    return judged_rows(rows, schema), bad


@given(drawn())
def test_records_are_read_into_any_columns_that_fit(case: Drawn) -> None:
    values = by_fastavro(case.tree, *case.records)
    decoded = codec_of(case.tree, case.columns).decode(values)
    assert not decoded.bad
    assert bare_rows(decoded.rows) == case.rows


@given(drawn(), st.data())
def test_damaged_records_are_read_as_the_law_says(case: Drawn, data: st.DataObject) -> None:
    values = by_fastavro(case.tree, *case.records).to_pylist()
    for raw in list(values):
        content = bytearray(raw)
        for place, bit in data.draw(DAMAGE):
            if bit < 0:
                del content[place:]
            elif place < len(content):
                content[place] ^= 1 << bit
        values.insert(data.draw(st.integers(0, len(values))), bytes(content))
    schema, program = arrow_schema(case.columns), reading(parsed(case.tree), case.columns).program
    reader = CompiledReader.of(program, schema)
    assert reader is not None, "avro_records.c is not built: `make setup`"
    array = binary(b"before", *values, b"behind").slice(1, len(values))
    undoubted = reader.read(array, 0)
    rows, bad = judged(AvroJudge(program), array, schema)
    assert undoubted.doubtful.tolist() == bad
    assert repr(bare_rows(undoubted.rows)) == repr(bare_rows(rows))


@given(drawn(exact=True))
def test_rows_are_written_as_fastavro_writes_them(case: Drawn) -> None:
    values = by_fastavro(case.tree, *case.records)
    codec = codec_of(case.tree)
    rows = codec.decode(values).rows
    assert codec.encode(rows).to_pylist() == values.to_pylist()
    assert written_rows(writing(parsed(case.tree), case.columns).program, rows) == values.to_pylist()


@given(drawn(exact=True), st.data())
def test_slices_of_rows_are_written_alike(case: Drawn, data: st.DataObject) -> None:
    values = by_fastavro(case.tree, *case.records)
    codec = codec_of(case.tree)
    rows = codec.decode(values).rows
    first = data.draw(st.integers(0, len(values)))
    count = data.draw(st.integers(0, len(values) - first))
    expected: list[Any] = values.slice(first, count).to_pylist()
    assert codec.encode(rows.slice(first, count)).to_pylist() == expected
    program = writing(parsed(case.tree), case.columns).program
    assert written_rows(program, rows.slice(first, count)) == expected
