"""Why: the last words of a run, however it ends: why, how much, and where to look at it. Must not end it."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from holdfast_cli.output.amounts import count, many, rate, span
from holdfast_cli.output.screen import TextTable, styled
from holdfast_cli.run.totals import RunTotals
from holdfast_runtime.progress import EndCause

_WHY = {
    EndCause.DRAINED: "it was asked to stop",
    EndCause.COMPLETED: "all inputs have ended",
    EndCause.IDLE: "nothing is left to read",
    EndCause.GROWN: "its inputs have grown, and the next attempt reads all of them",
    EndCause.ENOUGH: "it did what it was given",
}


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The app's files, as the user names them."""

    app: str
    """Path of the app's file."""
    data: str
    data_given: bool
    """Whether `--data` is needed to find it again."""
    spark_log: str
    """What Spark and the functions of steps print."""
    logs: frozenset[str]
    """Streams that `holdfast tail` can show."""

    def tail(self, stream: str) -> str:
        """The command that shows a stream."""
        return shlex.join(["holdfast", "tail", self.app, stream, "--from-beginning", *self._given()])

    def offsets(self, settings: Sequence[str]) -> str:
        """The command that sets positions."""
        asked = [part for setting in settings for part in ("--set", setting)]
        return shlex.join(["holdfast", "offsets", self.app, *self._given(), *asked])

    def _given(self) -> list[str]:
        return ["--data", self.data] if self.data_given else []


def print_summary(console: Console, seen: RunTotals, where: RunFiles, *, failed: bool, now: float) -> None:
    """All of it; nothing of a run that never started, whose error says it all."""
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
