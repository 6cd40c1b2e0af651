"""A version of a schema as both sides judge it: the start of an attempt, of a scripted registry, and the planner.

And random columns beside the ones that a schema has: some of another type, some under another name, some gone.
"""

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from hypothesis import strategies as st

from holdfast.errors import UserActionError
from holdfast.planning.types.spark_types import Column, RowType, quoted
from holdfast.planning.version_effects import Role, VersionEffect, version_effects
from holdfast.spec.app import AppSpec
from holdfast_runtime.streams.codecs import arrow_schema
from holdfast_runtime.streams.registered import registered_records
from tests.registry.scripted import ScriptedAnswer, ScriptedRegistry

KINDS = {"avro": "AVRO", "protobuf": "PROTOBUF", "json-schema": "JSON"}
TYPES = [
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "VARCHAR(9)", "BINARY", "DATE",
    "TIMESTAMP", "TIMESTAMP_NTZ", "DECIMAL(10,2)", "DECIMAL(20,0)", "ARRAY<INT>", "ARRAY<STRING>",
    "MAP<STRING, INT>", "STRUCT<f0: INT>", "STRUCT<f1: STRING, x: INT>",
]  # fmt: skip


class Judgement(NamedTuple):
    """What both sides say."""

    start: str | None
    """The error of the start, without the id that only a registry knows; None: it starts."""
    effect: VersionEffect


class Judges:
    """A registry whose only subject has the version that is judged, under a new id each time."""

    def __init__(self, script: ScriptedRegistry, url: str) -> None:
        self._script, self._url = script, url
        self._ids = itertools.count(1)

    def judged(self, name: str, text: str, rows: RowType, role: Role, **schema: Any) -> Judgement:
        """What is said of a stream of this format with these columns; `schema`: what it says of its schema."""
        number = next(self._ids)
        body = {"id": number, "version": 1, "subject": "s", "schema": text, "schemaType": KINDS[name]}
        self._script.answers[:] = [ScriptedAnswer(200, json.dumps(body).encode())]
        field = {"json-schema": "jsonSchema"}.get(name, name)
        columns = {"schema": ", ".join(f"{quoted(column.name)} {column.type}" for column in rows.columns)}
        kafka = {"bootstrapServers": "nowhere:9092", "registry": {"url": self._url}}
        judged = {"name": "judged", "system": "here", "format": name, field: schema}
        source_stream = {"name": "given", "system": "plain", "partitions": 1, **columns}
        streams = [judged | columns] if role is Role.READ else [judged, source_stream]
        source = "judged" if role is Role.READ else "given"
        spec = AppSpec.model_validate(
            {
                "systems": [{"name": "here", "kafka": kafka}, {"name": "plain", "log": {}}],
                "streams": streams,
                "steps": [
                    {"name": "all", "from": [source], "filter": "true"},
                    *([] if role is Role.READ else [{"name": "out", "from": ["all"], "to": "judged"}]),
                ],
            }
        )
        schema = {"judged": arrow_schema(rows)}
        start = None
        try:
            registered_records(spec, *((schema, {}) if role is Role.READ else ({}, schema)), None)
        except UserActionError as error:
            start = str(error).replace(f" (id {number})", "")
        (effect,) = version_effects(spec, "judged", text)
        return Judgement(start, effect)


@contextmanager
def judging() -> Iterator[Judges]:
    """Serve the registry until the end of the block."""
    script = ScriptedRegistry([])
    with script.running() as url:
        yield Judges(script, url)


NARROWER = {
    "BIGINT": ["TINYINT", "INT"],
    "INT": ["TINYINT", "SMALLINT"],
    "DOUBLE": ["INT", "BIGINT"],
    "BINARY": ["STRING"],
    "DECIMAL(20,0)": ["BIGINT", "TINYINT"],
}
"""Column -> others that may take some of its values."""


@st.composite
def changed_columns(draw: st.DrawFn, rows: RowType) -> RowType:
    """Columns like these, at most two of them with another type or name, or gone."""
    columns = list(rows.columns)
    for _ in range(draw(st.integers(0, min(2, len(columns))))):
        column = columns.pop(draw(st.integers(0, len(columns) - 1)))
        change = draw(st.sampled_from(["narrower", "narrower", "type", "name", "gone"]))
        if change == "narrower":
            columns.append(Column(column.name, draw(st.sampled_from(NARROWER.get(column.type, [column.type])))))
        elif change == "type":
            columns.append(Column(column.name, draw(st.sampled_from(TYPES))))
        elif change == "name":
            columns.append(Column(f"{column.name}_x", column.type))
    return RowType(tuple(columns) or (Column("other", "INT"),))
