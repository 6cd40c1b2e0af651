"""What rows in runs look like, kept once in their table: columns, types, and the length of buckets in time.

Pieces are written without it, so rows that are read as other columns would be garbage that nobody notices. People read
tables without the code of their steps, too. Columns whose names begin with `#` are the step's own, all others are the
key. Must not know verbs.
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from holdfast.errors import UserActionError
from holdfast_runtime.state.errors import parsing_state

FORMAT = 2
"""Of rows in runs, and of what steps keep beside them; 1 had their own times in milliseconds."""
OWN = "#"
"""What names of a step's own columns begin with."""
_KEY = b"s"
_MEANING, _TIME = b"holdfast", b"time"


class SchemaTable(Protocol):
    """What is needed of a table of the store."""

    @property
    def name(self) -> str:
        """The name of the table."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of these keys, None for missing ones."""

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Write these values; None deletes."""


def check_format(found: object) -> None:
    """Raise `ValueError` if what is kept has another format: its times would be misread."""
    if found != FORMAT:
        message = f"it has format {found}, and this release reads {FORMAT}"
        raise ValueError(message)


def time_column(name: str) -> pa.Field:
    """Return a column of times in microseconds since 1970, which people see as moments."""
    return pa.field(name, pa.int64(), metadata={_MEANING: _TIME})


def is_time(column: pa.Field) -> bool:
    """Whether it is a column of such times."""
    return (column.metadata or {}).get(_MEANING) == _TIME


@dataclass(frozen=True, slots=True)
class RunsSchema:
    """What the rows of a table look like."""

    rows: pa.Schema
    width: int | None = None
    """The length of a bucket in microseconds; None where buckets are not of time, or there is just one."""

    @classmethod
    def kept_in(cls, table: SchemaTable) -> "RunsSchema | None":
        """Return what the table says; None if it never had rows in runs."""
        (value,) = table.get_many([_KEY])
        return None if value is None else _decoded(value, table.name)

    def check(self, table: SchemaTable) -> None:
        """Raise `RunsSchemaError` if the table holds rows with other columns."""
        kept = RunsSchema.kept_in(table)
        if kept is not None and _columns(kept.rows) != _columns(self.rows):
            message = (
                f"the state in table {table.name} has the columns {_listed(kept.rows)}, but the step keeps "
                f"{_listed(self.rows)}: it is state of another `by` or `compute`, or of columns with other types. "
                "Undo that change, or set a new spec.runId, which starts with empty state"
            )
            raise UserActionError(message, code="RunsSchemaError")

    def keep(self, table: SchemaTable) -> None:
        """Write it to the table, unless it is there."""
        value = _encoded(self)
        if table.get_many([_KEY]) != [value]:
            table.put_many([_KEY], [value])


def _columns(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    """Names as Spark compares them, and types; whether a column may be null says nothing about how it is stored."""
    return [(field.name.lower(), field.type) for field in schema]


def _listed(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name.removeprefix(OWN)} ({field.type})" for field in schema)


def _encoded(schema: RunsSchema) -> bytes:
    rows = base64.b64encode(schema.rows.serialize().to_pybytes()).decode()
    return json.dumps({"format": FORMAT, "width": schema.width, "rows": rows}).encode()


def _decoded(value: bytes, table: str) -> RunsSchema:
    with parsing_state(f"the schema of the rows in table {table}"):
        tree: dict[str, Any] = json.loads(value)
        check_format(tree["format"])
        try:
            return RunsSchema(pa.ipc.read_schema(pa.py_buffer(base64.b64decode(tree["rows"]))), tree["width"])
        except pa.ArrowException as error:
            raise ValueError(str(error)) from error
