"""Totals of a run: sums over its events, smoothed rates, and notable facts.

All views show parts of it. The time comes in as an argument. Must not print.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from holdfast_cli.output.amounts import count, many, size, span
from holdfast_runtime.progress import (
    AttemptStarted,
    BatchWaiting,
    ClockJumped,
    Event,
    GrowthRefused,
    Progress,
    RunDraining,
    RunEnded,
    TablesLoading,
)

_WINDOW = 10.0
"""Seconds over which rates are smoothed; extended to two batches if they take longer."""
_LISTED = 8
"""How many restored tasks of a batch are listed."""


class ReportedBatch(NamedTuple):
    """One batch and when it was reported."""

    at: float
    progress: Progress


@dataclass(slots=True)
class RunTotals:
    """The totals of a run. Times are seconds of a monotonic clock."""

    started_at: float = 0.0
    now: float = 0.0
    started: AttemptStarted | None = None
    last: Progress | None = None
    draining: bool = False
    ended: RunEnded | None = None
    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    odd: Counter[str] = field(default_factory=Counter)
    """What needs attention -> how many rows, records or tasks."""
    outputs: Counter[str] = field(default_factory=Counter)
    """Output stream -> rows."""
    fresh: tuple[str, ...] = ()
    """Notable facts of the last event."""
    said_at: dict[str, float] = field(default_factory=dict)
    """Kind of notable fact -> when it was last shown, as some occur in every batch."""
    recent: deque[ReportedBatch] = field(default_factory=deque)
    loading_since: dict[tuple[int, str], tuple[int, float]] = field(default_factory=dict)
    """Attempt and table -> how many records it had to load at first, and when."""
    file_problems: Mapping[str, str] = field(default_factory=dict)
    """Table -> why its files could not be loaded, as last told."""
    incomplete: set[str] = field(default_factory=set)
    """Tables that lack rows, as far as shown."""

    def note(self, event: Event | None, now: float) -> None:
        """Add one event; None: only time has passed."""
        self.now, self.fresh = now, ()
        match event:
            case AttemptStarted():
                self.started, self.started_at = event, now
                self.fresh = event.given_up
            case Progress():
                self._add(event)
                self.fresh = tuple(f"batch {count(event.batch)}: {fact}" for fact in self._notable(event))
            case BatchWaiting():
                self.fresh = (f"waiting: {event.why}",)
            case TablesLoading():
                self._add_loading(event)
            case GrowthRefused() | ClockJumped():
                self.fresh = (event.why,)
            case RunDraining():
                self.draining = True
            case RunEnded():
                self.ended = event

    def rate(self, what: Callable[[Progress], int]) -> float:
        """Return the recent rate per second."""
        if self.last is None:
            return 0.0
        window = max(_WINDOW, 2 * self.last.seconds)
        counted = sum(what(heard.progress) for heard in self.recent if heard.at > self.now - window)
        # Right after the start, a batch may have taken longer than the run has been watched.
        return counted / max(min(window, self.now - self.started_at), self.last.seconds, 0.001)

    def loading(self) -> Iterator[str]:
        """Yield what is left to load of each table that the app's inputs wait for."""
        if self.last is None:
            return
        for table, left in self.last.loading.items():
            first, since = self.loading_since[self.last.attempt, table]
            done, took = first - left, self.now - since
            more = f", {100 * done // first} %, about {span(took * left / done)}" if done > 0 and took else ""
            yield f"{table}: {many(left, 'record')} left{more}"

    def _add(self, progress: Progress) -> None:
        self.last = progress
        self.batches += 1
        self.rows_in += progress.rows_in
        self.rows_out += progress.rows_out
        self.outputs.update(progress.streams)
        self.odd.update(
            {
                "late": sum(progress.late.values()),
                "from the future": progress.ahead,
                "undecoded": progress.undecoded,
                "tombstones": progress.tombstones,
                "failed": sum(progress.failed.values()),
                "without a key": sum(progress.unkeyed.values()),
                "unwritable": progress.unwritable,
                "expired": sum(progress.expired.values()),
                "misplaced": sum(progress.misplaced.values()),
                "restored": len(progress.restored),
            }
        )
        for table, left in progress.loading.items():
            self.loading_since.setdefault((progress.attempt, table), (left, self.now))
        self.recent.append(ReportedBatch(self.now, progress))
        while self.recent[0].at <= self.now - max(_WINDOW, 2 * progress.seconds):
            self.recent.popleft()

    def _add_loading(self, event: TablesLoading) -> None:
        self.fresh = tuple(
            f"table {table}: {why}" for table, why in event.problems.items() if self.file_problems.get(table) != why
        )
        self.file_problems = event.problems
        if self.last is not None:
            self.last = replace(self.last, loading=event.left)
            for table, left in event.left.items():
                self.loading_since.setdefault((self.last.attempt, table), (left, self.now))

    def _notable(self, progress: Progress) -> Iterator[str]:
        """Yield the facts of a batch that a user should know."""
        if fresh := [table for table in progress.incomplete if table not in self.incomplete]:
            self.incomplete.update(fresh)
            yield (f"table {', '.join(fresh)} lacks rows: they are lost, or were gone before they were read")
        yield from (f"restored {task}" for task in progress.restored[:_LISTED])
        if len(progress.restored) > _LISTED:
            yield f"restored {many(len(progress.restored) - _LISTED, 'more task')}"
        if progress.freed.stores:
            yield (
                f"removed {many(progress.freed.stores, 'local store')} that nothing needs any more, "
                f"{size(progress.freed.bytes)}"
            )
        if progress.undecoded and self._is_news("undecoded"):
            yield f"{many(progress.undecoded, 'record')} could not be decoded"
        if progress.unwritable and self._is_news("unwritable"):
            yield f"{many(progress.unwritable, 'row')} too large for their stream, dead letters were written"
        for what, counts, noun, of, rest in (
            ("failed", progress.failed, "row", "of step", "failed and became dead letters"),
            ("expired", progress.expired, "row", "of", "older than its topic keeps records: Kafka deletes them"),
            ("misplaced", progress.misplaced, "record", "of", "misplaced: a producer has not seen it grow"),
        ):
            if counts and self._is_news(what):
                yield f"{', '.join(f'{many(number, noun)} {of} {name}' for name, number in counts.items())} {rest}"
        if progress.late and self._is_news("late"):
            yield ", ".join(f"{many(number, 'row')} too late for {step}" for step, number in progress.late.items())
        if progress.ahead and self._is_news("ahead"):
            yield f"{many(progress.ahead, 'row')} from the future: {progress.first_ahead}"

    def _is_news(self, what: str) -> bool:
        """Return False if it was shown a moment ago: some streams have late rows in every batch."""
        if self.now < self.said_at.get(what, -_WINDOW) + _WINDOW:
            return False
        self.said_at[what] = self.now
        return True
