"""Any columns and rows as lines of CSV, and any line, beside Python's `csv`, which knows no nulls."""

import csv
import io

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from holdfast_runtime.streams.codecs.csv import CsvCodec
from holdfast_runtime.streams.codecs.csv.compiled_writer import CompiledLineWriter
from holdfast_runtime.streams.codecs.csv.csv_format import CsvFormat
from holdfast_runtime.streams.codecs.csv.plain_writer import written_lines
from tests.codecs.csv.lines import FORMATS, readers
from tests.codecs.schemas import LEAVES, NAMES, batches, same

WRITTEN = st.sampled_from(FORMATS)
SCHEMAS = st.dictionaries(NAMES, LEAVES, min_size=1, max_size=5).map(lambda fields: pa.schema(list(fields.items())))
LINES = st.text(st.sampled_from('ab,;"\n\r é0\\N\ufeff'), max_size=14)


@given(SCHEMAS.flatmap(batches), WRITTEN, st.integers(0, 2))
def test_rows_come_back_from_the_lines_they_became(rows: pa.RecordBatch, written: CsvFormat, skipped: int) -> None:
    part = rows.slice(skipped)
    codec = CsvCodec(rows.schema, written)
    values = codec.encode(part)
    values.validate(full=True)
    decoded = codec.decode(values)
    assert not decoded.bad
    assert same(decoded.rows, part)
    assert readers(rows.schema, written)[1].read(values, 0).rows.to_pylist().__repr__() == repr(part.to_pylist())


@given(SCHEMAS.flatmap(batches), WRITTEN)
def test_both_writers_write_the_same_bytes(rows: pa.RecordBatch, written: CsvFormat) -> None:
    writer = CompiledLineWriter.of(rows.schema, written)
    assert writer is not None, "csv_lines.c is not built: `make setup`"
    compiled = writer.write(rows, b"")
    assert not isinstance(compiled, int)
    assert compiled.to_pylist() == written_lines(written, rows).cast(pa.binary()).to_pylist()


@given(SCHEMAS.flatmap(batches), WRITTEN)
def test_written_lines_are_csv_for_other_readers(rows: pa.RecordBatch, written: CsvFormat) -> None:
    columns = len(rows.schema)
    for line in written_lines(written, rows).to_pylist():
        (fields,) = by_python(line, written.delimiter) or [[""]]
        assert len(fields) == columns


def by_python(line: str, delimiter: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(line, newline=""), delimiter=delimiter, strict=True))


def is_plainly(line: str, fields: list[str], delimiter: str) -> bool:
    """Whether the line is these fields, each as it is or in quotes."""
    at = 0
    for number, field in enumerate(fields):
        if number:
            if not line.startswith(delimiter, at):
                return False
            at += 1
        in_quotes = '"' + field.replace('"', '""') + '"'
        if line.startswith(in_quotes, at):
            at += len(in_quotes)
        elif line.startswith(field, at) and not set(field) & {'"', "\n", "\r", delimiter}:
            at += len(field)
        else:
            return False
    return at == len(line)


@given(LINES, WRITTEN)
def test_lines_have_the_fields_that_python_finds(line: str, written: CsvFormat) -> None:
    try:
        rows = by_python(line, written.delimiter)
    except csv.Error:
        rows = []
    fields = rows[0] if rows else [""] if not line else []
    good = len(rows) <= 1 and bool(fields) and is_plainly(line, fields, written.delimiter)
    good = good and not line.startswith("\ufeff")
    columns = pa.schema([(f"c{number}", pa.string()) for number in range(len(fields) or 1)])
    for reader in readers(columns, written):
        read = reader.read(pa.array([line.encode()], pa.binary()), 0)
        assert bool(read.bad) != good
        if good:
            texts = [written.null if text is None else text for text in read.rows.to_pylist()[0].values()]
            assert texts == fields
