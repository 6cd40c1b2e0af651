"""How fast each codec decodes and encodes, beside other ways to read and write the same JSON records.

One thread, the same 200 000 records of about 153 bytes and six columns, the median of five runs. Rows are checked to be
equal before a figure is printed. `python bench/codecs.py`.
"""

import json
import random
import statistics
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa

from holdfast.planning.types.ddl import parse_schema
from holdfast_runtime.streams.codecs import BinaryCodec, JsonCodec, StringCodec, arrow_schema
from holdfast_runtime.streams.codecs.csv import CsvCodec
from holdfast_runtime.streams.codecs.csv.csv_format import CsvFormat
from holdfast_runtime.streams.codecs.json_codec import json_objects
from holdfast_runtime.streams.codecs.json_reader import JsonReader

COUNT, RUNS, FEW = 200_000, 5, 20
DDL = "ad_id STRING, campaign STRING, user STRING, ts TIMESTAMP, price DOUBLE, count BIGINT"
SCHEMA = arrow_schema(parse_schema(DDL))
TEXT_TIMES = pa.schema([pa.field(f.name, pa.string() if f.name == "ts" else f.type) for f in SCHEMA])


def records() -> pa.BinaryArray:
    """The records, as a producer in Python would write them."""
    pick, start = random.Random(1), datetime.fromisoformat("2024-01-01T00:00:00+00:00")
    return pa.array([json.dumps(_record(pick, start, at)).encode() for at in range(COUNT)], pa.binary())


def _record(pick: random.Random, start: datetime, at: int) -> dict[str, Any]:
    stamp = (start + timedelta(milliseconds=at * 37)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {
        "ad_id": f"ad-{pick.randrange(10**6):07d}",
        "campaign": f"campaign-{pick.randrange(5000)}",
        "user": f"user-{pick.getrandbits(64):016x}",
        "ts": stamp,
        "price": round(pick.random() * 100, 4),
        "count": pick.randrange(10**6),
    }


def report(name: str, count: int, way: Callable[[], Any]) -> Any:
    """Print one row; returns what the way made."""
    seconds, cpu = [], []
    for _ in range(RUNS):
        began, used = time.perf_counter(), time.process_time()
        made = way()
        seconds.append(time.perf_counter() - began)
        cpu.append(time.process_time() - used)
    print(
        f"{name:<58} {count / statistics.median(seconds):>12,.0f} {count / max(1e-9, statistics.median(cpu)):>12,.0f}"
    )
    return made


def with_bad(values: pa.BinaryArray, every: int) -> pa.BinaryArray:
    """The same records, each `every`-th damaged."""
    return pa.array([raw[:-1] if at % every == 0 else raw for at, raw in enumerate(values.to_pylist())], pa.binary())


def ours(values: pa.BinaryArray) -> pa.RecordBatch:
    """All codecs of the project; returns the rows of the records."""
    codec = JsonCodec(SCHEMA)
    rows = report("json decode", COUNT, lambda: codec.decode(values).rows)
    few = [values.slice(start, FEW) for start in range(0, COUNT // 10, FEW)]
    report(f"json decode, {FEW} records at a time", COUNT // 10, lambda: [codec.decode(part) for part in few])
    for every in (10_000, 100, 1):
        damaged = with_bad(values, every)
        report(f"json decode, 1 record in {every} damaged", COUNT, partial(JsonCodec(SCHEMA).decode, damaged))
    times = rows.column("ts").cast(pa.int64()).to_pylist()
    millis = pa.array(
        [
            json.dumps({**json.loads(raw), "ts": us // 1000}).encode()
            for raw, us in zip(values.to_pylist(), times, strict=True)
        ],
        pa.binary(),
    )
    check(codec.decode(millis).rows, rows)
    report("json decode, times as milliseconds", COUNT, lambda: codec.decode(millis))
    nanos = pa.array([raw.replace(b'Z", "price', b'000000Z", "price') for raw in values.to_pylist()], pa.binary())
    check(codec.decode(nanos).rows, rows)
    report("json decode, times with nanoseconds", COUNT, lambda: codec.decode(nanos))
    pretty = pa.array([json.dumps(json.loads(raw), indent=1).encode() for raw in values.to_pylist()], pa.binary())
    check(codec.decode(pretty).rows, rows)
    report("json decode, pretty-printed", COUNT, lambda: codec.decode(pretty))
    with_parts(values, rows)
    written = report("json encode", COUNT, lambda: codec.encode(rows))
    check(codec.decode(written).rows, rows)
    lines_codec = CsvCodec(SCHEMA, CsvFormat())
    lines = report("csv encode", COUNT, lambda: lines_codec.encode(rows))
    check(report("csv decode", COUNT, lambda: lines_codec.decode(lines).rows), rows)
    few = [lines.slice(start, FEW) for start in range(0, COUNT // 10, FEW)]
    report(f"csv decode, {FEW} records at a time", COUNT // 10, lambda: [lines_codec.decode(part) for part in few])
    short = pa.array([raw.rpartition(b",")[0] for raw in lines[: COUNT // 10].to_pylist()], pa.binary())
    report("csv decode, all records too short", COUNT // 10, lambda: lines_codec.decode(short))
    for name, plain in (
        ("string", StringCodec(pa.schema([("value", pa.string())]))),
        ("binary", BinaryCodec(pa.schema([("value", pa.binary())]))),
    ):
        decoded = report(f"{name} decode", COUNT, partial(plain.decode, values)).rows
        report(f"{name} encode", COUNT, partial(plain.encode, decoded))
    return rows


def with_parts(values: pa.BinaryArray, rows: pa.RecordBatch) -> None:
    """Print figures of the same records inside of an object, and with a DECIMAL, an ARRAY and a MAP beside."""
    inside = pa.array([b'{"op":"c","after":%b}' % raw for raw in values.to_pylist()], pa.binary())
    parts = DDL.replace(" ", ": ").replace(",:", ",")
    nested = arrow_schema(parse_schema(f"op STRING, after STRUCT<{parts}>"))
    decoded = report("json decode, in an object inside", COUNT, lambda: JsonCodec(nested).decode(inside).rows)
    check(pa.RecordBatch.from_struct_array(decoded.column("after")), rows)
    by_arrow = report("the same by pyarrow's reader", COUNT, lambda: JsonReader(nested).read(inside))
    check(by_arrow, decoded)
    report("json encode, in an object inside", COUNT, partial(JsonCodec(nested).encode, decoded))
    report("the same by pyarrow's kernels", COUNT, partial(json_objects, decoded))
    for ddl, cell in (("DECIMAL(12,2)", b"12.50"), ("ARRAY<STRING>", b'["a","b"]'), ("MAP<STRING, INT>", b'{"a":1}')):
        more = pa.array([raw[:-1] + b',"more":%b}' % cell for raw in values.to_pylist()], pa.binary())
        codec = JsonCodec(arrow_schema(parse_schema(f"{DDL}, more {ddl}")))
        decoded = report(f"json decode, with {ddl}", COUNT, partial(codec.decode, more)).rows
        check(decoded.select(rows.schema.names), rows)
        report(f"json encode, with {ddl}", COUNT, partial(codec.encode, decoded))
        report("the same by pyarrow's kernels", COUNT, partial(json_objects, decoded))


def peers(values: pa.BinaryArray, rows: pa.RecordBatch) -> None:
    """Print a row for each other way to read and write the same."""
    read = report("json.loads per record, RecordBatch.from_pylist", COUNT, partial(by_dicts, values, json.loads))
    check(read, rows)
    report("json.dumps per row", COUNT, lambda: [json.dumps(row, default=str).encode() for row in rows.to_pylist()])


def check(made: pa.RecordBatch, expected: pa.RecordBatch) -> None:
    """No figure for a way that reads something else."""
    if not made.equals(expected):
        message = "two ways read different rows"
        raise ValueError(message)


def by_dicts(values: pa.BinaryArray, loads: Callable[[bytes], Any]) -> pa.RecordBatch:
    """A Python object per record."""
    made = pa.RecordBatch.from_pylist([loads(raw) for raw in values.to_pylist()], schema=TEXT_TIMES)
    return made.cast(SCHEMA)


def main() -> None:
    """Print the table."""
    pa.set_cpu_count(1)
    print(f"{'way':<58} {'rows/s':>12} {'per CPU-s':>12}")
    values = records()
    peers(values, ours(values))


if __name__ == "__main__":
    main()
