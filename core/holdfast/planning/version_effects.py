"""What registering a version of a schema as the latest of its subject does to an app, field by field.

It is judged by what the start of an attempt asks of the registry (`subjects`), and by the columns that the planner
derives, so that it needs neither a registry nor a broker. Whether the registry takes the version, by its own rule of
compatibility, is not known here. Must not print.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn

from holdfast.errors import UserActionError
from holdfast.planning.derived_columns import flow_rows
from holdfast.planning.graph import Graph, build_graph
from holdfast.planning.known_columns import Flow
from holdfast.planning.problems import ExpressionError
from holdfast.planning.schema_streams import written_schema
from holdfast.planning.stream_columns import DEAD_LETTERS, without_metadata
from holdfast.planning.subjects import SchemaMisfitError, SchemaVersion, Subject
from holdfast.planning.types.connect.envelope import envelope
from holdfast.planning.types.ddl import parse_type, typed_columns
from holdfast.planning.types.misfits import Misfit
from holdfast.planning.types.record_formats import RECORD_FORMATS, References, Unread
from holdfast.planning.types.schema_fields import SchemaField
from holdfast.planning.types.spark_types import STRING, UNKNOWN, Column, RowType, SparkType, is_text
from holdfast.spec.app import AppSpec
from holdfast.spec.streams import SCHEMA_FORMATS, Stream
from holdfast.suggest import did_you_mean

KEY_SUFFIX = "-key"
"""Behind the name of a stream: the schema is that of its records' keys."""


class Role(StrEnum):
    """What an app does with the records of a schema."""

    READ = "read"
    WRITTEN = "written"
    KEYS = "keys"
    """It is the schema of their keys."""
    UNUSED = "unused"
    """Neither: the stream is declared, and that is all."""


class Effect(StrEnum):
    """What becomes of a field or a column."""

    REFUSED = "refused"
    DOUBTFUL = "bad records"
    """Some values make a record bad."""
    WIDENED = "widened"
    """It fits: one takes all that the other has, and more."""
    FITS = "fits"
    IGNORED = "ignored"
    """No column takes the field."""
    FILLED = "filled"
    """No column is written into the field: something else is, or nothing."""
    UNKNOWN = "not known"
    """The type of the column is known when the app runs."""


@dataclass(frozen=True, slots=True)
class FieldEffect:
    """A field of the schema, or a part of one, beside its column."""

    path: str
    schema: str | None
    """Its type in the schema."""
    column: str | None
    """The type of its column."""
    effect: Effect
    why: str = ""


@dataclass(frozen=True, slots=True)
class VersionEffect:
    """What a version does to one stream in one role."""

    stream: str
    subject: str
    role: Role
    refusal: str | None = None
    """What the start of the next attempt says and ends with; None: it goes on."""
    fields: tuple[FieldEffect, ...] = ()
    notes: tuple[str, ...] = ()


def version_effects(spec: AppSpec, name: str, text: str, references: References = ()) -> tuple[VersionEffect, ...]:
    """Return the effects of a version of the schema of a stream, or of its keys (`NAME-key`), once for each role.

    Raise `UserActionError` if no registry has schemas of such a stream, or its columns are not known.
    """
    stream, is_key = _chosen(spec, name)
    subject = Subject(stream)
    version = SchemaVersion(subject.key_name if is_key else subject.name, subject.format.kind, text, references)
    if is_key:
        return (_of_keys(subject, version),)
    graph = build_graph(spec)
    flow = flow_rows(graph)
    effects = []
    if (read := read_columns(graph, flow, stream)) is not None:
        effects.append(_of_reading(subject, version, _known(stream, read)))
    if (written := written_columns(graph, flow, stream)) is not None:
        effects.append(_of_writing(subject, version, written))
    return tuple(effects) or (VersionEffect(name, version.subject, Role.UNUSED),)


def _chosen(spec: AppSpec, name: str) -> tuple[Stream, bool]:
    """Return the stream of a name, and whether the name is that of its keys."""
    streams = {stream.name: stream for stream in spec.streams}
    is_key = name not in streams and name.endswith(KEY_SUFFIX) and name.removesuffix(KEY_SUFFIX) in streams
    stream = streams.get(name.removesuffix(KEY_SUFFIX) if is_key else name)
    systems = {system.name: system for system in spec.systems}
    if stream is None:
        _unusable(f"there is no stream {name}{did_you_mean(name, streams)}")
    if stream.format not in RECORD_FORMATS:
        _unusable(
            f"stream {stream.name} has format {stream.format}, whose records have no schema; those of "
            f"{', '.join(SCHEMA_FORMATS)} have one"
        )
    kafka = systems[stream.system].kafka
    if kafka is None or kafka.registry is None:
        _unusable(
            f"no registry has schemas of stream {stream.name}, as system {stream.system} names none: its schema "
            f"is {RECORD_FORMATS[stream.format].field}.schema in the spec. Change it there, and compare both versions "
            "of the app"
        )
    return stream, is_key


def _unusable(message: str) -> NoReturn:
    raise UserActionError(message, code="UsageError")


def read_columns(graph: Graph, flow: Flow, stream: Stream) -> RowType | None:
    """Return the columns of values that the app reads from a stream, as rows carry them; None if it reads none."""
    if stream.name not in graph.readers and stream.name not in graph.side_inputs:
        return None
    return carried(without_metadata(stream, flow.rows[stream.name]))


def written_columns(graph: Graph, flow: Flow, stream: Stream) -> RowType | None:
    """Return the columns of values that the app writes to a stream, as rows carry them; None if it writes none."""
    if stream.name in flow.written:
        return carried(without_metadata(stream, flow.written[stream.name][1]))
    return DEAD_LETTERS if stream.name in graph.dead_letters else None


def carried(rows: RowType) -> RowType:
    """Return columns with the types in which rows carry them: all text is STRING."""
    return RowType(tuple(Column(column.name, _carried(column.type)) for column in rows.columns), closed=rows.closed)


def _carried(text: str) -> str:
    kind = parse_type(text)
    return text if kind is None else str(_carried_type(kind))


def _carried_type(kind: SparkType) -> SparkType:
    if is_text(kind):
        return STRING
    if kind.word == "TIME":
        return SparkType("TIME", digits=(6,))
    return SparkType(kind.word, tuple(map(_carried_type, kind.inner)), kind.names, kind.digits)


def _known(stream: Stream, rows: RowType) -> RowType:
    if typed_columns(rows) is None:
        _unusable(f"the columns of stream {stream.name} are not known; `holdfast plan` says why")
    return rows


def _refusal(check: Callable[[], object]) -> str | None:
    """Return why the start would end here."""
    try:
        check()
    except (SchemaMisfitError, ExpressionError) as error:
        return str(error)
    return None


def _of_reading(subject: Subject, version: SchemaVersion, rows: RowType) -> VersionEffect:
    stream = subject.stream
    refusal = _refusal(lambda: subject.check_latest(version, rows))
    try:
        unread, fields = subject.unread(version, rows), subject.format.fields(subject.parsed(version))
    except SchemaMisfitError:
        return VersionEffect(stream.name, version.subject, Role.READ, refusal)
    columns = rows if stream.changes is None else envelope(rows)
    faults = [*unread.misfits, *(_absent(misfit) for misfit in unread.absent)]
    effects = tuple(_field_effects(fields, columns, faults, unread.doubts, _not_read))
    notes = tuple(_of_running(unread))
    return VersionEffect(stream.name, version.subject, Role.READ, refusal, effects, (*notes, *_trap(stream, effects)))


def _absent(misfit: Misfit) -> Misfit:
    return Misfit(misfit.path, f"it has no {misfit.why}", misfit.kind)


def _of_running(unread: Unread) -> Iterator[str]:
    if unread.misfits:
        yield "an attempt that runs goes on, and each record of this version is bad"
    elif unread.absent:
        yield "an attempt that runs goes on, and what it lacks is null in its records"


def _not_read(_: SchemaField) -> tuple[Effect, str]:
    return Effect.IGNORED, ""


def _not_written(field: SchemaField) -> tuple[Effect, str]:
    return Effect.FILLED, field.filled or ""


def _field_effects(
    fields: Iterable[SchemaField],
    rows: RowType,
    faults: Iterable[Misfit],
    doubts: Iterable[Misfit],
    without_column: Callable[[SchemaField], tuple[Effect, str]],
) -> Iterator[FieldEffect]:
    """Yield what becomes of each column, in their order, and of each field that is none; parts stand below."""
    known = {field.name: field for field in fields}
    columns = {column.name: column.type for column in rows.columns}
    effects_in: dict[str, list[FieldEffect]] = {name: [] for name in (*columns, *known)}
    for misfits, effect in ((faults, Effect.REFUSED), (doubts, Effect.DOUBTFUL)):
        for misfit in misfits:
            top = _top(misfit.path, effects_in)
            whole = misfit.path == top and top in known
            schema, column = (known[top].type if whole else None), columns.get(misfit.path)
            effects_in.setdefault(top, []).append(FieldEffect(misfit.path, schema, column, effect, misfit.why))
    for name, effects in effects_in.items():
        if effects:
            yield from effects
        elif name not in columns:
            yield FieldEffect(name, known[name].type, None, *without_column(known[name]))
        elif columns[name] == UNKNOWN:
            yield FieldEffect(name, _type_of(known, name), None, Effect.UNKNOWN, "its type is known when the app runs")
        else:
            own_type = known[name].column if name in known else None
            effect = Effect.FITS if own_type in (None, columns[name]) else Effect.WIDENED
            yield FieldEffect(name, _type_of(known, name), columns[name], effect)


def _type_of(known: dict[str, SchemaField], name: str) -> str | None:
    return known[name].type if name in known else None


def _top(path: str, names: Iterable[str]) -> str:
    """Return the field or column that a path is in."""
    return next((name for name in names if path == name or path.startswith((f"{name}.", f"{name}["))), path)


def _trap(stream: Stream, effects: Iterable[FieldEffect]) -> Iterator[str]:
    """A note for a column of the key whose field has another type: then keys may be written with another one, too."""
    if stream.changes is not None or stream.partitioner == "none":
        return
    for effect in effects:
        if effect.effect is Effect.WIDENED and effect.path in (stream.key or ()):
            yield f"{effect.path} is {effect.schema} and in the key: {_KEYS_DIFFER}"


_KEYS_DIFFER = (
    "a key with a schema of its own begins with the id of that, so that equal keys of two schemas lie in two "
    "partitions. If keys are written so, set partitioner: none, and repartition before steps that need equal keys in "
    "one task"
)


def _of_keys(subject: Subject, version: SchemaVersion) -> VersionEffect:
    stream = subject.stream
    refusal = _refusal(lambda: subject.check_key(version))
    notes: tuple[str, ...] = ("keys are not read by their schema",)
    if stream.changes is not None:
        notes = ()
    elif stream.partition_key is not None and stream.partitioner != "none":
        notes = (*notes, _KEYS_DIFFER)
    return VersionEffect(stream.name, version.subject, Role.KEYS, refusal, notes=notes)


def _of_writing(subject: Subject, version: SchemaVersion, rows: RowType) -> VersionEffect:
    stream, role = subject.stream, Role.WRITTEN
    if not rows.closed:
        _unusable(f"the columns that are written to stream {stream.name} are not known; `holdfast plan` says why")
    try:
        if not subject.writes(version, rows):
            refusal = _refusal(lambda: _check_own(subject, rows))
            return VersionEffect(stream.name, version.subject, role, refusal, notes=(_not_taken(subject),))
        schema = subject.parsed(version)
        misfits, fields = subject.unwritten(schema, rows), subject.format.fields(schema)
    except (SchemaMisfitError, ExpressionError) as error:
        return VersionEffect(stream.name, version.subject, role, str(error))
    refusal = _refusal(lambda: subject.check_written(schema, rows, version.label))
    effects = tuple(_field_effects(fields, rows, misfits, (), _not_written))
    notes = () if refusal is None else ("an attempt that runs goes on, and writes with the schema that it began with",)
    return VersionEffect(stream.name, version.subject, role, refusal, effects, notes)


def _check_own(subject: Subject, rows: RowType) -> None:
    """Refuse rows that are no records of the schema that they are written with in place of a registered one."""
    text = subject.own_text(rows) if typed_columns(rows) is not None else None
    if text is not None:
        subject.check_written(subject.format.parse(text, (), subject.stream.message), rows, subject.name)


def _not_taken(subject: Subject) -> str:
    field = subject.format.field
    if written_schema(subject.stream) is not None:
        return f"rows are written with {field}.schema of the stream, and not with this version"
    return (
        f"its rows do not fit this version: as {field}.register is true, a schema that is made of their columns is "
        "registered behind it, if the registry takes it, and written with"
    )
