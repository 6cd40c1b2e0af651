"""The schemas that a registry has for the streams of an app: compared with the columns before anything runs.

The driver asks which schema each stream is written with, and whether the latest one that is read fits; a slot asks for
those of the ids that it meets. Must not decode.
"""

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from holdfast.errors import UserActionError
from holdfast.planning.problems import ExpressionError
from holdfast.planning.subjects import SchemaVersion, Subject
from holdfast.planning.types.protobuf.schema import ProtoSchema
from holdfast.planning.types.record_formats import RECORD_FORMATS
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
    return None if schemas is None else SchemaRecords(schemas, _to_write(stream, schemas, row_type(columns)))


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
        if stream.name in read:
            _check_read(stream, schemas, row_type(read[stream.name]))
        has_writer = stream.name in written
        to_write = _to_write(stream, schemas, row_type(written[stream.name])) if has_writer else None
        records[stream.name] = SchemaRecords(schemas, to_write)
    return records


def _schemas_of(stream: Stream, system: System, secrets: Path | None) -> RegisteredSchemas | None:
    registry = None if system.kafka is None else system.kafka.registry
    if registry is None or stream.format not in RECORD_FORMATS:
        return None
    return RegisteredSchemas(system.name, registry.url, registry.secret_name, secrets, stream.format, stream.message)


def _latest(schemas: RegisteredSchemas, subject: str) -> SchemaVersion | None:
    registered = schemas.registry.latest(subject)
    return None if registered is None else _version(subject, registered)


def _version(subject: str, registered: RegisteredSchema) -> SchemaVersion:
    return SchemaVersion(subject, registered.kind, registered.text, registered.references, registered.id)


def _check_read(stream: Stream, schemas: RegisteredSchemas, rows: RowType) -> None:
    """Refuse a stream whose columns do not fit what its subjects have."""
    subject = Subject(stream)
    latest = _latest(schemas, subject.name)
    if latest is not None:  # else nobody has written to it yet
        subject.check_latest(latest, rows)
    latest_key = None if stream.changes is None else _latest(schemas, subject.key_name)
    if latest_key is not None:
        subject.check_key(latest_key)


def _to_write(stream: Stream, schemas: RegisteredSchemas, rows: RowType) -> WrittenSchema[Any]:
    """Return the schema that rows are written with: the declared one, the latest, or one made of them."""
    subject = Subject(stream)
    latest = _latest(schemas, subject.name)
    if latest is not None and latest.id is not None and subject.writes(latest, rows):
        schema, number = subject.parsed(latest), latest.id
    else:
        text = _own_text(subject, schemas, rows)
        schema, number = subject.format.parse(text, (), stream.message), _id_of(subject, schemas, text)
    subject.check_written(schema, rows, f"{subject.name} (id {number})")
    # Behind the id stands which message of the schema records are, if it may have several.
    place = place_bytes(schema.place) if isinstance(schema, ProtoSchema) else b""
    return WrittenSchema(schema, _FRAME + number.to_bytes(_ID_BYTES, "big") + place)


def _own_text(subject: Subject, schemas: RegisteredSchemas, rows: RowType) -> str:
    text = subject.own_text(rows)
    if text is None:
        message = (
            f"stream {subject.stream.name}: the registry at {schemas.url} has no schema under subject "
            f"{subject.name} to write with; register one, or set {subject.format.field}.schema"
        )
        raise UserActionError(message, code="SchemaNotRegisteredError")
    return text


def _id_of(subject: Subject, schemas: RegisteredSchemas, text: str) -> int:
    """Return the id of a schema, which is registered if it may be."""
    known = schemas.registry.id_of(subject.name, subject.format.kind, text)
    if known is not None:
        return known
    if not subject.registers:
        message = (
            f"stream {subject.stream.name}: the registry at {schemas.url} has no such schema under subject "
            f"{subject.name}. Register it, or set {subject.format.field}.register of the stream to true: {text}"
        )
        raise UserActionError(message, code="SchemaNotRegisteredError")
    return schemas.registry.register(subject.name, subject.format.kind, text)
