"""The codec of `format: json`: one JSON object per record, read by blocks and written by columns.

It reads a batch at once, by a compiled reader that leaves doubtful records to the judge, or by pyarrow's where much is
doubtful. If that fails, it halves the batch until few records are in doubt, and judges those one by one. So a bad
record costs at most about a second reading of one batch, and never the rows around it. Whether a record is good does
not depend on its neighbours: the judge decides, and the fast readers refuse whatever they might read differently.
Must not be silently lenient: a value of the wrong type makes a bad record.

It writes what Spark's `to_json` writes, by the compiled writer or column by column in pyarrow's C++: nulls are left
out, NaN and infinities are text, BINARY is base64, decimals are numbers. Unlike Spark it keeps microseconds: times are
ISO 8601 in UTC with three fractional digits, or six if needed. The same row gives the same bytes in any batch, or a
replay would write others.
"""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast_runtime.streams.codecs.arrow_types import SchemaUnsupportedError, compact
from holdfast_runtime.streams.codecs.codec import (
    RECORDS,
    BadRecord,
    DecodedBatch,
    Indices,
    present,
    require_schema,
)
from holdfast_runtime.streams.codecs.compiled_json_reader import CompiledJsonReader
from holdfast_runtime.streams.codecs.compiled_json_writer import write_objects
from holdfast_runtime.streams.codecs.json_judge import UnfitError, judge_of
from holdfast_runtime.streams.codecs.json_reader import FEW, JsonReader
from holdfast_runtime.streams.codecs.json_values import to_base64
from holdfast_runtime.streams.codecs.schema_ids import FRAME_BYTES, blank_frames
from holdfast_runtime.streams.codecs.written_texts import date_texts, floating_texts, time_texts
from holdfast_runtime.streams.records import stacked

_Judgement = tuple[pa.RecordBatch, Indices, list[tuple[int, str]]]
"""The rows of a block, the index of each row's record, and the bad records with their reasons."""


class JsonCodec:
    """`format: json`. Remembers how the producer writes timestamps, which affects speed but never results."""

    def __init__(self, schema: pa.Schema) -> None:
        for field in schema:
            _require_json(field.type, field.name)
        self.schema = schema
        self._judge = judge_of(schema)
        self._reader = None if any(_has_map(field.type) for field in schema) else JsonReader(schema)
        self._compiled_reader = CompiledJsonReader.of(schema)

    def decode(self, values: pa.BinaryArray, *, framed: bool = False) -> DecodedBatch:
        """Return one row for each record that is a JSON object of fitting values, if `framed` behind a schema's id."""
        present_values, indices, nulls = present(values)
        judgement = self._undoubted(present_values, framed=framed)
        rows, fitting, unfit = judgement or self._halved(_unframed(present_values, framed=framed))
        bad = tuple(BadRecord(int(indices[index]), reason) for index, reason in unfit)
        return DecodedBatch(rows, indices[fitting], bad, nulls)

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return one JSON object per row, without null columns."""
        require_schema(rows, self.schema)
        objects = write_objects(rows, _text)
        return json_objects(rows).cast(pa.binary()) if objects is None else objects

    def _undoubted(self, block: pa.BinaryArray, *, framed: bool) -> _Judgement | None:
        reader, frame_bytes = self._compiled_reader, FRAME_BYTES if framed else 0
        undoubted = None if reader is None else reader.read(block, frame_bytes)
        if undoubted is None:
            return None
        rows, doubtful, good = undoubted.rows, undoubted.doubtful, np.arange(len(block))
        if not len(doubtful):
            return rows, good, []
        judged, fitting, unfit = self._judged(_unframed(block.take(pa.array(doubtful)), framed=framed))
        good = np.delete(good, doubtful)
        if len(fitting):
            good = np.concatenate([good, doubtful[fitting]])
            order = np.argsort(good)
            rows, good = stacked([rows, judged], self.schema, RECORDS).take(pa.array(order)), good[order]
        return rows, good, [(int(doubtful[index]), reason) for index, reason in unfit]

    def _halved(self, block: pa.BinaryArray) -> _Judgement:
        pieces: list[pa.RecordBatch] = []
        fitting_indices: list[Indices] = []
        bad: list[tuple[int, str]] = []
        stack = [(0, len(block))] if len(block) else []
        while stack:
            start, stop = stack.pop()
            part = block.slice(start, stop - start)
            rows = self._reader.read(part) if self._reader else None
            if rows is not None:
                pieces.append(rows)
                fitting_indices.append(np.arange(start, stop))
            elif stop - start > FEW and self._reader:
                middle = (start + stop) // 2
                stack += [(middle, stop), (start, middle)]
            else:
                rows, fitting, unfit = self._judged(part)
                pieces.append(rows)
                fitting_indices.append(start + fitting)
                bad += [(start + index, reason) for index, reason in unfit]
        good = np.concatenate(fitting_indices) if fitting_indices else np.arange(0)
        return stacked(pieces, self.schema, RECORDS), good, bad

    def _judged(self, block: pa.BinaryArray) -> _Judgement:
        pieces: list[pa.RecordBatch] = []
        row_dicts: list[dict[str, Any]] = []
        fitting: list[int] = []
        unfit: list[tuple[int, str]] = []
        for index, raw in enumerate(block.to_pylist()):
            try:
                row_dicts.append(self._judge(raw))
            except UnfitError as error:
                # With other neighbours, the fast reader may have accepted the record; then it must be good here too.
                row = self._reader.read_alone(block.slice(index, 1)) if self._reader and not error.sure else None
                if row is None:
                    unfit.append((index, str(error)))
                    continue
                pieces += [self._rows(row_dicts), row]
                row_dicts = []
            fitting.append(index)
        return stacked([*pieces, self._rows(row_dicts)], self.schema, RECORDS), np.array(fitting, np.int64), unfit

    def _rows(self, row_dicts: list[dict[str, Any]]) -> pa.RecordBatch:
        if not self.schema.names:
            return pa.RecordBatch.from_struct_array(pa.array(row_dicts, pa.struct([])))
        columns = [pa.array([row[field.name] for row in row_dicts], field.type) for field in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _unframed(block: pa.BinaryArray, *, framed: bool) -> pa.BinaryArray:
    # A space may stand before an object.
    return blank_frames(block) if framed else block


def _require_json(kind: pa.DataType, column: str) -> None:
    if pa.types.is_duration(kind) or pa.types.is_time(kind):
        message = f"column {column} is {kind}, which JSON records don't carry; declare it as STRING or BIGINT"
        raise SchemaUnsupportedError(message)
    if pa.types.is_map(kind) and not pa.types.is_string(kind.key_type):
        message = f"column {column} is a map with keys of {kind.key_type}; the names in a JSON object are STRING"
        raise SchemaUnsupportedError(message)
    for index in range(kind.num_fields):
        _require_json(kind.field(index).type, column)


def _has_map(kind: pa.DataType) -> bool:
    return bool(pa.types.is_map(kind)) or any(_has_map(kind.field(index).type) for index in range(kind.num_fields))


CONTROL = [chr(code) for code in range(0x20)]
_SPECIAL = np.isin(np.arange(256), [*range(0x20), ord('"'), ord("\\")])


def json_objects(rows: pa.RecordBatch) -> pa.StringArray:
    """Return one JSON object per row."""
    return _object(rows.schema.names, rows.columns, rows.num_rows, "")


def _object(names: list[str], columns: list[pa.Array], length: int, path: str) -> pa.StringArray:
    members = [(name, column) for name, column in zip(names, columns, strict=True) if not pa.types.is_null(column.type)]
    if not members:
        return pa.array(["{}"] * length, pa.string())
    # Each member brings its comma, and the first comma is removed again if the first column may be absent: pyarrow's
    # join that skips nulls makes no rows at all from arrays that are all null.
    first_is_sure = members[0][1].null_count == 0
    parts: list[pa.Array | str] = ["{"]
    for number, (name, column) in enumerate(members):
        comma = "" if first_is_sure and number == 0 else ","
        head = f"{comma}{json.dumps(name, ensure_ascii=False)}:"
        if column.null_count:
            parts.append(pc.fill_null(_text(column, f"{path}{name}", head), ""))
        elif pa.types.is_string(column.type):
            parts += [f'{head}"', _escaped(column), '"']
        else:
            parts += [head, _text(column, f"{path}{name}")]
    objects = pc.binary_join_element_wise(*_fewer([*parts, "}"]), "")
    return (
        objects if first_is_sure else pc.replace_substring(objects, pattern="{,", replacement="{", max_replacements=1)
    )


def _fewer(parts: list[pa.Array | str]) -> list[pa.Array | str]:
    """Return the same parts with adjacent texts merged."""
    merged: list[pa.Array | str] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        else:
            merged.append(part)
    return merged


def _text(array: pa.Array, path: str, head: str = "") -> pa.StringArray:  # noqa: PLR0911 - one per family of types
    """Return the JSON text of each value behind `head`; null stays null."""
    kind = array.type
    if pa.types.is_string(kind):
        return _around(f'{head}"', _escaped(array), '"')
    if pa.types.is_binary(kind):
        return _around(f'{head}"', to_base64(array), '"')
    if pa.types.is_timestamp(kind):
        return _around(f'{head}"', time_texts(array, path), '"')
    if pa.types.is_date(kind):
        return _around(f'{head}"', date_texts(array, path), '"')
    if pa.types.is_floating(kind):
        return _around(head, floating_texts(array, around='"'))
    if pa.types.is_struct(kind):
        inside = _object([field.name for field in kind], compact(array).flatten(), len(array), f"{path}.")
        return _around(head, pc.if_else(array.is_valid(), inside, pa.scalar(None, pa.string())))
    if pa.types.is_map(kind):
        entries = compact(array).cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
        keys, values = entries.flatten().flatten()
        pairs = pc.binary_join_element_wise(_text(keys, path), _elements(values, path), ":")
        return _around(f"{head}{{", _joined(entries, pairs), "}")
    if pa.types.is_list(kind):
        return _around(f"{head}[", _joined(array, _elements(compact(array).flatten(), path)), "]")
    return _around(head, array.cast(pa.string()))


def _around(before: str, texts: pa.StringArray, after: str = "") -> pa.StringArray:
    if not before and not after:
        return texts
    return (
        pc.binary_join_element_wise(before, texts, after, "")
        if after
        else pc.binary_join_element_wise(before, texts, "")
    )


def _elements(values: pa.Array, path: str) -> pa.StringArray:
    """Return the texts of elements; inside arrays and maps a null keeps its place."""
    if pa.types.is_null(values.type):
        return pa.array(["null"] * len(values), pa.string())
    return pc.fill_null(_text(values, path), "null")


def _joined(lists: pa.Array, elements: pa.StringArray) -> pa.StringArray:
    """Join the elements of each list with commas; `elements` are those of all non-null lists."""
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy()
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), elements, mask=lists.is_null()), ",")


def _escaped(texts: pa.StringArray) -> pa.StringArray:
    if not _any_special(texts):
        return texts
    texts = pc.replace_substring(texts, pattern="\\", replacement="\\\\")
    texts = pc.replace_substring(texts, pattern='"', replacement='\\"')
    if pc.any(pc.match_substring_regex(texts, pattern=r"[\x00-\x1f]")).as_py():
        for char in CONTROL:
            texts = pc.replace_substring(texts, pattern=char, replacement=json.dumps(char)[1:-1])
    return texts


def _any_special(texts: pa.StringArray) -> bool:
    """Whether there is anything to escape: one scan of all bytes, after which most batches are done."""
    _, ends, data = texts.buffers()
    if not len(texts) or data is None:
        return False
    first, last = np.frombuffer(ends, np.int32)[[texts.offset, texts.offset + len(texts)]]
    content = np.frombuffer(data, np.uint8)[first:last]
    return bool(_SPECIAL[content].any())
