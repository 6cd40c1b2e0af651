"""The view of a run on a terminal: one screen redrawn in place, readable at 80 by 24.

Its content is a pure function of the run's totals, so that tests can check it. Must not scroll: notable events stay
visible until the summary.
"""

from collections.abc import Iterator
from textwrap import wrap

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from holdfast_cli.local.local_app import RunFiles
from holdfast_cli.output.amounts import count, many, moment, rate, size, span
from holdfast_cli.output.screen import styled
from holdfast_cli.run.line_views import draining_line, print_summary
from holdfast_cli.run.totals import RunTotals
from holdfast_runtime.progress import AttemptStarted, Event, Progress

_APART = 0.25
"""Minimum seconds between two drawings: batches may be faster than anyone can read."""
_LABEL = 11
_LATE = "yellow"


class ScreenView:
    """Draws the screen."""

    def __init__(self, console: Console, where: RunFiles) -> None:
        self._console, self._where = console, where
        # No auto-refresh: its thread would draw while a signal is handled.
        self._live = Live(console=console, auto_refresh=False, transient=True, vertical_overflow="crop")
        self._live.start()
        self._drawn_at: float | None = None

    def show(self, event: Event, seen: RunTotals, now: float) -> None:
        """Draw now, or soon for mere progress."""
        if not isinstance(event, Progress):
            self._drawn_at = None
        self.tick(seen, now)

    def tick(self, seen: RunTotals, now: float) -> None:
        """Draw if the last drawing is old enough."""
        if self._drawn_at is not None and now < self._drawn_at + _APART:
            return
        self._drawn_at = now
        width, height = self._console.size
        self._live.update(Group(*screen_lines(seen, now, width, height)), refresh=True)

    def close(self) -> None:
        """Remove the screen and restore the cursor."""
        self._live.stop()

    def over(self, seen: RunTotals, failure: BaseException | None, now: float) -> None:
        """Print the summary in place of the screen."""
        if seen.started is not None:
            self._console.print(_head(seen.started))
        for one in seen.news:
            self._console.print(styled((one, _LATE)))
        print_summary(self._console, seen, self._where, failed=failure is not None, now=now)


def screen_lines(seen: RunTotals, now: float, width: int, height: int) -> list[Text]:
    """Return the lines of the screen, which fit into this size and leave one line for the cursor."""
    if seen.started is None:
        return _cut(
            [styled(draining_line(seen) if seen.draining else f"starting Spark ... {span(now - seen.started_at)}")],
            width,
        )
    head = [_head(seen.started), styled((f"{span(now - seen.started_at)}  {_places(seen.started)}", "dim")), Text()]
    body = list(_numbers(seen, seen.last, now, width)) if seen.last else [styled("waiting for the first batch ...")]
    foot = [Text(), _foot(seen)]
    left = height - 1 - len(head) - len(body) - len(foot)
    outputs = list(_outputs(seen, now, left))
    news = list(_news(seen, left - len(outputs)))
    return _cut([*head, *body, *outputs, *news, *foot][: max(1, height - 1)], width)


def _cut(lines: list[Text], width: int) -> list[Text]:
    for line in lines:
        line.no_wrap = True
        line.truncate(width, overflow="ellipsis")
    return lines


def _head(started: AttemptStarted) -> Text:
    restarts = f", {many(started.attempt - 1, 'restart')}" if started.attempt > 1 else ""
    tasks = f"{many(started.tasks, 'task')} in {many(started.slots, 'slot')}"
    return styled((started.app, "bold"), f"  run {started.run}, attempt {started.attempt}{restarts}, {tasks}")


def _places(started: AttemptStarted) -> str:
    return f"data {started.data}" + (f"  spark {started.spark_ui}" if started.spark_ui else "")


def _row(label: str, *parts: str | tuple[str, str]) -> Text:
    return styled((label.ljust(_LABEL), "dim"), *parts)


def _numbers(seen: RunTotals, last: Progress, now: float, width: int) -> Iterator[Text]:
    heard = seen.recent[-1].at if seen.recent else now
    ago = f", {span(now - heard)} ago" if now - heard >= 1 else ""
    yield _row("batch", (count(last.batch), "bold"), f"  {many(last.tasks, 'task')} in {span(last.seconds)}{ago}")
    phases = "  ".join(f"{phase} {_millis(took)}" for phase, took in last.phases.items() if round(took, 1) > 0)
    yield _row("phases, ms", phases or "-")
    yield _row("rows in", *_rows(seen.rate(lambda one: one.rows_in, now), seen.rows_in))
    yield _row("rows out", *_rows(seen.rate(lambda one: one.rows_out, now), seen.rows_out))
    yield _row("lag", (count(last.lag), "bold"), "  unread when the batch was planned")
    if last.watermark is None:
        yield _row("watermark", "none yet")
    else:
        behind = (last.at - last.watermark) / 1000
        far = f", {span(behind)} behind" if behind >= 0 else f", {span(-behind)} ahead"
        yield _row("watermark", (moment(last.watermark), "bold"), far)
    lines = wrap(last.held_back or "", max(1, width - _LABEL), max_lines=2, placeholder=" …")
    yield from (_row("", (line, _LATE)) for line in lines)
    yield _row("state", size(last.state_bytes))
    odd = [(f"{what} {count(number)}", _LATE if number else "") for what, number in seen.odd()]
    yield _row("so far", *_spaced(odd))


def _rows(per_second: float, total: int) -> tuple[tuple[str, str], str]:
    return (f"{rate(per_second):>10}", "bold"), f"  {count(total):>15} in all"


def _millis(took: float) -> str:
    return f"{took:,.0f}" if took >= 1 else f"{took:.1f}"


def _spaced(parts: list[tuple[str, str]]) -> Iterator[str | tuple[str, str]]:
    for i, part in enumerate(parts):
        yield from ("  ", part) if i else (part,)


def _outputs(seen: RunTotals, now: float, room: int) -> Iterator[Text]:
    """Yield lines for as many output streams as fit, and for how many more there are."""
    if not seen.outputs or room < len(("blank", "heading", "one")):
        return
    yield Text()
    wide = max(len("OUTPUT"), *map(len, seen.outputs))
    yield styled((f"{'OUTPUT'.ljust(wide)}  {'ROWS/S':>10}  {'ROWS':>15}", "bold"))
    streams, room = sorted(seen.outputs), room - 2
    shown = streams if len(streams) <= room else streams[: room - 1]
    for stream in shown:
        per_second = seen.rate(lambda one, stream=stream: one.streams.get(stream, 0), now)  # type: ignore[misc]
        yield styled(f"{stream.ljust(wide)}  {rate(per_second):>10}  {count(seen.outputs[stream]):>15}")
    if len(shown) < len(streams):
        yield styled((f"... and {len(streams) - len(shown)} more", "dim"))


def _news(seen: RunTotals, room: int) -> Iterator[Text]:
    if not seen.news or room < len(("blank", "one")):
        return
    yield Text()
    yield from (styled((one, _LATE)) for one in list(seen.news)[-(room - 1) :])


def _foot(seen: RunTotals) -> Text:
    if seen.draining:
        return styled((draining_line(seen), "bold yellow"))
    return styled(("Ctrl-C finishes the batch and ends; twice stops at once", "dim"))
