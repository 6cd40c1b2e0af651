"""Drawn operations of a database: the table that their records make is the one that the database has."""

import random

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from holdfast.planning.types.avro.schema import AvroSchema
from holdfast.planning.types.ddl import parse_schema
from holdfast_runtime.streams.codecs import JsonCodec, arrow_schema
from holdfast_runtime.streams.stream_codecs import SchemaRecords
from holdfast_runtime.testing import TestDriver
from tests.changes.databases import COLUMNS, Database, databases
from tests.changes.records import batch, codec, rows, tables


class Registry:
    """The schemas of a database's records."""

    framed = True

    def __init__(self, database: Database) -> None:
        self._database = database

    def schema(self, number: int, /) -> AvroSchema | str:
        return self._database.schemas.get(number) or f"there is no schema {number}"


@given(databases())
def test_a_table_of_json_is_that_of_the_database(database: Database) -> None:
    if database.records:
        assert tables(codec(COLUMNS, "id", "part"), *database.records) == database.table


@given(databases(("avro",)))
def test_a_table_of_avro_is_that_of_the_database(database: Database) -> None:
    if database.records:
        reader = codec(COLUMNS, "id", "part", records=SchemaRecords(Registry(database), None))
        assert tables(reader, *database.records) == database.table


COPY = f"""
apiVersion: holdfast.dev/v1alpha1
kind: StreamApp
metadata: {{name: copies}}
spec:
  systems: [{{name: here, log: {{}}}}]
  streams:
  - {{name: changes, system: here, partitions: 1, key: [id, part], changes: debezium, schema: "{COLUMNS}"}}
  - {{name: copy, system: here, partitions: 3, key: [id, part]}}
  steps:
  - {{name: out, from: [changes], to: copy}}
"""


@given(databases())
def test_what_is_copied_is_what_the_database_has(database: Database) -> None:
    with TestDriver(COPY) as driver:
        for key, value in database.records:
            driver.feed_bytes("changes", [value], key)
        driver.run_until_idle()
        copied = {record.key: record.value for record in driver.records("copy")}
    values = [value for value in copied.values() if value is not None]
    decoded = JsonCodec(arrow_schema(parse_schema(COLUMNS))).decode(pa.array(values, pa.binary()))
    assert {(row["id"], row["part"]): row for row in decoded.rows.to_pylist()} == database.table
    assert len(values) == len(database.table)


@given(databases(), st.integers(1, 7))
def test_how_records_are_cut_into_batches_changes_no_row(database: Database, size: int) -> None:
    if not database.records:
        return
    whole = rows(codec(COLUMNS, "id", "part"), *database.records)
    reader, parts = codec(COLUMNS, "id", "part"), []
    for start in range(0, len(database.records), size):
        parts += rows(reader, *database.records[start : start + size])
    assert parts == whole


@given(databases(), st.randoms(use_true_random=False))
def test_damaged_records_are_bad_and_spoil_no_others(database: Database, draw: random.Random) -> None:
    if not database.records:
        return
    records, touched = list(database.records), set[int]()
    for index in draw.sample(range(len(records)), max(1, len(records) // 3)):
        key, value = records[index]
        records[index] = _damaged(key, draw), _damaged(value, draw)
        touched.add(index)
    whole = codec(COLUMNS, "id", "part").decode(batch(database.records))
    decoded = codec(COLUMNS, "id", "part").decode(batch(records))
    assert sorted([*decoded.good, *(record.index for record in decoded.bad)]) == list(range(len(records)))
    sound = {int(at): row for at, row in zip(whole.good, whole.rows.to_pylist(), strict=True) if at not in touched}
    read = {int(at): row for at, row in zip(decoded.good, decoded.rows.to_pylist(), strict=True) if at not in touched}
    assert read == sound
    for index in touched:
        single = codec(COLUMNS, "id", "part").decode(batch([records[index]]))
        assert [record.index == 0 for record in single.bad] == [True] * (index in {bad.index for bad in decoded.bad})


def _damaged(raw: bytes | None, draw: random.Random) -> bytes | None:
    if raw is None or not raw or draw.random() < 0.3:
        return draw.choice([raw, None, b"", b"{}", b"null", b"\0\0\0\0\1\2"])
    data = bytearray(raw)
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(len(data) + 1)
        match draw.randrange(3):
            case 0:
                data[at:at] = draw.choice([b'"', b"}", b"{", b",", b"1", b"\xff", b"null", b" "])
            case 1:
                del data[at : at + draw.randint(1, 5)]
            case _ if at < len(data):
                data[at] = draw.randrange(256)
    return bytes(data)
