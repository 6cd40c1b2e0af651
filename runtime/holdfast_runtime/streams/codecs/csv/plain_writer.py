"""Rows as lines of CSV by pyarrow's kernels: where nothing is compiled, and for what the compiled writer leaves.

A field is quoted only where it would be read as something else: an empty text, or what stands for null, too. Must write
the bytes that the compiled writer does, or a replay would write others.
"""

import re

import pyarrow as pa
import pyarrow.compute as pc

from holdfast_runtime.streams.codecs.csv.csv_format import BYTE_ORDER_MARK, QUOTE, CsvFormat
from holdfast_runtime.streams.codecs.json_values import to_base64
from holdfast_runtime.streams.codecs.written_texts import date_texts, floating_texts, time_texts


def written_lines(written: CsvFormat, rows: pa.RecordBatch) -> pa.StringArray:
    """Return one line per row; raise `EncodeError` for a time that has no text."""
    if not rows.num_columns:
        return pa.array([""] * rows.num_rows, pa.string())
    fields = (
        _field(field_texts(column, name), written) for name, column in zip(rows.schema.names, rows.columns, strict=True)
    )
    return pc.binary_join_element_wise(*fields, written.delimiter)


def field_texts(column: pa.Array, name: str) -> pa.StringArray:
    """Return the text of each value, without quotes; null stays null."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return time_texts(column, name)
    if pa.types.is_date(kind):
        return date_texts(column, name)
    if pa.types.is_floating(kind):
        return floating_texts(column)
    return to_base64(column) if pa.types.is_binary(kind) else column.cast(pa.string())


def _field(texts: pa.StringArray, written: CsvFormat) -> pa.StringArray:
    special = rf"\A{BYTE_ORDER_MARK}|\A\z|\A{re.escape(written.null)}\z|[{re.escape(written.delimiter)}{QUOTE}\r\n]"
    doubled = pc.replace_substring(texts, pattern=QUOTE, replacement=QUOTE + QUOTE)
    quoted = pc.binary_join_element_wise(QUOTE, doubled, QUOTE, "")
    return pc.if_else(pc.match_substring_regex(texts, pattern=special), quoted, texts).fill_null(written.null)
