"""Records of a database's change stream, as Debezium writes them: rows to keep and keys to delete.

Each record is an envelope in JSON or Avro, with the primary key as its key. Must not know tables.
"""

from holdfast_runtime.streams.changes.change_codec import ChangeCodec

__all__ = ["ChangeCodec"]
