"""The arithmetic of windows: panes, the windows that hold a pane, and which of them a watermark closes.

Windows begin at multiples of the slide since 1970 (UTC), as Spark's do, and hold their start but not their end. A pane
is the longest stretch of time that lies in the same windows from its start to its end: the greatest common divisor of
window and slide. A window is closed once the watermark has reached its end. Without windows all time is one pane, which
only the end of the stream closes. Pure; times are microseconds.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import gcd
from typing import Protocol

import numpy as np
import pyarrow as pa

from holdfast.times import FARTHEST, Micros
from holdfast_runtime.columns.grouping import starts_of
from holdfast_runtime.steps.windows.closing import Times

END_OF_TIME = Micros(FARTHEST + 1)
"""What has ended when its stream has."""


class Panes(Protocol):
    """How time is cut."""

    @property
    def width(self) -> int | None:
        """The length of a pane; None of one for all time."""

    def panes(self, times: Times) -> Times:
        """Return the pane of each time."""

    def last_ends(self, panes: Times) -> Times:
        """Return the end of the last window that holds each pane: with it, nobody needs the pane any more."""

    def ends(self, panes: Iterable[int], after: int | None, until: int) -> list[int]:
        """Return the ends of all windows that hold one of these panes, in order, behind `after` and up to `until`."""

    def start(self, end: int) -> int:
        """Return the start of the window that ends there."""

    def of(self, end: int) -> range:
        """Return the panes of the window that ends there."""


@dataclass(frozen=True, slots=True)
class WindowPanes:
    """Windows of one length and slide."""

    window: Micros
    slide: Micros

    @property
    def width(self) -> int:
        """The length of a pane."""
        return gcd(self.window, self.slide)

    def panes(self, times: Times) -> Times:
        """Return the pane of each time."""
        return times // self.width

    def last_ends(self, panes: Times) -> Times:
        """Return the end of the last window that holds each pane."""
        return panes * self.width // self.slide * self.slide + self.window

    def ends(self, panes: Iterable[int], after: int | None, until: int) -> list[int]:
        """Return the ends of all windows that hold one of these panes."""
        ends: set[int] = set()
        for pane in panes:
            first = self._end_from((pane + 1) * self.width)
            last = pane * self.width // self.slide * self.slide + self.window
            if after is not None:
                first = max(first, self._end_from(after + 1))
            ends.update(range(first, min(last, until) + 1, self.slide))
        return sorted(ends)

    def start(self, end: int) -> int:
        """Return the start of the window that ends there."""
        return end - self.window

    def of(self, end: int) -> range:
        """Return the panes of the window that ends there."""
        return range((end - self.window) // self.width, end // self.width)

    def _end_from(self, time: int) -> int:
        """Return the first end of a window at or behind a time."""
        return time + (self.window - time) % self.slide


@dataclass(frozen=True, slots=True)
class AllTime:
    """No windows: one pane, in one window that ends with the stream."""

    width: int | None = None

    def panes(self, times: Times) -> Times:
        """Return the one pane."""
        return np.zeros(len(times), np.int64)

    def last_ends(self, panes: Times) -> Times:
        """Return the end of time."""
        return np.full(len(panes), END_OF_TIME)

    def ends(self, panes: Iterable[int], after: int | None, until: int) -> list[int]:
        """Return the end of time, if it is reached."""
        any_pane = any(True for _ in panes)
        return [END_OF_TIME] if any_pane and until >= END_OF_TIME and after != END_OF_TIME else []

    def start(self, end: int) -> int:
        """Return the beginning of time, which is as far as its end."""
        return -end

    def of(self, end: int) -> range:  # noqa: ARG002 - as for any windows
        """Return the one pane."""
        return range(1)


def by_pane(panes: Times, rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each pane, in the order they came."""
    if len(panes) and panes.min() == panes.max():
        yield int(panes[0]), rows
    elif len(panes):
        order = np.argsort(panes, kind="stable")
        ordered, rows = panes[order], rows.take(pa.array(order))
        starts = starts_of(ordered).tolist()
        for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
            yield int(ordered[start]), rows.slice(start, end - start)
