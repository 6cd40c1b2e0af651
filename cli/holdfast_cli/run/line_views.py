"""Why: a run in a log or a pipe: whole lines, at most one of progress in a second, what is notable at once.

Must not move a cursor.
"""

from rich.console import Console

from holdfast_cli.output.amounts import count, many, moment, rate, span
from holdfast_cli.output.screen import styled
from holdfast_cli.run.run_summary import RunFiles, print_summary
from holdfast_cli.run.totals import RunTotals
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

_APART = 1.0
"""Seconds between lines of progress."""


class LinesView:
    """Prints lines."""

    def __init__(self, console: Console, where: RunFiles) -> None:
        self._console, self._where = console, where
        self._printed_at: float | None = None
        self._unprinted = False

    def show(self, event: Event, seen: RunTotals, now: float) -> None:
        """Print what should not wait."""
        match event:
            case AttemptStarted():
                self._line(started_line(event))
                for one in seen.fresh:
                    self._line(one)
            case Progress():
                for one in seen.fresh:
                    self._line(one)
                self._unprinted = True
                self.tick(seen, now)
            case BatchWaiting() | GrowthRefused() | ClockJumped():
                for one in seen.fresh:
                    self._line(one)
            case RunDraining():
                self._line(draining_line(seen))
            case RunEnded():
                self._progress(seen, now)

    def tick(self, seen: RunTotals, now: float) -> None:
        """Print how it goes if that has not been said for a while."""
        if self._printed_at is None or now >= self._printed_at + _APART:
            self._progress(seen, now)

    def close(self) -> None:
        """Nothing was opened."""

    def over(self, seen: RunTotals, failure: BaseException | None, now: float) -> None:
        """The last line of progress, and the summary."""
        self._progress(seen, now)
        print_summary(self._console, seen, self._where, failed=failure is not None, now=now)

    def _progress(self, seen: RunTotals, now: float) -> None:
        if self._unprinted and seen.last is not None:
            self._line(progress_line(seen, seen.last, now))
            self._printed_at, self._unprinted = now, False

    def _line(self, text: str) -> None:
        self._console.print(styled(text))
        self._console.file.flush()


def started_line(started: AttemptStarted) -> str:
    """An attempt has started."""
    ui = f", spark {started.spark_ui}" if started.spark_ui else ""
    return (
        f"{started.app} run {started.run} attempt {started.attempt}: {many(started.tasks, 'task')} in "
        f"{many(started.slots, 'slot')}, data {started.data}{ui}"
    )


def draining_line(seen: RunTotals) -> str:
    """It was asked to stop."""
    if seen.started is None:
        doing = "ending as soon as Spark has started"
    else:
        doing = f"finishing {'the first batch' if seen.last is None else f'batch {count(seen.last.batch + 1)}'}"
    return f"draining: {doing}, press Ctrl-C again to stop at once"


def progress_line(seen: RunTotals, last: Progress, now: float) -> str:
    """How it goes."""
    parts = [
        f"in {count(seen.rows_in)} ({rate(seen.rate(lambda one: one.rows_in, now))})",
        f"out {count(seen.rows_out)} ({rate(seen.rate(lambda one: one.rows_out, now))})",
        f"lag {count(last.lag)}",
        span(last.seconds),
    ]
    if last.watermark is not None:
        parts.append(f"watermark {moment(last.watermark)}")
    parts += [f"{what} {count(number)}" for what, number in seen.odd() if number]
    return f"batch {count(last.batch)}: {', '.join(parts)}"
