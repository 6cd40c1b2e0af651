"""The records of the topics, and the rows that must come out, the same for every engine and at each run.

Clicks are those of `bench.engine.data`: JSON of about 150 bytes, without keys. Events are JSON of about 100 bytes, at
random of so many keys; each key has a name in a topic of its own. Visits,
orders and payments are those of `bench.engine.data` too. Must not know an engine.
"""

import itertools
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json

from bench.engine.answers import digest, until
from bench.engine.data import COUNTED, KEPT, PAID, Clicks, Orders, Visits
from bench.engine.files import hexadecimal, records, stamps, text
from bench.kafka.topics import TIME, contents, filler
from holdfast_runtime.streams.record_keys import place, split
from holdfast_runtime.streams.records import written_batch

PARTITIONS = 4
PAYLOAD = 60
AT_ONCE = 100_000
CHANGES, CHANGES_EVERY = 10_000, 0.1
"""A second, and seconds between two parts of them."""
EVENT = "key STRING, payload STRING, name STRING"
NAMED = pa.schema({"key": pa.string(), "payload": pa.string(), "name": pa.string()})
COUNTS = COUNTED.remove(COUNTED.get_field_index("total"))
SCHEMAS = {"stateless": KEPT, "enrich": NAMED, "lookup": NAMED, "windowed-count": COUNTS, "join": PAID}
_KEY = "key-"


@dataclass(frozen=True, slots=True)
class Events:
    """Events and the names of their keys."""

    rows: int
    keys: int

    def fill(self, bootstrap: str, events: str, names: str) -> None:
        """Write both topics, placed as Java clients would."""
        # Names are older, for those who read by time.
        for topic, time, parts in ((names, TIME - 1, self._names()), (events, TIME, self._events())):
            with filler(bootstrap, topic) as to:
                for keys, values in parts:
                    for partition, part in split(written_batch(keys, values, 0), place(keys, PARTITIONS)):
                        to.send(partition, part.column("key"), part.column("value"), time)

    @contextmanager
    def changing(self, bootstrap: str, names: str) -> Iterator[None]:
        """Write names again, ten thousand a second; they stay what they are, so that all engines have one result."""
        over = threading.Event()

        def write() -> None:
            ((keys, values),) = self._names()
            with filler(bootstrap, names) as to:
                for number in itertools.count():
                    if over.wait(CHANGES_EVERY):
                        return
                    chance = np.random.default_rng([6, number]).integers(0, self.keys, int(CHANGES * CHANGES_EVERY))
                    changed = keys.take(pa.array(chance)), values.take(pa.array(chance))
                    for partition, part in split(written_batch(*changed, 0), place(changed[0], PARTITIONS)):
                        to.send(partition, part.column("key"), part.column("value"), TIME)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _names(self) -> Iterator[tuple[pa.Array, pa.Array]]:
        numbers = np.arange(self.keys)
        keys = _keys(numbers)
        yield (
            keys.cast(pa.binary()),
            _joined('{"key":"', keys, '","name":"name of ', text(numbers * 7919 % 1_000_003), '"}'),
        )

    def _events(self) -> Iterator[tuple[pa.Array, pa.Array]]:
        for first in range(0, self.rows, AT_ONCE):
            chance, count = np.random.default_rng([5, first]), min(AT_ONCE, self.rows - first)
            keys = _keys(chance.integers(0, self.keys, count))
            yield (
                keys.cast(pa.binary()),
                _joined('{"key":"', keys, '","payload":"', hexadecimal(chance, count, PAYLOAD), '"}'),
            )


def fill_clicks(clicks: Clicks, bootstrap: str, topic: str) -> None:
    """Write clicks, file after file, each partition a share of each."""
    share = clicks.rows // PARTITIONS
    with filler(bootstrap, topic) as to:
        for path in sorted(clicks.directory().glob("*.json")):
            values = records(path)
            for partition in range(PARTITIONS):
                to.send(partition, pa.nulls(share, pa.binary()), values.slice(partition * share, share))


def fill_visits(visits: Visits, bootstrap: str, topic: str) -> None:
    """Write visits by key, batch after batch; they are what they are in files, and their times are the records' too."""
    with filler(bootstrap, topic) as to:
        for number in range(visits.filling + visits.batches):
            numbers, amounts, millis = visits.batch(number)
            keys = pc.binary_join_element_wise(_KEY, text(numbers), "")
            moments = stamps(millis)
            values = _joined('{"key":"', keys, '","amount":', text(amounts), ',"ts":"', moments, 'Z"}')
            records = written_batch(keys.cast(pa.binary()), values, millis)
            for partition, part in split(records, place(keys, PARTITIONS)):
                to.send(partition, part.column("key"), part.column("value"), part.column("timestamp").to_numpy())


def fill_orders(orders: Orders, bootstrap: str, topics: Mapping[str, str]) -> None:
    """Write orders and payments by id, batch after batch; their times are the records' too. `topics`: of each side."""
    for side, value in (("orders", "amount"), ("payments", "code")):
        with filler(bootstrap, topics[side]) as to:
            for number in range(2 * orders.batches):
                numbers, values, millis = orders.side(side, *divmod(number, 2))
                keys, moments = pc.binary_join_element_wise("order-", text(numbers), ""), stamps(millis)
                rows = _joined('{"id":"', keys, f'","{value}":', text(values), ',"ts":"', moments, 'Z"}')
                records = written_batch(keys.cast(pa.binary()), rows, millis)
                for partition, part in split(records, place(keys, PARTITIONS)):
                    to.send(partition, part.column("key"), part.column("value"), part.column("timestamp").to_numpy())


def results(request: Mapping[str, Any]) -> str:
    """A digest of what the engine that was asked so has written."""
    written = table(request["bootstrap"], request["out"], SCHEMAS[request["work"]])
    return digest(until(written, request["closed"]) if request["work"] == "windowed-count" else written)


def table(bootstrap: str, topic: str, schema: pa.Schema) -> pa.Table:
    """What an engine has written."""
    options = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    tables = []
    for values in contents(bootstrap, topic):
        if len(values):
            lines = pa.BufferReader(_joined(values, "\n").buffers()[2])
            tables.append(json.read_json(lines, parse_options=options).select(schema.names))
    return pa.concat_tables(tables)


def _keys(numbers: np.ndarray) -> pa.Array:
    return pc.binary_join_element_wise(_KEY, pc.utf8_lpad(text(numbers), 7, "0"), "")


def _joined(*parts: pa.Array | str) -> pa.Array:
    """As binary."""
    binary = [pa.scalar(one.encode()) if isinstance(one, str) else one.cast(pa.binary()) for one in parts]
    return pc.binary_join_element_wise(*binary, pa.scalar(b""))
