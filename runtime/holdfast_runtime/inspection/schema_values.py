"""Values of records with a schema as JSON objects, and the other way round: for people, who can't read or write them.

Their schemas are what the app declares, or what the registry of the stream's system has. Must not read records.
"""

from dataclasses import dataclass

import pyarrow as pa

from holdfast.planning.types.connect.envelope import envelope
from holdfast.planning.types.ddl import typed_columns
from holdfast.planning.types.spark_types import RowType
from holdfast.spec.streams import SHOWN_AS_JSON
from holdfast_runtime.checkpoint.directories import DataDir
from holdfast_runtime.inspection.local_app import LocalApp
from holdfast_runtime.streams.codecs import Codec, EncodeError, JsonCodec, arrow_schema
from holdfast_runtime.streams.codecs.arrow_types import row_type
from holdfast_runtime.streams.record_columns import MetadataColumns
from holdfast_runtime.streams.registered import records_fed, records_read
from holdfast_runtime.streams.stream_codecs import stream_codec


def known_columns(rows: RowType) -> pa.Schema | None:
    """Return these columns; None if some are known to a running app only."""
    return None if typed_columns(rows) is None else arrow_schema(rows)


def reading_codec(local_app: LocalApp, name: str, in_value: pa.Schema) -> Codec:
    """Return what reads the values of a stream, which have these columns."""
    declared, system = local_app.declared(name), local_app.system(name)
    if declared is None or system is None:
        return stream_codec(declared, in_value)
    return stream_codec(declared, in_value, records_read(declared, system, DataDir(local_app.data).secrets))


@dataclass(frozen=True, slots=True)
class SchemaValues:
    """The values of one stream."""

    codec: Codec
    json: JsonCodec

    @classmethod
    def of(cls, local_app: LocalApp, name: str) -> "SchemaValues | None":
        """Return those of a stream to be read; None if they have no schema, or not all columns are known."""
        in_value = _columns(local_app, name)
        return None if in_value is None else cls(reading_codec(local_app, name, in_value), JsonCodec(in_value))

    @classmethod
    def fed(cls, local_app: LocalApp, name: str) -> "SchemaValues | None":
        """Return those of a stream to be written, with the schema that an app would write; None as for `of`."""
        declared, system, in_value = local_app.declared(name), local_app.system(name), _columns(local_app, name)
        if declared is None or system is None or in_value is None:
            return None
        records = records_fed(declared, system, DataDir(local_app.data).secrets, in_value)
        return cls(stream_codec(declared, in_value, records), JsonCodec(in_value))

    def shown(self, value: bytes) -> bytes | None:
        """Return a value as JSON; None if it can't be read."""
        decoded = self.codec.decode(pa.array([value], pa.binary()))
        return None if decoded.bad else self.json.encode(decoded.rows)[0].as_py()

    def values(self, objects: list[bytes]) -> tuple[list[bytes], str | None]:
        """Return the values of these objects up to the first that is no row of the stream, and why it is none."""
        decoded = self.json.decode(pa.array(objects, pa.binary()))
        if decoded.bad:
            first = decoded.bad[0]
            return self.values(objects[: first.index])[0], first.reason
        try:
            return self.codec.encode(decoded.rows).to_pylist(), None
        except EncodeError as error:
            if len(objects) == 1:
                return [], str(error)
        written: list[bytes] = []
        for one_object in objects:
            value, reason = self.values([one_object])
            if reason is not None:
                return written, reason
            written += value
        return written, None


def _columns(local_app: LocalApp, name: str) -> pa.Schema | None:
    declared, columns = local_app.declared(name), known_columns(local_app.stream(name).rows)
    if declared is None or declared.format not in SHOWN_AS_JSON or columns is None:
        return None
    in_value = MetadataColumns.of(declared, columns).in_value
    return in_value if declared.changes is None else arrow_schema(envelope(row_type(in_value)))
