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

import pyarrow as pa

from holdfast.errors import UserActionError
from holdfast.planning.avro_streams import written_schema
from holdfast.planning.problems import ExpressionError
from holdfast.planning.types.avro.columns import avro_of
from holdfast.planning.types.avro.reading import reading
from holdfast.planning.types.avro.schema import AvroSchema, parse_avro
from holdfast.planning.types.avro.writing import writing
from holdfast.planning.types.connect.envelope import envelope, other_key
from holdfast.planning.types.spark_types import RowType
from holdfast.spec.app import AppSpec
from holdfast.spec.streams import Stream, System
from holdfast_runtime.streams.codecs.arrow_types import row_type
from holdfast_runtime.streams.codecs.avro import WrittenAvro
from holdfast_runtime.streams.registry.client import RegisteredSchema, SchemaRegistry
from holdfast_runtime.streams.registry.settings import registry_settings
from holdfast_runtime.streams.stream_codecs import AvroRecords

_KIND = "AVRO"
_FRAME = b"\0"
_ID_BYTES = 4


class SchemaMisfitError(UserActionError):
    """The registry's schema of a stream and its columns do not fit each other."""


@dataclass(frozen=True, slots=True)
class RegisteredSchemas:
    """The schemas of one registry. Its login is read where it is used."""

    system: str
    url: str
    secret_name: str | None
    secrets: Path | None
    framed: bool = True

    def schema(self, number: int) -> AvroSchema | str:
        """Return the schema of an id, or why records of it can't be read."""
        registered = self.registry.by_id(number)
        if registered is None:
            return f"its schema id {number} is not in the registry at {self.url}"
        if registered.kind != _KIND:
            return f"its schema id {number} is of {registered.kind}, and the stream's format is avro"
        try:
            return _parsed(registered)
        except ExpressionError as error:
            return f"its schema id {number} can't be used: {error}"

    @property
    def registry(self) -> SchemaRegistry:
        """The registry, opened once in a process."""
        return _opened(self, os.getpid())


@functools.cache
def _opened(schemas: RegisteredSchemas, _: int) -> SchemaRegistry:
    return SchemaRegistry(registry_settings(schemas.system, schemas.url, schemas.secret_name, schemas.secrets))


def records_read(stream: Stream, system: System, secrets: Path | None) -> AvroRecords | None:
    """Return how records of a stream are read, if a registry has their schemas."""
    schemas = _schemas_of(system, secrets) if stream.format == "avro" else None
    return None if schemas is None else AvroRecords(schemas, None)


def records_fed(stream: Stream, system: System, secrets: Path | None, columns: pa.Schema) -> AvroRecords | None:
    """Return how rows are written into a stream from outside of apps, as an app would; None: no registry knows it.

    `columns`: those of its values.
    """
    schemas = _schemas_of(system, secrets) if stream.format == "avro" else None
    return None if schemas is None else AvroRecords(schemas, _to_write(stream, schemas, row_type(columns)))


def registered_records(
    spec: AppSpec, read: Mapping[str, pa.Schema], written: Mapping[str, pa.Schema], secrets: Path | None
) -> dict[str, AvroRecords]:
    """Return what registries say of an app's streams; raise an error if that does not fit the columns of their values.

    `read`, `written`: stream -> these columns.
    """
    systems = {system.name: system for system in spec.systems}
    records = {}
    for stream in spec.streams:
        schemas = _schemas_of(systems[stream.system], secrets)
        if stream.format != "avro" or schemas is None:
            continue
        if stream.name in read:
            _check_latest(stream, schemas, row_type(read[stream.name]))
            _check_key(stream, schemas)
        to_write = None
        if stream.name in written:
            to_write = _to_write(stream, schemas, row_type(written[stream.name]))
        records[stream.name] = AvroRecords(schemas, to_write)
    return records


def _schemas_of(system: System, secrets: Path | None) -> RegisteredSchemas | None:
    registry = None if system.kafka is None else system.kafka.registry
    return None if registry is None else RegisteredSchemas(system.name, registry.url, registry.secret_name, secrets)


def _subject(stream: Stream) -> str:
    declared = None if stream.avro is None else stream.avro.subject
    return declared or f"{stream.topic or stream.name}-value"


def _check_latest(stream: Stream, schemas: RegisteredSchemas, rows: RowType) -> None:
    """Refuse columns that the latest schema of a stream's subject can't fill."""
    subject, rows = _subject(stream), rows if stream.changes is None else envelope(rows)
    latest = schemas.registry.latest(subject)
    if latest is None:
        return  # nobody has written to it yet
    fields = reading(_usable(latest, subject), rows)
    faults = [*fields.misfits, *(f"it has no {absent}" for absent in fields.absent)]
    if faults:
        message = (
            f"stream {stream.name}: the latest schema of subject {subject} (id {latest.id}) does not fit the stream's "
            f"columns: {'; '.join(faults)}. Change the schema of the stream, or leave such columns out"
        )
        raise SchemaMisfitError(message)


def _check_key(stream: Stream, schemas: RegisteredSchemas) -> None:
    """Refuse a stream of changes whose `key` is not the key of the records, if that is Avro."""
    subject = f"{stream.topic or stream.name}-key"
    latest = None if stream.changes is None else schemas.registry.latest(subject)
    if latest is None:
        return
    schema = _usable(latest, subject)
    fault = other_key([field.name for field in schema.resolved(schema.root).fields], stream.key or ())
    if fault is not None:
        message = f"stream {stream.name}: the latest schema of subject {subject} does not fit: {fault}"
        raise SchemaMisfitError(message)


def _to_write(stream: Stream, schemas: RegisteredSchemas, rows: RowType) -> WrittenAvro:
    """Return the schema that rows are written with, and its id: the declared one, the latest, or one made of them."""
    subject, declared = _subject(stream), written_schema(stream)
    registers = stream.avro is not None and stream.avro.register_
    latest = schemas.registry.latest(subject)
    if latest is not None and _is_to_write(latest, declared, rows, registers=registers):
        schema, number = _usable(latest, subject), latest.id
    else:
        text = declared or avro_of(rows, stream.topic or stream.name)
        schema, number = parse_avro(text), _id_of(text, stream, schemas)
    if misfits := writing(schema, rows).misfits:
        message = (
            f"stream {stream.name}: the rows do not fit the schema of subject {subject} (id {number}): "
            f"{'; '.join(misfits)}. Change the step that writes it, or give the stream another avro.schema"
        )
        raise SchemaMisfitError(message)
    return WrittenAvro(schema, _FRAME + number.to_bytes(_ID_BYTES, "big"))


def _is_to_write(latest: RegisteredSchema, declared: str | None, rows: RowType, *, registers: bool) -> bool:
    """Whether rows are written with the latest schema: if it is the declared one, or fits, or no other may be made."""
    if declared is not None:
        return _same(latest.text, declared)
    return not registers or (latest.kind == _KIND and not writing(_parsed(latest), rows).misfits)


def _same(left: str, right: str) -> bool:
    """Whether two texts are one schema, whatever spaces they have; to some registries these are another one."""
    try:
        return left == right or bool(json.loads(left) == json.loads(right))
    except ValueError:
        return False  # a plain word is a schema of Avro, and no JSON


def _id_of(text: str, stream: Stream, schemas: RegisteredSchemas) -> int:
    """Return the id of a schema, which is registered if it may be."""
    subject = _subject(stream)
    known = schemas.registry.id_of(subject, _KIND, text)
    if known is not None:
        return known
    if stream.avro is None or not stream.avro.register_:
        message = (
            f"stream {stream.name}: the registry at {schemas.url} has no such schema under subject {subject}. "
            f"Register it, or set avro.register of the stream to true: {text}"
        )
        raise UserActionError(message, code="SchemaNotRegisteredError")
    return schemas.registry.register(subject, _KIND, text)


def _usable(registered: RegisteredSchema, subject: str) -> AvroSchema:
    if registered.kind != _KIND:
        message = f"subject {subject} has a schema of {registered.kind}, and the stream is of format avro; name another"
        raise SchemaMisfitError(message)
    return _parsed(registered)


def _parsed(registered: RegisteredSchema) -> AvroSchema:
    return parse_avro(registered.text, [text for _, text in registered.references])
