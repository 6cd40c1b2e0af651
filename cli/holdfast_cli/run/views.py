"""Views of a run: text for people, one JSON object per event for programs, and the summary at the end.

There is one text. Lines that stay are printed as they come; how the run goes is a line per second in a log or a pipe,
and on a terminal a block that is drawn anew in place. JSON has the event's field names in camelCase; fields may be
added but never removed.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, Protocol

from rich.console import Console
from rich.text import Text

from holdfast.errors import code_of
from holdfast.times import event_moment
from holdfast_cli.local.local_app import RunFiles
from holdfast_cli.output.amounts import count, many, rate, size, span
from holdfast_cli.output.live import LiveView
from holdfast_cli.output.screen import styled
from holdfast_cli.output.text_table import TextTable
from holdfast_cli.run.totals import RunTotals
from holdfast_runtime.progress import (
    AttemptStarted,
    BatchBegun,
    BatchWaiting,
    BufferedRows,
    ClockJumped,
    EndCause,
    Event,
    Freed,
    GrowthRefused,
    Progress,
    RunDraining,
    RunEnded,
    TablesLoading,
)


class RunView(Protocol):
    """Shows a run while it is going on. All calls come from one thread."""

    def show(self, event: Event | None, totals: RunTotals) -> None:
        """Show an event, which `totals` includes already; None: only time has passed."""

    def over(self, totals: RunTotals, failure: BaseException | None) -> None:
        """Show the end of the run, normal or failed; nothing is drawn in place any more."""


_NAMES: Mapping[type[Event], str] = {
    AttemptStarted: "started",
    Progress: "progress",
    BatchWaiting: "waiting",
    TablesLoading: "loading",
    GrowthRefused: "growthRefused",
    ClockJumped: "clockJumped",
    RunDraining: "draining",
    RunEnded: "ended",
}


class JsonView:
    """Prints each event as a JSON line."""

    def show(self, event: Event | None, totals: RunTotals) -> None:  # noqa: ARG002 - the same for all views
        """Print the event, unless it only says that a batch begins."""
        if event is not None and not isinstance(event, BatchBegun):
            _write_json(event_json(event))

    def over(self, totals: RunTotals, failure: BaseException | None) -> None:  # noqa: ARG002
        """Print a failure; a normal end was already printed as an event."""
        if failure is not None:
            _write_json({"event": "failed", "error": code_of(failure), "message": str(failure)})


def event_json(event: Event) -> dict[str, Any]:
    """Return an event as JSON values."""
    return {"event": _NAMES[type(event)], **{_camel(f.name): _plain(getattr(event, f.name)) for f in fields(event)}}


def _camel(name: str) -> str:
    first, *more = name.split("_")
    return first + "".join(word.capitalize() for word in more)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(member) for key, member in value.items()}
    if isinstance(value, BufferedRows | Freed):
        return value._asdict()
    return list(value) if isinstance(value, tuple) else value


def _write_json(tree: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(tree, ensure_ascii=False) + "\n")
    sys.stdout.flush()


class TextView:
    """Prints the run as text; what would be a progress line is a block drawn anew where there is a live view."""

    def __init__(self, console: Console, files: RunFiles, live: LiveView[RunTotals] | None = None) -> None:
        self._console, self._files, self._live = console, files, live
        # Batches may be faster than anyone can read.
        self._apart = 1.0 if live is None else 0.25
        self._shown_at: float | None = None
        self._unprinted = False

    def show(self, event: Event | None, totals: RunTotals) -> None:
        """Print notable facts at once; progress may wait."""
        if isinstance(event, AttemptStarted):
            self._line(started_line(event))
            if event.why_jobs is not None:
                self._line(event.why_jobs)
        elif isinstance(event, RunDraining):
            self._line(_draining_line(totals))
        for fact in totals.fresh:
            self._line(fact)
        self._unprinted = self._unprinted or isinstance(event, Progress)
        waited = self._shown_at is None or totals.now >= self._shown_at + self._apart
        if waited or isinstance(event, AttemptStarted | RunEnded):
            self._progress(totals)

    def over(self, totals: RunTotals, failure: BaseException | None) -> None:
        """Print the last progress line and the summary."""
        self._live = None
        self._progress(totals)
        print_summary(self._console, totals, self._files, failed=failure is not None)

    def _progress(self, totals: RunTotals) -> None:
        if self._live is not None:
            self._live.show(totals, None)
        elif self._unprinted and totals.last is not None:
            self._line(progress_line(totals, totals.last))
        else:
            return
        self._shown_at, self._unprinted = totals.now, False

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


def _draining_line(totals: RunTotals) -> str:
    if totals.started is None:
        doing = "ending as soon as it has started"
    else:
        doing = f"finishing {'the first batch' if totals.last is None else f'batch {count(totals.last.batch + 1)}'}"
    return f"draining: {doing}, press Ctrl-C again to stop at once"


def progress_line(totals: RunTotals, last: Progress) -> str:
    """Return how the run goes, on one line."""
    parts = [f"{label} {value}" for label, value in _facts(totals, last)]
    return f"batch {count(last.batch)}: {', '.join([*parts, *_odd(totals)])}"


def print_block(console: Console, totals: RunTotals) -> None:
    """Print how the run goes, for a terminal: most important first, as what does not fit is cut off."""
    hint = "draining" if totals.draining else "Ctrl-C finishes the batch and ends; twice stops at once"
    console.print(styled((f"{span(totals.now - totals.started_at)}  {hint}", "dim")))
    if totals.started is None or totals.last is None:
        console.print("starting ..." if totals.started is None else "waiting for the first batch ...")
        return
    table, last = TextTable("", ""), totals.last
    heard = totals.now - totals.recent[-1].at
    ago = f", {span(heard)} ago" if heard >= 1 else ""
    table.add(("batch", "dim"), (f"{count(last.batch)}, {many(last.tasks, 'task')}{ago}", "bold"))
    for label, value in _facts(totals, last):
        most = f", most in {last.farthest_behind}" if label == "lag" and last.farthest_behind else ""
        table.add((label, "dim"), f"{value}{most}")
    if last.watermark is not None:
        behind = (last.at - last.watermark) / 1000
        table.add(("", "dim"), f"{span(behind)} behind" if behind >= 0 else f"{span(-behind)} ahead")
    if odd := ", ".join(_odd(totals)):
        table.add(("so far", "dim"), (odd, "yellow"))
    if last.held_back is not None:
        table.add(("held back", "dim"), (last.held_back, "yellow"))
    table.add(("state", "dim"), size(last.state_bytes))
    for side, waiting in last.buffered.items():
        table.add((f"waiting in {side}", "dim"), _waiting(waiting))
    took = ", ".join(f"{phase} {span(took / 1000)}" for phase, took in last.phases.items() if round(took) > 0)
    table.add(("phases", "dim"), took or "-")
    table.print(console)
    _print_outputs(console, totals, None)


def _facts(totals: RunTotals, last: Progress) -> Iterator[tuple[str, str]]:
    yield "in", f"{count(totals.rows_in)} ({rate(totals.rate(lambda progress: progress.rows_in))})"
    yield "out", f"{count(totals.rows_out)} ({rate(totals.rate(lambda progress: progress.rows_out))})"
    yield "lag", count(last.lag)
    yield "took", span(last.seconds)
    if last.watermark is not None:
        yield "watermark", event_moment(last.watermark)
    if loading := "; ".join(totals.loading()):
        yield "loading", loading
    if last.buffered:
        yield "waiting", count(sum(side.rows for side in last.buffered.values()))


def _waiting(buffered: BufferedRows) -> str:
    since = "" if buffered.oldest is None else f", the oldest of {event_moment(buffered.oldest)}"
    return f"{many(buffered.rows, 'row')}, {size(buffered.bytes)}{since}"


def _odd(totals: RunTotals) -> list[str]:
    return [f"{what} {count(number)}" for what, number in totals.odd.items() if number]


_WHY = {
    EndCause.DRAINED: "it was asked to stop",
    EndCause.COMPLETED: "all inputs have ended",
    EndCause.IDLE: "nothing is left to read",
    EndCause.GROWN: "its inputs have grown, and the next attempt reads all of them",
    EndCause.ENOUGH: "the limit of --batches or --for is reached",
}


def print_summary(console: Console, totals: RunTotals, files: RunFiles, *, failed: bool) -> None:
    """Print why the run ended, how much it did, and where to see its output.

    Prints nothing for a run that never started, as its error is printed.
    """
    if totals.started is None:
        return
    for line in _summary(totals, files, failed=failed):
        console.print(line)
    _print_outputs(console, totals, files)


def _summary(totals: RunTotals, files: RunFiles, *, failed: bool) -> Iterator[Text]:
    ended = totals.ended
    if failed:
        yield styled(("failed", "bold red"), ": committed batches stay; the next run continues after them")
    elif ended is not None:
        yield styled((ended.ending.value, "bold green"), f": {_WHY[ended.ending]}; everything is committed")
    rows_in, rows_out = (totals.rows_in, totals.rows_out) if ended is None else (ended.rows_in, ended.rows_out)
    batches, seconds = (
        (totals.batches, totals.now - totals.started_at) if ended is None else (ended.batches, ended.seconds)
    )
    yield styled(f"  {many(batches, 'batch')} in {span(seconds)}")
    per_second = f" ({rate(rows_in / seconds)})" if seconds > 0 else ""
    yield styled(f"  rows in {count(rows_in)}{per_second}, out {count(rows_out)}")
    if odd := ", ".join(_odd(totals)):
        yield styled("  ", (odd, "yellow"))
    last = totals.last
    if rows_in and not rows_out and last is not None and last.watermark is None and last.held_back is not None:
        yield styled("  held back ", (last.held_back, "yellow"))
    yield styled(f"  data {files.data}")
    if failed:
        yield styled(f"  what was printed meanwhile: {files.prints}")


def _print_outputs(console: Console, totals: RunTotals, files: RunFiles | None) -> None:
    """Print the rows of each output: while the run goes on with their rate, afterwards with how to see them."""
    if not totals.outputs:
        return
    table = TextTable("OUTPUT", "ROWS", "ROWS/S" if files is None else "LOOK", right=("ROWS", "ROWS/S"))
    for stream, rows in sorted(totals.outputs.items()):
        if files is None:
            more = Text(rate(totals.rate(lambda progress, stream=stream: progress.streams.get(stream, 0))))  # type: ignore[misc]
        else:
            more = Text(files.tail(stream) if stream in files.logs else "-", no_wrap=True)
        table.add(stream, count(rows), more)
    console.print()
    table.print(console)
