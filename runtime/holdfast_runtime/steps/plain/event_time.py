"""The event times of rows, as a stream or a step declares them: a column, or what is computed of the row."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import HoldfastError
from holdfast.planning.sql.plain.expressions import Plain
from holdfast.planning.sql.plain.reading import sure_select
from holdfast.spec.streams import EventTime, TimeUnit
from holdfast_runtime.steps.plain.plain_sql import PlainRows, plain_kinds
from holdfast_runtime.streams.codecs.arrow_types import FIRST_MICROS, LAST_MICROS, event_times
from holdfast_runtime.streams.codecs.codec import Indices

_MICROS: dict[TimeUnit, int] = {"Seconds": 1_000_000, "Milliseconds": 1_000, "Microseconds": 1}
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class TimedBy:
    """What tells the event time of rows."""

    declared: EventTime
    expression: Plain | None
    """None: a column."""

    @classmethod
    def of(cls, declared: EventTime, schema: pa.Schema) -> "TimedBy":
        """Return it for rows of these columns."""
        if declared.column is not None:
            return cls(declared, None)
        expressions = sure_select([f"{declared.from_} AS event_time"], plain_kinds(schema))
        if expressions is None:
            message = f"event time {declared.from_} can't be computed here. This is a bug in Holdfast"
            raise HoldfastError(message)
        return cls(declared, expressions[0])

    def times(self, rows: pa.RecordBatch) -> tuple[pa.Int64Array, Indices]:
        """Return microseconds since 1970, null where a row has none, and the rows whose time is in no year there is."""
        if self.expression is None:
            return event_times(rows, str(self.declared.column)), _NONE
        computed = PlainRows(rows)
        values = computed.repeated(computed.computed(self.expression))
        if self.declared.unit is None:
            values = values.cast(pa.timestamp("us", tz=values.type.tz)).view(pa.int64())
        unit = _MICROS[self.declared.unit or "Microseconds"]
        first, last = -(-FIRST_MICROS // unit), LAST_MICROS // unit
        believed = pc.and_(pc.greater_equal(values, first), pc.less_equal(values, last))
        outside = np.flatnonzero(pc.invert(believed).fill_null(False).to_numpy(zero_copy_only=False))  # noqa: FBT003 - Arrow's own
        in_years = pc.if_else(believed, values, None) if len(outside) else values
        return pc.multiply(in_years, unit).cast(pa.int64()), outside
