"""Which records of a stream somebody wants to see: those of one key, and those whose rows meet a condition.

The condition is Spark SQL that Holdfast computes without Spark. A record that can't be decoded, or whose row it can't
be computed for, does not meet it, and is reported. Must not read records.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from holdfast.control.messages import ControlRecordError, UserRecord, decode
from holdfast.errors import UserActionError
from holdfast.one_line import escaped
from holdfast.planning.problems import excerpt
from holdfast.planning.sql.expressions import check_filter
from holdfast.planning.sql.plain.expressions import Plain
from holdfast.planning.sql.plain.reading import plain_filter
from holdfast.planning.sql.scope import Scope
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.inspection.local_app import LocalApp
from holdfast_runtime.inspection.schema_values import known_columns, reading_codec
from holdfast_runtime.steps.plain.plain_failures import FailingRows
from holdfast_runtime.steps.plain.plain_sql import plain_kinds
from holdfast_runtime.streams.codecs import Codec
from holdfast_runtime.streams.record_columns import MetadataColumns


@dataclass(frozen=True, slots=True)
class UnjudgedRecord:
    """A record of which it can't be said whether it meets the condition."""

    partition: int
    offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class ChosenRecords:
    """Records that are wanted, in order, and those of which nobody knows."""

    records: pa.RecordBatch
    unjudged: Sequence[UnjudgedRecord] = ()


@dataclass(frozen=True, slots=True)
class RowCondition:
    """A condition over the rows of a stream."""

    condition: Plain
    codec: Codec
    columns: MetadataColumns
    typed: bool
    """Whether values start with a type byte."""

    @classmethod
    def of(cls, local_app: LocalApp, name: str, text: str) -> "RowCondition":
        """Return the condition in a text; raise `UsageError` if it can't be computed."""
        rows, declared = local_app.stream(name).rows, local_app.declared(name)
        if declared is not None and declared.changes is not None:
            message = (
                f"--where: the records of stream {name} are changes of a database, and no rows; ask the table that it "
                "feeds, or choose records with --key"
            )
            raise UserActionError(message, code="UsageError")
        schema = known_columns(rows)
        if schema is None:
            message = f"--where: the columns of stream {name} are not known before the app runs; give it a schema"
            raise UserActionError(message, code="UsageError")
        if findings := check_filter(text, Scope.of(rows)).findings:
            message = f"--where: {'; '.join(finding.message for finding in findings)}"
            raise UserActionError(message, code="UsageError")
        condition = plain_filter(text, plain_kinds(schema))
        if condition is None:
            message = (
                f"--where: {excerpt(text)} is not plain: only Spark computes it. Comparisons of columns, AND, OR, NOT, "
                "IN, LIKE, arithmetic and common functions of texts and times are plain; a time is TIMESTAMP "
                "'2026-01-02 12:00:00', in UTC"
            )
            raise UserActionError(message, code="UsageError")
        columns = MetadataColumns.of(declared, schema)
        codec = reading_codec(local_app, name, columns.in_value)
        return cls(condition, codec, columns, local_app.has_type_bytes(name))

    def chosen(self, partition: StreamPartition, records: pa.RecordBatch) -> ChosenRecords:
        """Return the records whose rows meet the condition; records without a value have no row."""
        values = records.column("value")
        if self.typed:
            values = pa.array([_payload(value) for value in values.to_pylist()], pa.binary())
        decoded = self.columns.added(self.codec.decode(values), records, partition)
        met, reasons = FailingRows(decoded.rows).tried(self.condition, pa.bool_())
        offsets = records.column("offset")
        unjudged = [(record.index, record.reason) for record in decoded.bad]
        unjudged += [
            (index, reason)
            for index, reason in zip(decoded.good.tolist(), reasons.to_pylist(), strict=True)
            if reason is not None
        ]
        return ChosenRecords(
            records.take(pa.array(decoded.good).filter(met.fill_null(False))),  # noqa: FBT003 - Arrow's own
            [UnjudgedRecord(partition.partition, offsets[index].as_py(), reason) for index, reason in sorted(unjudged)],
        )


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """The wanted records of a stream; without key and condition all of them."""

    key: str | None = None
    """The key as it is shown, with or without escapes."""
    condition: RowCondition | None = None

    @classmethod
    def of(cls, local_app: LocalApp, name: str, key: str | None, where: str | None) -> "RecordFilter":
        """Return the filter of a stream; `where` is Spark SQL."""
        return cls(key, None if where is None else RowCondition.of(local_app, name, where))

    def chosen(self, partition: StreamPartition, records: pa.RecordBatch) -> ChosenRecords:
        """Return the wanted ones among these records."""
        if self.key is not None:
            keys = map(shown_key, records.column("key").to_pylist())
            of_key = [key is not None and self.key in (key, escaped(key)) for key in keys]
            records = records.filter(pa.array(of_key, pa.bool_()))
        if self.condition is None or not records.num_rows:
            return ChosenRecords(records)
        return self.condition.chosen(partition, records)


def shown_key(key: bytes | None) -> str | None:
    """Return a record's key as a text."""
    return None if key is None else key.decode(errors="backslashreplace")


def _payload(value: bytes | None) -> bytes | None:
    """Return the user's value in a record of a stream with control messages; None for a control message."""
    try:
        record = decode(value)
    except ControlRecordError:
        return value
    return record.payload if isinstance(record, UserRecord) else None
