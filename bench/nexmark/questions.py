"""What the benchmark knows of each query of Nexmark: who can answer it, and when two answers are equal."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from bench.engine.answers import digest
from bench.nexmark.market import Market

_TIME, _MILLIS = pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC")


@dataclass(frozen=True, slots=True)
class Question:
    """One query."""

    stock: bool = True
    """Whether Structured Streaming has an answer: a native query, without a Python function."""
    state: bool = True
    ahead: str = ""
    """The stream that comes a batch earlier, since rows are looked up in it."""
    until: str = ""
    """The time by which results are compared: engines differ in which of the last windows they close."""
    by: tuple[str, ...] = ()
    """Where results are updates: the row with most in `newest` holds."""
    newest: str = ""

    def digest(self, rows: pa.Table, market: Market) -> str:
        """Equal for equal answers."""
        # Spark's files have nanoseconds without a zone.
        rows = rows.cast(pa.schema([_typed(one, _TIME) for one in rows.schema]))
        if self.until:
            closed = market.nexmark.until(max(0, market.batches - 3) * market.events)
            rows = rows.filter(pc.less_equal(rows[self.until], pa.scalar(closed, _TIME)))
            # A StreamApp's event times are milliseconds, and so are the bounds of its sessions.
            rows = rows.cast(pa.schema([_typed(one, _MILLIS) for one in rows.schema]), safe=False)
        if self.by:
            ordered = rows.append_column("row", pa.array(range(rows.num_rows))).sort_by(self.newest)
            last = ordered.group_by(list(self.by), use_threads=False).aggregate([("row", "last")])
            rows = rows.take(last["row_last"])
        return digest(rows.select(sorted(rows.schema.names)))


def _typed(column: pa.Field, time: pa.DataType) -> pa.Field:
    return column.with_type(time) if pa.types.is_timestamp(column.type) else column


ALONE = Question(stock=False)
STATELESS = Question(state=False)
QUESTIONS: Mapping[str, Question] = {
    "q0": STATELESS,
    "q1": STATELESS,
    "q2": STATELESS,
    "q3": Question(ahead="person"),
    "q5": Question(until="window_end"),
    "q7": Question(until="window_end"),
    "q8": Question(until="starttime"),
    "q9": ALONE,
    "q11": Question(until="window_end"),
    "q12": ALONE,
    "q13": STATELESS,
    "q14": STATELESS,
    "q15": ALONE,
    "q16": ALONE,
    "q17": Question(by=("auction", "window_start"), newest="total_bids"),
    "q18": Question(by=("auction", "bidder"), newest="date_time"),
    "q19": ALONE,
    "q20": Question(ahead="auction"),
    "q20-join": Question(ahead="auction"),
    "q21": STATELESS,
    "q22": STATELESS,
}
