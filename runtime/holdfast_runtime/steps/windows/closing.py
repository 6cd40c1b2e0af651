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

from holdfast.times import Micros
from holdfast_runtime.state.errors import parsing_state
from holdfast_runtime.state.sorted.schema import FORMAT, check_format

Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ClosingRound:
    """A round that goes on in the next batch, and where."""

    low: int
    """The hash from which on groups have still to leave."""
    layers: int
    """The round reads layers with a lower number; those from this number on were written after it began."""
    end: int | None = None
    """The end of the window whose groups are leaving; None where all windows of the round leave together."""


@dataclass(frozen=True, slots=True)
class ClosingMark:
    """How far windows have been closed."""

    until: Micros | None = None
    """The watermark of the last round, by which it closes windows and rows are late; None before the first round."""
    done: Micros | None = None
    """All windows that end at this time or before have left."""
    round: ClosingRound | None = None
    """A round that is not at its end."""

    @property
    def left(self) -> Micros | None:
        """Up to where no window has results to come: of those that end later, all or some groups have not left."""
        return self.until if self.round is None else self.done

    def begun(self, watermark: Micros | None) -> Self:
        """Return the mark of a new round up to `watermark`.

        It is the mark itself while a round is still going on, or if `watermark` is not later than the last round's.
        """
        if self.round is not None or watermark is None or (self.until is not None and watermark <= self.until):
            return self
        return replace(self, until=watermark)

    def believed(self, horizon: Micros) -> Self:
        """Return the mark itself, or an empty one if its watermark is later than `horizon`, and no round is going on.

        The horizon is the latest event time that is believed by now. Steps give up their watermarks beyond it; by this
        mark, all rows up to its watermark would be late.
        """
        if self.round is not None or self.until is None or self.until <= horizon:
            return self
        return type(self)()

    def closed(self, ends: Times) -> "npt.NDArray[np.bool_]":
        """Return a mask of the windows with these ends: those that the last round's watermark has reached."""
        return np.zeros(len(ends), np.bool_) if self.until is None else ends <= self.until

    def encoded(self) -> bytes:
        """Return the mark as JSON, the value that the step's table keeps."""
        now = None if self.round is None else [self.round.low, self.round.end, self.round.layers]
        return json.dumps({"format": FORMAT, "until": self.until, "done": self.done, "round": now}).encode()

    @classmethod
    def decoded(cls, text: bytes | None, table: str) -> Self:
        """Return the mark that a table keeps as this JSON; for None, the mark of a step that has closed nothing."""
        if text is None:
            return cls()
        with parsing_state(f"how far the windows in table {table} have been closed"):
            tree = json.loads(text)
            check_format(tree.get("format"))
            if tree["round"] is None:
                return cls(tree["until"], tree["done"])
            low, end, layers = tree["round"]
            return cls(tree["until"], tree["done"], ClosingRound(low, layers, end))


@dataclass(frozen=True, slots=True)
class WindowGroups:
    """Groups that leave: the partial of each, and the bounds of its window."""

    partials: pa.RecordBatch
    starts: Times
    ends: Times


@dataclass(frozen=True, slots=True)
class ClosedWindows:
    """The groups that leave in a batch, and the mark after it."""

    groups: list[WindowGroups]
    mark: ClosingMark
    waiting: int | None = None
    """The first end of a window whose groups have not all left; None if the round is at its end."""
