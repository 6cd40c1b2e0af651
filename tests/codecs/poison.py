"""Poison: records of every format, mutated in what is known to hurt, and what must hold for each of them.

A program of its own, since what it looks for may end its process: `python -m tests.codecs.poison RECORDS SEED`.
"""

import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa

from holdfast_runtime.steps.row_dicts import result_rows, row_dicts
from holdfast_runtime.streams.codecs import StringCodec, codec_for, event_times
from tests.codecs.poisoned_formats import (
    FORMAT_KINDS,
    Kind,
    Record,
    RecordsReader,
    exact_as_python_reads,
    valued,
)
from tests.codecs.poisoned_json import of_json, of_text
from tests.codecs.schemas import schema

DDL = (
    "a INT, b STRING, c DOUBLE, d TIMESTAMP, e STRUCT<x: ARRAY<INT>, y: DECIMAL(38,18), z: ARRAY<TIMESTAMP>>, "
    "f BOOLEAN, g DATE, h FLOAT, i TIMESTAMP_NTZ, j BINARY, k DECIMAL(10,2), l DECIMAL(38,0), m BIGINT, n DECIMAL(3,3)"
)
COLUMNS = schema(DDL)
MAPPED = schema("a INT, k DECIMAL(10,2), d TIMESTAMP, m MAP<STRING, STRUCT<y: DECIMAL(38,18), g: DATE>>")
WITHOUT_TIMES = schema("a INT, k DECIMAL(20,4), c DOUBLE, b STRING")
BATCH = 60
SOUND = 0.2
"""How many records of a batch are good for sure."""
MOST_MEMORY = 2 << 30
LONGEST_ALONE = 2.0
"""Seconds that one record may take."""


def _json(share: int, columns: pa.Schema, names: str) -> Kind:
    reader = lambda: RecordsReader.of(codec_for("json", columns))  # noqa: E731
    return Kind(share, reader, valued(lambda _: b"{}"), valued(of_json(names)), exact_as_python_reads)


KINDS: Mapping[str, Kind] = {
    "json": _json(60, COLUMNS, "abcdefghijklmn"),
    "json, without times": _json(15, WITHOUT_TIMES, "akcb"),
    "json, with a map": _json(15, MAPPED, "akdm"),
    "string": Kind(
        10, lambda: RecordsReader.of(StringCodec(schema("value STRING"))), valued(lambda _: b"x"), valued(of_text)
    ),
    **FORMAT_KINDS,
}


def batch_of(records: list[Record]) -> pa.RecordBatch:
    keys, values = zip(*records, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(keys, pa.binary()), pa.array(values, pa.binary())], ["key", "value"])


def fed(
    records: list[Record], sound: set[int], kind: Kind, together: RecordsReader, single: RecordsReader
) -> Counter[str]:
    """Decode these records together and one by one; what must hold is asserted."""
    decoded = together.decode(batch_of(records))
    decoded.rows.validate(full=True)
    assert decoded.rows.schema.equals(together.schema)
    bad = {record.index: record.reason for record in decoded.bad}
    places = [*decoded.good.tolist(), *bad, *decoded.nulls.tolist()]
    assert sorted(places) == list(range(len(records))), "a record is lost, or there twice"
    assert all(bad.values()), "a record is bad for no reason"
    assert decoded.good.tolist() == sorted(decoded.good.tolist())
    assert not sound & bad.keys(), [(shown(records[at]), bad[at]) for at in sound & bad.keys()]
    rows = row_dicts(decoded.rows)
    for row, index in enumerate(decoded.good.tolist()):
        check_alone(records[index], rows[row], kind, single)
    for index, reason in bad.items():
        decoded_again = decoded_alone(records[index], single)
        assert [record.reason for record in decoded_again.bad] == [reason], (
            f"among others {reason}: {shown(records[index])}"
        )
    taken_by_every_step(decoded.rows, rows, together)
    return Counter({"good": len(rows), "bad": len(bad), "null": len(decoded.nulls)})


def decoded_alone(record: Record, single: RecordsReader) -> Any:
    began = time.monotonic()
    decoded = single.decode(batch_of([record]))
    took = time.monotonic() - began
    assert took < LONGEST_ALONE, f"{took} s for {shown(record)}"
    return decoded


def check_alone(record: Record, row: dict[str, Any], kind: Kind, single: RecordsReader) -> None:
    decoded = decoded_alone(record, single)
    assert not decoded.bad, f"alone {decoded.bad}: {shown(record)}"
    assert repr(row_dicts(decoded.rows)) == repr([row]), f"{row_dicts(decoded.rows)} alone, {row} else: {shown(record)}"
    if kind.check is not None:
        try:
            kind.check(record, decoded.rows)
        except Exception as error:
            message = f"{error!r}, and it was read as {row}: {shown(record)}"
            raise AssertionError(message) from error


def taken_by_every_step(rows: pa.RecordBatch, dicts: list[dict[str, Any]], reader: RecordsReader) -> None:
    """Functions get values of Python's types, may give them back, and the rows can be written and read again."""
    again = result_rows(dicts, rows.schema)
    assert isinstance(again, pa.RecordBatch), again
    assert repr(again.to_pylist()) == repr(rows.to_pylist())
    for field in rows.schema:
        if pa.types.is_timestamp(field.type):
            event_times(rows, field.name)
            kinds = {type(one[field.name]) for one in dicts}
            assert kinds <= {datetime, type(None)}, kinds
    if reader.codec is None:
        return
    back = reader.codec.decode(reader.codec.encode(rows))
    assert not back.bad
    assert repr(row_dicts(back.rows)) == repr(dicts)


def shown(record: Record) -> str:
    content = repr(record)
    return content if len(content) < 600 else f"{content[:600]}... ({len(content)} characters)"


def main(records: int, seed: int) -> None:
    """Feed so many; say what became of them."""
    for name, kind in KINDS.items():
        draw = random.Random(f"{seed} {name}")  # noqa: S311 - to be drawn again
        together, single, outcome = kind.reader(), kind.reader(), Counter[str]()
        for _ in range(max(1, records * kind.share // 100 // BATCH)):
            sound = {index for index in range(BATCH) if draw.random() < SOUND}
            drawn = [kind.sound(draw) if index in sound else kind.poisoned(draw) for index in range(BATCH)]
            if draw.random() < 0.2:
                # So many that the fast way reads blocks of good ones.
                sound |= set(range(len(drawn), len(drawn) + 200))
                drawn += [kind.sound(draw) for _ in range(200)]
            outcome += fed(drawn, sound, kind, together, single)
        sys.stdout.write(f"{name}: {dict(outcome)}\n")
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert used < MOST_MEMORY, f"{used >> 20} MiB"


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
