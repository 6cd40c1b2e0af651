"""Totals of a run: sums over its events, smoothed rates, and notable events.

Each view shows part of it. The time comes in as an argument. Must not print.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast_cli.output.amounts import count, many
from holdfast_runtime.progress import (
    AttemptStarted,
    BatchWaiting,
    ClockJumped,
    Event,
    GrowthRefused,
    Progress,
    RunDraining,
    RunEnded,
)

_WINDOW = 10.0
"""Seconds over which rates are smoothed; extended to two batches if they take longer."""
_KEPT_NEWS = 20
_LISTED = 8
"""How many restored tasks of a batch are listed."""


class ReportedBatch(NamedTuple):
    """One batch and when it was reported."""

    at: float
    progress: Progress


@dataclass(slots=True)
class RunTotals:
    """The totals of a run. Times are seconds of a monotonic clock."""

    started: AttemptStarted | None = None
    started_at: float = 0.0
    last: Progress | None = None
    draining: bool = False
    ended: RunEnded | None = None
    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    late: int = 0
    ahead: int = 0
    undecoded: int = 0
    unwritable: int = 0
    failed: int = 0
    """Rows on which a step failed."""
    tombstones: int = 0
    misplaced: int = 0
    restored: int = 0
    outputs: Counter[str] = field(default_factory=Counter)
    """Output stream -> rows."""
    news: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT_NEWS))
    """The latest notable events, oldest first."""
    fresh: tuple[str, ...] = ()
    """Notable facts of the last event."""
    said_at: dict[str, float] = field(default_factory=dict)
    """Kind of notable fact -> when it was last shown, as some occur in every batch."""
    recent: deque[ReportedBatch] = field(default_factory=deque)

    def note(self, event: Event, now: float) -> None:
        """Add one event to the totals."""
        self.fresh = ()
        match event:
            case AttemptStarted():
                self.started, self.started_at = event, now
                self.fresh = event.given_up
                self.news.extend(self.fresh)
            case Progress():
                self._add(event, now)
            case BatchWaiting():
                self.fresh = (f"waiting: {event.why}",)
                self.news.extend(self.fresh)
            case GrowthRefused() | ClockJumped():
                self.fresh = (event.why,)
                self.news.extend(self.fresh)
            case RunDraining():
                self.draining = True
            case RunEnded():
                self.ended = event

    def rate(self, what: Callable[[Progress], int], now: float) -> float:
        """Return the recent rate per second."""
        if self.last is None:
            return 0.0
        window = max(_WINDOW, 2 * self.last.seconds)
        counted = sum(what(heard.progress) for heard in self.recent if heard.at > now - window)
        # Right after the start, a batch may have taken longer than the run has been watched.
        return counted / max(min(window, now - self.started_at), self.last.seconds, 0.001)

    def odd(self) -> tuple[tuple[str, int], ...]:
        """Return counts of rows and records that need attention, with their labels."""
        ahead = (("from the future", self.ahead),) if self.ahead else ()
        rare = (
            ("tombstones", self.tombstones),
            ("failed", self.failed),
            ("unwritable", self.unwritable),
            ("misplaced", self.misplaced),
        )
        found = (one for one in rare if one[1])
        return ("late", self.late), *ahead, ("undecoded", self.undecoded), *found, ("restored", self.restored)

    def _add(self, progress: Progress, now: float) -> None:
        self.last = progress
        self.batches += 1
        self.rows_in += progress.rows_in
        self.rows_out += progress.rows_out
        self.late += progress.late
        self.ahead += progress.ahead
        self.undecoded += progress.undecoded
        self.unwritable += progress.unwritable
        self.failed += sum(progress.failed.values())
        self.tombstones += progress.tombstones
        self.misplaced += sum(progress.misplaced.values())
        self.restored += len(progress.restored)
        self.outputs.update(progress.streams)
        self.recent.append(ReportedBatch(now, progress))
        while self.recent[0].at <= now - max(_WINDOW, 2 * progress.seconds):
            self.recent.popleft()
        self.fresh = tuple(f"batch {count(progress.batch)}: {one}" for one in self._notable(progress, now))
        self.news.extend(self.fresh)

    def _notable(self, progress: Progress, now: float) -> Iterator[str]:
        """Yield the facts of a batch that a user should know."""
        yield from (f"restored {task}" for task in progress.restored[:_LISTED])
        if len(progress.restored) > _LISTED:
            yield f"restored {many(len(progress.restored) - _LISTED, 'more task')}"
        if progress.undecoded and self._is_news("undecoded", now):
            yield f"{many(progress.undecoded, 'record')} could not be decoded"
        if progress.unwritable and self._is_news("unwritable", now):
            yield f"{many(progress.unwritable, 'row')} too large for their stream, dead letters were written"
        if progress.failed and self._is_news("failed", now):
            told = ", ".join(f"{many(found, 'row')} of step {step}" for step, found in progress.failed.items())
            yield f"{told} failed and became dead letters"
        if progress.misplaced and self._is_news("misplaced", now):
            told = ", ".join(f"{many(found, 'record')} of {stream}" for stream, found in progress.misplaced.items())
            yield f"{told} misplaced: a producer has not seen it grow"
        if progress.late and self._is_news("late", now):
            yield f"{many(progress.late, 'row')} too late"
        if progress.ahead and self._is_news("ahead", now):
            yield f"{many(progress.ahead, 'row')} from the future: {progress.first_ahead}"

    def _is_news(self, what: str, now: float) -> bool:
        """Return False if it was shown a moment ago: some streams have late rows in every batch."""
        if now < self.said_at.get(what, -_WINDOW) + _WINDOW:
            return False
        self.said_at[what] = now
        return True
