"""Views of a run as lines: text for logs and pipes, JSON for programs, and the final summary.

Text has at most one progress line per second; notable events are printed at once. JSON has one object per event, with
the event's field names in camelCase; fields may be added but never removed. The summary says why the run ended, how
much it did, and where to see the output. Must not move the cursor.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from rich.console import Console
from rich.text import Text

from holdfast_cli.local.local_app import RunFiles
from holdfast_cli.output.amounts import count, many, moment, rate, span
from holdfast_cli.output.screen import TextTable, styled
from holdfast_cli.run.totals import RunTotals
from holdfast_runtime.progress import (
    AttemptStarted,
    BatchWaiting,
    ClockJumped,
    EndCause,
    Event,
    GrowthRefused,
    Progress,
    RunDraining,
    RunEnded,
)

_NAMES: Mapping[type[Event], str] = {
    AttemptStarted: "started",
    Progress: "progress",
    BatchWaiting: "waiting",
    GrowthRefused: "growthRefused",
    ClockJumped: "clockJumped",
    RunDraining: "draining",
    RunEnded: "ended",
}


def event_json(event: Event) -> dict[str, Any]:
    """Return an event as JSON values."""
    return {"event": _NAMES[type(event)], **{_camel(f.name): _plain(getattr(event, f.name)) for f in fields(event)}}


def failure_json(error: BaseException) -> dict[str, Any]:
    """Return a failure as JSON values."""
    return {"event": "failed", "error": type(error).__name__, "message": str(error)}


def write_json(tree: Mapping[str, Any]) -> None:
    """Print one line at once."""
    sys.stdout.write(json.dumps(tree, ensure_ascii=False) + "\n")
    sys.stdout.flush()


class JsonView:
    """Prints each event as a JSON line."""

    def show(self, event: Event, seen: RunTotals, now: float) -> None:  # noqa: ARG002 - the same for all views
        """Print the event."""
        write_json(event_json(event))

    def tick(self, seen: RunTotals, now: float) -> None:
        """Do nothing: only events are printed."""

    def close(self) -> None:
        """Do nothing: no resources are open."""

    def over(self, seen: RunTotals, failure: BaseException | None, now: float) -> None:  # noqa: ARG002
        """Print a failure; a normal end was already printed as an event."""
        if failure is not None:
            write_json(failure_json(failure))


def _camel(name: str) -> str:
    first, *more = name.split("_")
    return first + "".join(word.capitalize() for word in more)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


_WHY = {
    EndCause.DRAINED: "it was asked to stop",
    EndCause.COMPLETED: "all inputs have ended",
    EndCause.IDLE: "nothing is left to read",
    EndCause.GROWN: "its inputs have grown, and the next attempt reads all of them",
    EndCause.ENOUGH: "it did what it was given",
}


def print_summary(console: Console, seen: RunTotals, where: RunFiles, *, failed: bool, now: float) -> None:
    """Print the summary; nothing for a run that never started, as its error is printed."""
    if seen.started is None:
        return
    for line in _lines(seen, where, failed=failed, now=now):
        console.print(line)
    if seen.outputs:
        table = TextTable("OUTPUT", "ROWS", "LOOK", right=("ROWS",))
        for stream, rows in sorted(seen.outputs.items()):
            table.add(stream, count(rows), where.tail(stream) if stream in where.logs else "-")
        console.print()
        table.print(console)


def _lines(seen: RunTotals, where: RunFiles, *, failed: bool, now: float) -> Iterator[Text]:
    ended = seen.ended
    if failed:
        yield styled(("failed", "bold red"), ": batches that were committed stay; the next run goes on behind them")
    elif ended is not None:
        yield styled((ended.ending.value, "bold green"), f": {_WHY[ended.ending]}; everything is committed")
    rows_in, rows_out = (seen.rows_in, seen.rows_out) if ended is None else (ended.rows_in, ended.rows_out)
    batches, seconds = (seen.batches, now - seen.started_at) if ended is None else (ended.batches, ended.seconds)
    yield styled(f"  {many(batches, 'batch')} in {span(seconds)}")
    per_second = f" ({rate(rows_in / seconds)})" if seconds > 0 else ""
    yield styled(f"  rows in {count(rows_in)}{per_second}, out {count(rows_out)}")
    if odd := [f"{what} {count(number)}" for what, number in seen.odd() if number]:
        yield styled("  ", (", ".join(odd), "yellow"))
    yield styled(f"  data {where.data}")
    if failed:
        yield styled(f"  what Spark and the steps printed: {where.spark_log}")


_APART = 1.0
"""Minimum seconds between progress lines."""


class LinesView:
    """Prints the run as lines of text."""

    def __init__(self, console: Console, where: RunFiles) -> None:
        self._console, self._where = console, where
        self._printed_at: float | None = None
        self._unprinted = False

    def show(self, event: Event, seen: RunTotals, now: float) -> None:
        """Print notable events at once; progress may wait."""
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
        """Print progress if the last progress line is old enough."""
        if self._printed_at is None or now >= self._printed_at + _APART:
            self._progress(seen, now)

    def close(self) -> None:
        """Do nothing: no resources are open."""

    def over(self, seen: RunTotals, failure: BaseException | None, now: float) -> None:
        """Print the last progress line and the summary."""
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
    """Return the line for an attempt's start."""
    ui = f", spark {started.spark_ui}" if started.spark_ui else ""
    return (
        f"{started.app} run {started.run} attempt {started.attempt}: {many(started.tasks, 'task')} in "
        f"{many(started.slots, 'slot')}, data {started.data}{ui}"
    )


def draining_line(seen: RunTotals) -> str:
    """Return the line for a draining run."""
    if seen.started is None:
        doing = "ending as soon as Spark has started"
    else:
        doing = f"finishing {'the first batch' if seen.last is None else f'batch {count(seen.last.batch + 1)}'}"
    return f"draining: {doing}, press Ctrl-C again to stop at once"


def progress_line(seen: RunTotals, last: Progress, now: float) -> str:
    """Return a progress line."""
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
