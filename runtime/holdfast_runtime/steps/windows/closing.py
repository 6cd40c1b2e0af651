"""How far the windows of an `aggregate` step have been closed, and the groups that leave it.

Windows close in rounds. A round closes all windows that end up to a watermark, as it was when the round began; where
more groups leave than a batch should carry, the next batches go on with the round, by hash, and the next one waits.
What comes in meanwhile is judged by the round's watermark. All times are microseconds, as ends of windows are. Pure.
"""

import json
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.moments import Micros
from holdfast_runtime.state.errors import parsing_state
from holdfast_runtime.state.sorted.schema import FORMAT, check_format

Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ClosingRound:
    """Where a round goes on."""

    low: int
    """The hash from which groups are still there."""
    runs: int
    """Only runs with a lower number count: the others came after the round's watermark."""
    end: int | None = None
    """The window that is leaving; None where all windows of the round leave together."""


@dataclass(frozen=True, slots=True)
class ClosingMark:
    """How far windows have been closed."""

    until: Micros | None = None
    """The watermark by which rows are late, and the last round closes windows; None if there was none yet."""
    done: Micros | None = None
    """All windows that end up to here have left."""
    round: ClosingRound | None = None
    """A round that is not at its end."""

    def begun(self, watermark: Micros | None) -> Self:
        """Return the mark with a new round, up to this watermark; the old mark if it is no news."""
        if self.round is not None or watermark is None or (self.until is not None and watermark <= self.until):
            return self
        return replace(self, until=watermark)

    def believed(self, horizon: Micros) -> Self:
        """Return the mark, or a new one if its watermark is past the latest event time that is believed by now.

        The watermarks of steps are given up then, too: by this one, all rows would be late until that time.
        """
        if self.round is not None or self.until is None or self.until <= horizon:
            return self
        return type(self)()

    def closed(self, ends: Times) -> "npt.NDArray[np.bool_]":
        """Return which of these ends of windows the watermark had reached."""
        return np.zeros(len(ends), np.bool_) if self.until is None else ends <= self.until

    def encoded(self) -> bytes:
        """Return the mark as it is kept."""
        now = None if self.round is None else [self.round.low, self.round.end, self.round.runs]
        return json.dumps({"format": FORMAT, "until": self.until, "done": self.done, "round": now}).encode()

    @classmethod
    def decoded(cls, text: bytes | None, table: str) -> Self:
        """Return a mark as it was kept in a table; without one, the mark of a step that has closed nothing."""
        if text is None:
            return cls()
        with parsing_state(f"how far the windows in table {table} have been closed"):
            tree = json.loads(text)
            check_format(tree.get("format"))
            if tree["round"] is None:
                return cls(tree["until"], tree["done"])
            low, end, runs = tree["round"]
            return cls(tree["until"], tree["done"], ClosingRound(low, runs, end))


@dataclass(frozen=True, slots=True)
class WindowGroups:
    """Groups whose results are to come out."""

    partials: pa.RecordBatch
    starts: Times
    ends: Times


@dataclass(frozen=True, slots=True)
class ClosedWindows:
    """What a batch has closed."""

    groups: list[WindowGroups]
    mark: ClosingMark
    waiting: int | None = None
    """The first end of a window whose groups have not all left; None if the round is at its end."""
