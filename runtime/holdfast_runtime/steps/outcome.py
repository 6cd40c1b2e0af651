"""What one run of a step produced, as one value: its rows, the rows it did not take, and when it has to run again.

Every verb returns it, and a slot notes it in one place, whatever the verb. Must not know what becomes of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from holdfast_runtime.progress import BufferedRows
from holdfast_runtime.steps.failures import FailedRows
from holdfast_runtime.steps.late_rows import LateRows
from holdfast_runtime.steps.timed_rows import TimedRows


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """What a step produced of one batch of one task."""

    rows: TimedRows
    late: Mapping[str, int] = field(default_factory=dict)
    """Step, or step and side -> rows that were late for it, or lacked the event time it needs."""
    late_rows: Sequence[LateRows] = ()
    """Those of them that it left out and that can become dead letters."""
    failed: Sequence[FailedRows] = ()
    """Rows on which it failed, or results that can't be given, to be put aside."""
    unfired: int | None = None
    """The event time, in milliseconds, from which on timers, windows or rows are due that follow with the next batches.

    Their rows will have that time or a later one, so nothing downstream may be told that event time has passed it.
    """
    wake: int | None = None
    """When it must run next even if no row comes, by the batch clock; at or before `now` means at once."""
    buffered: Mapping[str, BufferedRows] = field(default_factory=dict)
    """Step and side -> the rows that wait there for a partner."""
    unjoined: int = 0
    """Rows that make their pairs in the next batches only, because they make very many."""
    unkeyed: int = 0
    """Rows without a key, which no table keeps."""
