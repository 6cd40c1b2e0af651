"""`holdfast feed` and `tail` on changes of a database: envelopes go in and come out as they are."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Holdfast, Ran

APP = """
apiVersion: holdfast.dev/v1alpha1
kind: StreamApp
metadata: {name: orders}
spec:
  systems: [{name: here, log: {}}]
  streams:
  - {name: orders, system: here, partitions: 2, key: [id], schema: "id INT"}
  - {name: customers, system: here, partitions: 2, key: [id], changes: debezium, schema: "id INT, name STRING"}
  - {name: shops, system: here, partitions: 2, key: [id, part], changes: debezium, schema: "id INT, part INT"}
  - {name: out, system: here, partitions: 1, key: [id]}
  tables:
  - {name: known, sources: [customers], key: [id], distribution: Broadcast}
  - {name: places, sources: [shops], key: [part, id], distribution: Broadcast}
  steps:
  - {name: found, from: [orders], lookup: {table: known, by: [id]}}
  - {name: w, from: [found], to: out}
"""
SAVED: dict[str, Any] = {"before": None, "after": {"id": 5, "name": "Ada"}, "op": "c"}
DELETED: dict[str, Any] = {"before": {"id": 7, "name": ""}, "after": None, "op": "d"}


@pytest.fixture
def changes_app(holdfast: Holdfast) -> Holdfast:
    Path("app.yaml").write_text(APP, encoding="utf-8")
    return holdfast


def fed(holdfast: Holdfast, *envelopes: Any) -> Ran:
    text = "".join(json.dumps(envelope) + "\n" for envelope in envelopes)
    Path("in.jsonl").write_text(text, encoding="utf-8")
    return holdfast("feed", "app.yaml", "customers", "in.jsonl")


def test_envelopes_are_fed_by_the_key_of_their_row(changes_app: Holdfast) -> None:
    assert fed(changes_app, SAVED, DELETED, {"schema": {}, "payload": SAVED}).code == 0
    printed = changes_app("tail", "app.yaml", "customers", "--from-beginning", "--until-end", "-o", "json").out
    records = [json.loads(line) for line in printed.splitlines()]
    assert sorted((record["key"], json.dumps(record["value"])) for record in records) == sorted(
        [("5", json.dumps(SAVED)), ("7", json.dumps(DELETED)), ("5", json.dumps({"schema": {}, "payload": SAVED}))]
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("feed", "app.yaml", "shops"), "which feed writes as JSON with a key of one column"),
        (("tail", "app.yaml", "customers", "--where", "id = 5"), "are changes of a database, and no rows"),
    ],
)
def test_what_can_not_be_done_with_changes_is_said(
    changes_app: Holdfast, arguments: tuple[str, ...], message: str
) -> None:
    result = changes_app(*arguments)
    assert result.code == 2
    assert message in result.err


def test_a_line_without_a_row_is_refused(changes_app: Holdfast) -> None:
    result = fed(changes_app, {"id": 5})
    assert result.code != 0
    assert "a line must be an envelope of Debezium" in result.err
