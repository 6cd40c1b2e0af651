"""What the start of an attempt says of the latest schema of a stream's subject: it goes on, or why it does not.

The driver asks the registry and then this; `holdfast diff --schema` asks this before there is anything in a registry,
so that both say the same. Must not ask a registry.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from holdfast.errors import UserActionError
from holdfast.planning.problems import ExpressionError
from holdfast.planning.schema_streams import written_schema
from holdfast.planning.types.connect.envelope import envelope, other_key
from holdfast.planning.types.ddl import parse_type
from holdfast.planning.types.misfits import Misfit, MisfitKind, listed_misfits
from holdfast.planning.types.protobuf.schema import ProtoSchema
from holdfast.planning.types.record_formats import RECORD_FORMATS, RecordFormat, References, Unread
from holdfast.planning.types.spark_types import VOID, Column, RowType
from holdfast.spec.streams import Stream


class SchemaMisfitError(UserActionError):
    """The registry's schema of a stream and its columns do not fit each other."""


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A version of a subject: as a registry has it, or one that is not registered yet."""

    subject: str
    kind: str
    """What registries call its format."""
    text: str
    references: References = ()
    id: int | None = None
    """None: it is not registered yet."""

    @property
    def label(self) -> str:
        """How messages call it."""
        return self.subject if self.id is None else f"{self.subject} (id {self.id})"


@dataclass(frozen=True, slots=True)
class Subject:
    """What registries call the schemas of one stream, and what it needs of them."""

    stream: Stream

    @property
    def format(self) -> RecordFormat:
        """The stream's format, which has schemas."""
        return RECORD_FORMATS[self.stream.format]

    @property
    def name(self) -> str:
        """The subject of its values."""
        declared = self.stream.record_schema
        return (declared and declared.subject) or f"{self.stream.topic or self.stream.name}-value"

    @property
    def key_name(self) -> str:
        """The subject of its keys."""
        return f"{self.stream.topic or self.stream.name}-key"

    @property
    def registers(self) -> bool:
        """Whether a schema that rows are written with is registered where it is not."""
        declared = self.stream.record_schema
        return declared is not None and declared.register_

    def parsed(self, version: SchemaVersion) -> Any:
        """Return the schema of a version; raise `SchemaMisfitError` if it is none of the stream's format."""
        if version.kind != self.format.kind:
            message = (
                f"subject {version.subject} has a schema of {version.kind}, and the stream is of format "
                f"{self.format.name}; name another"
            )
            raise SchemaMisfitError(message)
        with _usable(version):
            return self.format.parse(version.text, version.references, self.stream.message)

    def unread(self, version: SchemaVersion, rows: RowType) -> Unread:
        """Return what of the columns of values, whose types must be known, a version can't fill."""
        schema = self.parsed(version)
        with _usable(version):
            return self.format.unread(schema, rows if self.stream.changes is None else envelope(rows))

    def check_latest(self, latest: SchemaVersion, rows: RowType) -> None:
        """Refuse columns that the latest version can't fill."""
        unread = self.unread(latest, rows)
        faults = [*map(str, unread.misfits), *(f"it has no {absent}" for absent in unread.absent)]
        if faults:
            message = (
                f"stream {self.stream.name}: the latest schema of subject {latest.label} does not fit "
                f"the stream's columns: {'; '.join(faults)}; change the schema of the stream, or leave such columns out"
            )
            raise SchemaMisfitError(message)

    def check_key(self, latest: SchemaVersion) -> None:
        """Refuse changes whose `key` is not the key of the records, by the latest version of the keys' subject."""
        if self.stream.changes is None:
            return
        schema = self.parsed(latest)  # of Avro, as those of changes are
        fault = other_key([field.name for field in schema.resolved(schema.root).fields], self.stream.key or ())
        if fault is not None:
            message = f"stream {self.stream.name}: the latest schema of subject {latest.subject} does not fit: {fault}"
            raise SchemaMisfitError(message)

    def unwritten(self, schema: Any, rows: RowType) -> tuple[Misfit, ...]:
        """Return why rows are no records of a schema, as far as their types are known."""
        unknown = {column.name for column in rows.columns if parse_type(column.type) is None}
        if not unknown:
            return self.format.unwritten(schema, rows)
        stand_in = (
            Column(column.name, str(VOID) if column.name in unknown else column.type) for column in rows.columns
        )
        misfits = self.format.unwritten(schema, RowType(tuple(stand_in)))
        return tuple(misfit for misfit in misfits if misfit.path not in unknown or misfit.kind is not MisfitKind.TYPE)

    def writes(self, latest: SchemaVersion, rows: RowType) -> bool:
        """Whether rows are written with the latest version: if it is the declared one, or fits, or no other is made."""
        declared = written_schema(self.stream)
        if declared is not None:
            return _same(latest.text, declared)
        if not self.registers or self.format.made is None:
            return True
        return latest.kind == self.format.kind and not self.unwritten(self.parsed(latest), rows)

    def own_text(self, rows: RowType) -> str | None:
        """Return the schema that rows are written with if not with the latest: the declared one, or one made of them.

        None: the format makes none.
        """
        declared = written_schema(self.stream)
        if declared is not None or self.format.made is None:
            return declared
        return self.format.made(rows, self.stream.topic or self.stream.name)

    def check_written(self, schema: Any, rows: RowType, label: str) -> None:
        """Refuse rows that are no records of the schema that they are written with; `label` of its version."""
        if misfits := self.unwritten(schema, rows):
            message = (
                f"stream {self.stream.name}: the rows do not fit the schema of subject {label}: "
                f"{listed_misfits(misfits)}. Change the step that writes it, or give the stream another "
                f"{self.format.field}.schema"
            )
            raise SchemaMisfitError(message)
        if isinstance(schema, ProtoSchema):
            try:
                _ = schema.place
            except ExpressionError as error:
                message = f"stream {self.stream.name}: {error}"
                raise SchemaMisfitError(message) from error


@contextmanager
def _usable(version: SchemaVersion) -> Iterator[None]:
    try:
        yield
    except ExpressionError as error:
        label = "" if version.id is None else f" (id {version.id})"
        message = f"subject {version.subject} has a schema{label} that can't be used: {error}"
        raise SchemaMisfitError(message) from error


def _same(left: str, right: str) -> bool:
    """Whether two texts are one schema, whatever spaces they have; to some registries these are another one."""
    try:
        return left == right or bool(json.loads(left) == json.loads(right))
    except ValueError:
        return False  # a plain word is a schema of Avro, and no JSON
