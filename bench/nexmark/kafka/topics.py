"""The events as topics, and what an engine has written into one.

Each stream is a topic of as many partitions as it has files, with its rows in their order, the key as the key and the
event time as the time of the record. Times of `AHEAD` streams are half a minute earlier, for those who join a table by
time. Must not know an engine.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json

from bench.kafka.topics import contents, filler
from bench.nexmark.market import AHEAD, KEYS, PARTS, Market
from holdfast_runtime.streams.codecs import JsonCodec
from holdfast_runtime.streams.record_keys import key_bytes
from tests.kafka.broker import Broker

STREAMS = ("person", "auction", "bid")
EARLY = 30_000
_AT_ONCE = 100_000
_TIMES = ("date_time", "auction_date_time", "expires", "starttime", "window_start", "window_end")


def encoded(name: str, rows: pa.RecordBatch) -> tuple[pa.Array, pa.Array, npt.NDArray[np.int64]]:
    """Keys, values and times in milliseconds of the records of a stream."""
    millis = rows["date_time"].cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64()).to_numpy()
    early = EARLY if name in AHEAD else 0
    return key_bytes(rows, [KEYS[name]]), JsonCodec(rows.schema).encode(rows), millis - early


def fill(broker: Broker, market: Market, streams: tuple[str, ...]) -> None:
    """Write these streams."""
    for name in streams:
        broker.create_topic(name, PARTS)
        with filler(broker.bootstrap, name) as to:
            for part in range(PARTS):
                table = pa.ipc.open_file(pa.memory_map(f"{market.directory() / name}/{part}.arrow")).read_all()
                for rows in table.combine_chunks().to_batches(_AT_ONCE):
                    to.send(part, *encoded(name, rows))


def answer(bootstrap: str, topic: str) -> pa.Table:
    """The rows of a topic, with times as times and prices of any notation as numbers."""
    tables = []
    for values in contents(bootstrap, topic):
        if len(values := values.drop_null()):
            lines = pc.binary_join_element_wise(values.cast(pa.binary()), pa.scalar(b"\n"), pa.scalar(b""))
            tables.append(parsed(lines.buffers()[2]))
    return typed(pa.concat_tables(tables, promote_options="permissive"))


def parsed(lines: pa.Buffer | bytes) -> pa.Table:
    """JSON lines as rows, with times as texts."""
    options = json.ParseOptions(explicit_schema=pa.schema([(name, pa.string()) for name in _TIMES]))
    read = json.read_json(pa.BufferReader(lines), parse_options=options)
    return read.drop_columns([name for name in _TIMES if read[name].null_count == len(read)])


def typed(rows: pa.Table) -> pa.Table:
    """Times as times, and prices of any notation as numbers."""
    made: Mapping[str, pa.ChunkedArray] = {
        name: _time(column) if name in _TIMES else _number(column) if name == "price" else column
        for name, column in zip(rows.schema.names, rows.columns, strict=True)
    }
    return pa.table(made)


def _time(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    plain = pc.replace_substring(pc.utf8_rtrim(texts, "Z"), "T", " ")
    return plain.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))


def _number(values: pa.ChunkedArray) -> pa.ChunkedArray:
    return values if pa.types.is_int64(values.type) else values.cast(pa.float64())
