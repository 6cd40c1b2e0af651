"""Poisoned records of each format on the streams of an app: no attempt ends by them, and none is lost or in the way.

Those that are good alone come through in their order, and each other one is a dead letter with a reason. Formats that
need a registry are held to that by `tests.codecs.poison` alone. `HOLDFAST_SEED` draws other records.
"""

import json
import os
import random
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from holdfast_runtime.steps.row_dicts import row_dicts
from holdfast_runtime.testing import TestDriver
from tests.changes.databases import COLUMNS as CHANGED
from tests.codecs import poison
from tests.codecs.avro.test_mutated import TREE
from tests.codecs.csv import lines
from tests.codecs.poison import KINDS, batch_of
from tests.codecs.poisoned_formats import JSON_DDL, KEY_METADATA, LINES, Record
from tests.codecs.protobuf.messages import HEAD
from tests.codecs.protobuf.test_mutated import TEXT

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
SEED = os.environ.get("HOLDFAST_SEED", str(secrets.randbits(32)) if SOAK else "20261129")
RECORDS, AT_ONCE = 120, 50
STREAMS: Mapping[str, dict[str, Any]] = {
    "json": {"schema": poison.DDL},
    "csv": {"format": "csv", "csv": {"delimiter": LINES.delimiter}, "schema": lines.DDL},
    "avro, declared": {"format": "avro", "avro": {"schema": json.dumps(TREE)}},
    "protobuf, declared": {"format": "protobuf", "protobuf": {"schema": HEAD + TEXT}},
    "keys": {"schema": JSON_DDL, "metadata": KEY_METADATA},
}
"""The kinds that need no registry."""


def app_of(poisoned: dict[str, Any], **more: Any) -> dict[str, Any]:
    read = {"name": "in", "system": "s", "partitions": 1, "onDecodeError": "DeadLetter", "deadLetter": "dead"}
    dead, out = ({"name": name, "system": "s", "partitions": 1} for name in ("dead", "out"))
    spec = {"systems": [{"name": "s", "log": {}}], "streams": [read | poisoned, dead, out], **more}
    return {"apiVersion": "holdfast.dev/v1alpha1", "kind": "StreamApp", "metadata": {"name": "a"}, "spec": spec}


def drawn(kind: str) -> list[Record]:
    draw, made = random.Random(f"{SEED} {kind}"), KINDS[kind]  # noqa: S311
    return [made.sound(draw) if draw.random() < 0.4 else made.poisoned(draw) for _ in range(RECORDS)]


def fed(driver: TestDriver, records: Sequence[Record]) -> None:
    """Some at a time, so that batches have neighbours of all kinds; an attempt may die of none."""
    for first in range(0, len(records), AT_ONCE):
        for key, value in records[first : first + AT_ONCE]:
            driver.feed_bytes("in", [value], key)
        driver.run_until_idle()


def letters_are(driver: TestDriver, records: Sequence[Record], reasons: Mapping[int, str]) -> None:
    letters = [(row["offset"], row["reason"], row["key"], row["value"]) for row in driver.rows("dead")]
    assert letters == [(index, reasons[index], *records[index]) for index in sorted(reasons)]
    assert all(reasons.values())


@pytest.mark.parametrize("kind", STREAMS)
def test_good_records_come_through_between_poisoned_ones(kind: str) -> None:
    records, reader = drawn(kind), KINDS[kind].reader()
    single_batches = [reader.decode(batch_of([record])) for record in records]
    reasons = {index: decoded.bad[0].reason for index, decoded in enumerate(single_batches) if decoded.bad}
    steps = [{"name": "w", "from": ["in"], "to": "out"}]
    with TestDriver(app_of(STREAMS[kind], steps=steps)) as driver:
        fed(driver, records)
        letters_are(driver, records, reasons)
        expected = [row for decoded in single_batches for row in row_dicts(decoded.rows)]
        assert len(expected) > RECORDS // 4
        assert repr(driver.rows("out")) == repr(expected)


def test_a_table_has_what_good_changes_left_between_poisoned_ones() -> None:
    records, reader = drawn("changes in json"), KINDS["changes in json"].reader()
    unread, table = 0, dict[Any, dict[str, Any]]()
    for record in records:
        decoded = reader.decode(batch_of([record]))
        if decoded.bad:
            unread += 1
            continue
        (row,) = row_dicts(decoded.rows)
        key = row["id"], row["part"]
        table.pop(key, None)
        if not row.pop("deleted"):
            table[key] = row
    stream = {"onDecodeError": "Skip", "key": ["id", "part"], "changes": "debezium", "schema": CHANGED}
    asks = {"name": "asks", "system": "s", "partitions": 1, "key": ["id", "part"], "schema": "id BIGINT, part STRING"}
    tables = [{"name": "t", "sources": ["in"], "key": ["id", "part"], "distribution": "Broadcast"}]
    steps = [
        {"name": "found", "from": ["asks"], "lookup": {"table": "t", "by": ["id", "part"]}},
        {"name": "w", "from": ["found"], "to": "out"},
    ]
    tree = app_of(stream, tables=tables, steps=steps)
    tree["spec"]["streams"].append(asks)
    del tree["spec"]["streams"][0]["deadLetter"], tree["spec"]["streams"][1]
    with TestDriver(tree) as driver:
        fed(driver, records)
        assert driver.undecoded == unread
        driver.feed("asks", [dict(zip(("id", "part"), key, strict=True)) for key in sorted(table)])
        driver.run_until_idle()
        assert repr(driver.rows("out")) == repr([table[key] for key in sorted(table)])
