"""The schemas that a registry has for the streams of an app: compared with the columns before anything runs.

The driver asks which schema each stream is written with, and whether the latest one that is read fits; a slot asks for
those of the ids that it meets. Must not decode.
"""

import functools
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from holdfast.errors import UserActionError
from holdfast.planning.problems import ExpressionError
from holdfast.planning.schema_streams import written_schema
from holdfast.planning.types.connect.envelope import envelope, other_key
from holdfast.planning.types.protobuf.schema import ProtoSchema
from holdfast.planning.types.record_formats import RECORD_FORMATS, RecordFormat
from holdfast.planning.types.spark_types import RowType
from holdfast.spec.app import AppSpec
from holdfast.spec.streams import Stream, System
from holdfast_runtime.streams.codecs.arrow_types import row_type
from holdfast_runtime.streams.codecs.protobuf.message_places import place_bytes
from holdfast_runtime.streams.codecs.record_schemas import WrittenSchema
from holdfast_runtime.streams.registry.client import RegisteredSchema, SchemaRegistry
from holdfast_runtime.streams.registry.settings import registry_settings
from holdfast_runtime.streams.stream_codecs import SchemaRecords

_FRAME = b"\0"
_ID_BYTES = 4


class SchemaMisfitError(UserActionError):
    """The registry's schema of a stream and its columns do not fit each other."""


@dataclass(frozen=True, slots=True)
class RegisteredSchemas:
    """The schemas of one format in one registry. Its login is read where it is used."""

    system: str
    url: str
    secret_name: str | None
    secrets: Path | None
    format: str
    message: str | None = None
    """The one that records are, where the stream says so."""
    framed: bool = True

    def schema(self, number: int) -> Any:
        """Return the schema of an id, or why records of it can't be read."""
        registered, known = self.registry.by_id(number), RECORD_FORMATS[self.format]
        if registered is None:
            return f"its schema id {number} is not in the registry at {self.url}"
        if registered.kind != known.kind:
            return f"its schema id {number} is of {registered.kind}, and the stream's format is {self.format}"
        try:
            return known.parse(registered.text, registered.references, self.message)
        except ExpressionError as error:
            return f"its schema id {number} can't be used: {error}"

    @property
    def registry(self) -> SchemaRegistry:
        """The registry, opened once in a process."""
        return _opened(self, os.getpid())


@functools.cache
def _opened(schemas: RegisteredSchemas, _: int) -> SchemaRegistry:
    return SchemaRegistry(registry_settings(schemas.system, schemas.url, schemas.secret_name, schemas.secrets))


def records_read(stream: Stream, system: System, secrets: Path | None) -> SchemaRecords | None:
    """Return how records of a stream are read, if a registry has their schemas."""
    schemas = _schemas_of(stream, system, secrets)
    return None if schemas is None else SchemaRecords(schemas, None)


def records_fed(stream: Stream, system: System, secrets: Path | None, columns: pa.Schema) -> SchemaRecords | None:
    """Return how rows are written into a stream from outside of apps, as an app would; None: no registry knows it.

    `columns`: those of its values.
    """
    schemas = _schemas_of(stream, system, secrets)
    return None if schemas is None else SchemaRecords(schemas, _Subject(stream, schemas).to_write(row_type(columns)))


def registered_records(
    spec: AppSpec, read: Mapping[str, pa.Schema], written: Mapping[str, pa.Schema], secrets: Path | None
) -> dict[str, SchemaRecords]:
    """Return what registries say of an app's streams; raise an error if that does not fit the columns of their values.

    `read`, `written`: stream -> these columns.
    """
    systems = {system.name: system for system in spec.systems}
    records = {}
    for stream in spec.streams:
        schemas = _schemas_of(stream, systems[stream.system], secrets)
        if schemas is None:
            continue
        subject, to_write = _Subject(stream, schemas), None
        if stream.name in read:
            subject.check_latest(row_type(read[stream.name]))
            subject.check_key()
        if stream.name in written:
            to_write = subject.to_write(row_type(written[stream.name]))
        records[stream.name] = SchemaRecords(schemas, to_write)
    return records


def _schemas_of(stream: Stream, system: System, secrets: Path | None) -> RegisteredSchemas | None:
    registry = None if system.kafka is None else system.kafka.registry
    if registry is None or stream.format not in RECORD_FORMATS:
        return None
    return RegisteredSchemas(system.name, registry.url, registry.secret_name, secrets, stream.format, stream.message)


class _Subject:
    """What a registry calls the schemas of one stream."""

    def __init__(self, stream: Stream, schemas: RegisteredSchemas) -> None:
        declared = stream.record_schema
        self._stream, self._schemas = stream, schemas
        self._format: RecordFormat = RECORD_FORMATS[stream.format]
        self._name = (declared and declared.subject) or f"{stream.topic or stream.name}-value"
        self._registers = declared is not None and declared.register_

    def check_latest(self, rows: RowType) -> None:
        """Refuse columns that the latest schema can't fill."""
        latest = self._schemas.registry.latest(self._name)
        if latest is None:
            return  # nobody has written to it yet
        columns = rows if self._stream.changes is None else envelope(rows)
        unread = self._format.unread(self._usable(latest, self._name), columns)
        faults = [*unread.misfits, *(f"it has no {absent}" for absent in unread.absent)]
        if faults:
            message = (
                f"stream {self._stream.name}: the latest schema of subject {self._name} (id {latest.id}) does not fit "
                f"the stream's columns: {'; '.join(faults)}; change the schema of the stream, or leave such columns out"
            )
            raise SchemaMisfitError(message)

    def check_key(self) -> None:
        """Refuse changes whose `key` is not the key of the records, where the registry knows that."""
        subject = f"{self._stream.topic or self._stream.name}-key"
        latest = None if self._stream.changes is None else self._schemas.registry.latest(subject)
        if latest is None:
            return
        schema = self._usable(latest, subject)
        fault = other_key([field.name for field in schema.resolved(schema.root).fields], self._stream.key or ())
        if fault is not None:
            message = f"stream {self._stream.name}: the latest schema of subject {subject} does not fit: {fault}"
            raise SchemaMisfitError(message)

    def to_write(self, rows: RowType) -> WrittenSchema[Any]:
        """Return the schema that rows are written with: the declared one, the latest, or one made of them."""
        declared, latest = written_schema(self._stream), self._schemas.registry.latest(self._name)
        if latest is not None and self._is_to_write(latest, declared, rows):
            schema, number = self._usable(latest, self._name), latest.id
        else:
            text = declared or self._made(rows)
            schema, number = self._format.parse(text, (), self._stream.message), self._id_of(text)
        if misfits := self._format.unwritten(schema, rows):
            message = (
                f"stream {self._stream.name}: the rows do not fit the schema of subject {self._name} (id {number}): "
                f"{'; '.join(misfits)}. Change the step that writes it, or give the stream another "
                f"{self._format.field}.schema"
            )
            raise SchemaMisfitError(message)
        return WrittenSchema(schema, _FRAME + number.to_bytes(_ID_BYTES, "big") + self._place(schema))

    def _made(self, rows: RowType) -> str:
        if self._format.made is None:
            message = (
                f"stream {self._stream.name}: the registry at {self._schemas.url} has no schema under subject "
                f"{self._name} to write with; register one, or set {self._format.field}.schema"
            )
            raise UserActionError(message, code="SchemaNotRegisteredError")
        return self._format.made(rows, self._stream.topic or self._stream.name)

    def _place(self, schema: Any) -> bytes:
        """Return what stands behind the id: which message of the schema records are, if it may have several."""
        if not isinstance(schema, ProtoSchema):
            return b""
        try:
            return place_bytes(schema.place)
        except ExpressionError as error:
            message = f"stream {self._stream.name}: {error}"
            raise SchemaMisfitError(message) from error

    def _is_to_write(self, latest: RegisteredSchema, declared: str | None, rows: RowType) -> bool:
        """Whether rows are written with the latest: if it is the declared one, or fits, or no other may be made."""
        if declared is not None:
            return _same(latest.text, declared)
        fits = latest.kind == self._format.kind and not self._format.unwritten(self._parsed(latest, self._name), rows)
        return not self._registers or self._format.made is None or fits

    def _id_of(self, text: str) -> int:
        """Return the id of a schema, which is registered if it may be."""
        known = self._schemas.registry.id_of(self._name, self._format.kind, text)
        if known is not None:
            return known
        if not self._registers:
            message = (
                f"stream {self._stream.name}: the registry at {self._schemas.url} has no such schema under subject "
                f"{self._name}. Register it, or set {self._format.field}.register of the stream to true: {text}"
            )
            raise UserActionError(message, code="SchemaNotRegisteredError")
        return self._schemas.registry.register(self._name, self._format.kind, text)

    def _usable(self, registered: RegisteredSchema, subject: str) -> Any:
        if registered.kind != self._format.kind:
            message = (
                f"subject {subject} has a schema of {registered.kind}, and the stream is of format "
                f"{self._format.name}; name another"
            )
            raise SchemaMisfitError(message)
        return self._parsed(registered, subject)

    def _parsed(self, registered: RegisteredSchema, subject: str) -> Any:
        try:
            return self._format.parse(registered.text, registered.references, self._stream.message)
        except ExpressionError as error:
            message = f"subject {subject} has a schema (id {registered.id}) that can't be used: {error}"
            raise SchemaMisfitError(message) from error


def _same(left: str, right: str) -> bool:
    """Whether two texts are one schema, whatever spaces they have; to some registries these are another one."""
    try:
        return left == right or bool(json.loads(left) == json.loads(right))
    except ValueError:
        return False  # a plain word is a schema of Avro, and no JSON
