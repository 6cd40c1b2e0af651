"""The schema of the rows in layers, stored once in their table: columns, types, and the length of a bucket in time.

Pieces are stored without it: read with the columns of another schema they would be garbage, and nobody would notice.
It also lets tools read tables without the code of the step. Columns whose names begin with `#` are the step's own, all
others are the key. Must not know verbs.
"""

import base64
import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from holdfast.errors import UserActionError
from holdfast_runtime.state.errors import parsing_state

FORMAT = 2
"""The format of rows in layers, and of what steps store beside them; format 1 had the steps' times in milliseconds."""
OWN = "#"
"""The prefix of the names of a step's own columns."""
_KEY = b"s"
_MEANING, _TIME = b"holdfast", b"time"
_MAKER = b"holdfast.made_by"
_REMEMBERED = 256
"""Each batch asks for the schemas of all tables of its steps."""


class SchemaTable(Protocol):
    """The methods of a table of the store that `LayeredSchema` calls."""

    @property
    def name(self) -> str:
        """The name of the table."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of these keys, None for missing ones."""

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Write these values; None deletes."""


def check_format(stored: object) -> None:
    """Raise `ValueError` if `stored`, the format of stored rows, is not `FORMAT`: times would be misread."""
    if stored != FORMAT:
        message = f"it has format {stored}, and this release reads {FORMAT}"
        raise ValueError(message)


def time_column(name: str) -> pa.Field:
    """Return a column of times in microseconds since 1970, with metadata that lets tools show them as moments."""
    return pa.field(name, pa.int64(), metadata={_MEANING: _TIME})


def made_by(column: pa.Field, text: str) -> pa.Field:
    """Return a column with metadata that say what makes it, for `LayeredSchema.check_makers`."""
    return column.with_metadata({_MAKER: text.encode()})


def is_time(column: pa.Field) -> bool:
    """Whether a column is one that `time_column` made."""
    return (column.metadata or {}).get(_MEANING) == _TIME


@dataclass(frozen=True, slots=True)
class LayeredSchema:
    """The columns of the rows in a table's layers, and the length of its buckets."""

    rows: pa.Schema
    width: int | None = None
    """The length of a bucket in microseconds; None where buckets are not of time, or there is just one."""

    @classmethod
    def kept_in(cls, table: SchemaTable) -> "LayeredSchema | None":
        """Return the schema that is stored in a table; None if no rows were ever appended to its layers."""
        (value,) = table.get_many([_KEY])
        return None if value is None else _decoded(value, table.name)

    def check(self, table: SchemaTable) -> None:
        """Raise `RunsSchemaError` if the schema that is stored in the table has other columns."""
        stored = LayeredSchema.kept_in(table)
        if stored is not None and _columns(stored.rows) != _columns(self.rows):
            message = (
                f"the state in table {table.name} has the columns {_listed(stored.rows)}, but the step keeps "
                f"{_listed(self.rows)}: it is state of another `by` or `compute`, of columns with other types, or of "
                "an earlier release. Undo that change, or set a new spec.runId, which starts with empty state"
            )
            raise UserActionError(message, code="RunsSchemaError")

    def check_makers(self, table: SchemaTable) -> None:
        """Raise `RunsSchemaError` if the table says that something else made its rows, or cut them into buckets.

        For who looks at a table with an app that has not run on it: for one that runs, this was checked before.
        """
        stored = LayeredSchema.kept_in(table)
        if stored is None:
            return
        changes = [] if stored.width == self.width else [f"buckets of {stored.width} µs, now {self.width}"]
        for column, declared in zip(stored.rows, self.rows, strict=False):
            maker, maker_now = ((field.metadata or {}).get(_MAKER, b"").decode() for field in (column, declared))
            if maker and maker_now and maker != maker_now:
                changes.append(f"{maker}, now {maker_now}")
        if changes:
            message = (
                f"the state in table {table.name} was not made by this app ({'; '.join(dict.fromkeys(changes))}): show "
                "it with the app as it ran"
            )
            raise UserActionError(message, code="RunsSchemaError")

    def keep(self, table: SchemaTable) -> None:
        """Store the schema in the table, unless it is stored already."""
        value = _encoded(self)
        if table.get_many([_KEY]) != [value]:
            table.put_many([_KEY], [value])


def _columns(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    """Return names as Spark compares them, and types; a nullable column is stored like any other."""
    return [(field.name.lower(), field.type) for field in schema]


def _listed(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name.removeprefix(OWN)} ({field.type})" for field in schema)


def _encoded(schema: LayeredSchema) -> bytes:
    rows = base64.b64encode(schema.rows.serialize().to_pybytes()).decode()
    return json.dumps({"format": FORMAT, "width": schema.width, "rows": rows}).encode()


@functools.lru_cache(_REMEMBERED)
def _decoded(value: bytes, table: str) -> LayeredSchema:
    with parsing_state(f"the schema of the rows in table {table}"):
        tree: dict[str, Any] = json.loads(value)
        check_format(tree["format"])
        try:
            return LayeredSchema(pa.ipc.read_schema(pa.py_buffer(base64.b64decode(tree["rows"]))), tree["width"])
        except pa.ArrowException as error:
            raise ValueError(str(error)) from error
