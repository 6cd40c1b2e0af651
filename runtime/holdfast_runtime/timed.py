"""Why: rows and their event times travel together, whatever columns a step selects. Must not know steps."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Timed:
    """Rows, each with its event time."""

    rows: pa.RecordBatch
    times: pa.Int64Array
    """Milliseconds since 1970, null where a row has none."""

    @classmethod
    def nothing(cls, schema: pa.Schema) -> "Timed":
        """No rows."""
        return cls(pa.RecordBatch.from_pylist([], schema), pa.array([], pa.int64()))

    @classmethod
    def joined(cls, parts: "Sequence[Timed]", schema: pa.Schema) -> "Timed":
        """All rows of several, in their order."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.nothing(schema)
        rows = pa.concat_batches([part.rows for part in parts])
        return cls(rows, pa.concat_arrays([part.times for part in parts]))

    @property
    def count(self) -> int:
        """How many rows."""
        return int(self.rows.num_rows)
