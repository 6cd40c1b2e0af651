"""Values of a stream of Avro as JSON objects, and the other way round: for people, who can't read or write Avro.

Only for streams of the embedded log, whose schema the app says.
"""

from dataclasses import dataclass

import pyarrow as pa

from holdfast_runtime.inspection.local_app import LocalApp
from holdfast_runtime.streams.codecs import Codec, EncodeError, JsonCodec, arrow_schema
from holdfast_runtime.streams.record_columns import MetadataColumns
from holdfast_runtime.streams.stream_codecs import stream_codec


@dataclass(frozen=True, slots=True)
class AvroValues:
    """The values of one stream."""

    avro: Codec
    json: JsonCodec

    @classmethod
    def of(cls, local_app: LocalApp, name: str) -> "AvroValues | None":
        """Return those of a stream; None if they are not Avro, or their columns are known to a running app only."""
        declared, rows = local_app.declared(name), local_app.stream(name).rows
        if declared is None or declared.format != "avro" or not rows.closed:
            return None
        schema = MetadataColumns.of(declared, arrow_schema(rows)).in_value
        return cls(stream_codec(declared, schema), JsonCodec(schema))

    def shown(self, value: bytes) -> bytes | None:
        """Return a value as JSON; None if it can't be read."""
        decoded = self.avro.decode(pa.array([value], pa.binary()))
        return None if decoded.bad else self.json.encode(decoded.rows)[0].as_py()

    def values(self, objects: list[bytes]) -> tuple[list[bytes], str | None]:
        """Return the values of these objects up to the first that is no row of the stream, and why it is none."""
        decoded = self.json.decode(pa.array(objects, pa.binary()))
        if decoded.bad:
            first = decoded.bad[0]
            return self.values(objects[: first.index])[0], first.reason
        try:
            return self.avro.encode(decoded.rows).to_pylist(), None
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
