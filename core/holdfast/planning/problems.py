"""Why: what a plan finds wrong, as values: a reason, the place, the numbers, how they came about, and the way out.

A warning has the same shape; which of the two it is decides the list it stands in. Must not print.
"""

from dataclasses import dataclass

from holdfast.planning.repairs import Repair
from holdfast.reasons import Reason


@dataclass(frozen=True, slots=True)
class StreamCount:
    """A stream of a set with its count, and how the count came about."""

    name: str
    partitions: int
    how: str


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a plan, or (as a warning) worth knowing."""

    reason: Reason
    message: str
    step: str | None = None
    """The step it was found at."""
    stream: str | None = None
    """Or the stream or table."""
    streams: tuple[StreamCount, ...] = ()
    """The streams of the step's set, sorted by name."""
    paths: tuple[tuple[str, ...], ...] = ()
    """How each of these streams reaches the step: names from the stream on, tables as `table T`."""
    repair: Repair | None = None

    @property
    def order(self) -> tuple[str, str, str, str]:
        """By place, then reason: never by the order of a file."""
        return (self.step or "", self.stream or "", self.reason.value, self.message)
