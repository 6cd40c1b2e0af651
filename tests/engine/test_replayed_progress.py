"""The first progress of an attempt that repeats the batch of the one before: what is left behind that batch."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, cast

import pytest

from holdfast.errors import AwayError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.checkpoint.offsets import DueJump, JumpFile, Offsets
from holdfast_runtime.checkpoint.query_log import QueryLog
from holdfast_runtime.job import BatchTexts
from holdfast_runtime.loop.batches import LoopParts
from holdfast_runtime.loop.direct import run_direct
from holdfast_runtime.loop.fed_tables import DataSetsSeen
from holdfast_runtime.loop.lost_positions import PositionLostError
from holdfast_runtime.loop.next_batch import AttemptInputs
from holdfast_runtime.loop.query import run_query
from holdfast_runtime.loop.ranges import BatchLimits
from holdfast_runtime.loop.stopping import StopCondition, Totals
from holdfast_runtime.progress import BatchWaiting, Event, Progress
from holdfast_runtime.slot.report import SlotReport, TaskReport
from holdfast_runtime.streams.records import LogCut, OffsetBounds

CLICKS, NEW = StreamPartition("clicks", 0), StreamPartition("clicks", 1)
PLANNED = Offsets(
    batch=7,
    now=1000,
    positions={CLICKS: 100},
    turns={"partition-0": 7},
    starts={CLICKS: 60},
    taking_part=("partition-0",),
)


class ReplayingSpark:
    """Spark as it takes up a batch that is planned and not done: it runs the batch first, and then asks for the next.

    `drain` is set between the two, so that there is no next one.
    """

    def __init__(self, planned: Offsets, drain: threading.Event) -> None:
        self._planned, self._drain = planned, drain
        self._answer: Callable[[Offsets], Offsets]
        self._run: Callable[[Any, int], None]

    def answered_by(self, answer: Callable[[Offsets], Offsets]) -> Self:
        self._answer = answer
        return self

    @property
    def writeStream(self) -> Self:  # noqa: N802 - Spark's name
        return self

    def queryName(self, _: str) -> Self:  # noqa: N802 - Spark's name
        return self

    def option(self, _: str, __: str) -> Self:
        return self

    def trigger(self, **_: str) -> Self:
        return self

    def foreachBatch(self, run: Callable[[Any, int], None]) -> Self:  # noqa: N802 - Spark's name
        self._run = run
        return self

    def start(self) -> Self:
        self._run(self, 7)
        self._drain.set()
        self._answer(self._planned)
        return self

    def collect(self) -> list[tuple[str]]:
        return [(self._planned.text(),)]

    def awaitTermination(self, _: float) -> bool:  # noqa: N802 - Spark's name
        return False

    def stop(self) -> None:
        """Nothing is left."""


class SlotsThatHaveRun:
    """A job whose one task has read what it had to."""

    def run(self, _: BatchTexts) -> list[str]:
        return [SlotReport((TaskReport("partition-0", rows_in={"clicks": 40}),), {}).text()]

    def end(self) -> None:
        """Nothing is left."""


def through_a_query(loop: LoopParts, planned: Offsets, path: Path) -> None:
    """Run as apps do whose rows pass through Spark SQL."""
    run_query(cast("Any", ReplayingSpark(planned, loop.drain)), "shop", path, loop)


def directly(loop: LoopParts, planned: Offsets, path: Path) -> None:
    """Run as all other apps do."""
    log = QueryLog(path / "query")
    log.begin()
    log.plan(planned)

    def listen(event: Event) -> None:
        loop.listen(event)
        if isinstance(event, Progress):
            loop.drain.set()

    run_direct(log, replace(loop, listen=listen))


@pytest.fixture(params=[through_a_query, directly], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.run_planned", request.param)


def run_planned(loop: LoopParts, planned: Offsets, path: Path) -> None:
    """Run an attempt that finds this batch planned, in each of the two ways."""
    raise NotImplementedError


def first_events(
    path: Path,
    bounds: Callable[[], Mapping[StreamPartition, OffsetBounds]],
    loading: Mapping[str, int] | None = None,
    planned: Offsets = PLANNED,
    **parts: Any,
) -> list[Event]:
    """What an attempt tells that finds the batch planned; `parts`: of its loop, in place of what goes well."""
    events: list[Event] = []
    drain = threading.Event()
    loop = LoopParts(
        interval=10,
        epoch=2,
        reading=AttemptInputs({"partition-0": (CLICKS, NEW)}, frozenset(), BatchLimits(100)),
        bounds=bounds,
        written=dict,
        assumed_bytes=lambda _: {},
        grown=lambda _: False,
        ids=dict,
        cut=lambda _: {},
        jump=DueJump(JumpFile.beside(path / "query")),
        data_sets=lambda _: DataSetsSeen(loading=loading or {}),
        job=SlotsThatHaveRun,
        slots=tuple,
        processed=lambda _: None,
        end=lambda: None,
        check=lambda: None,
        until=StopCondition(),
        listen=events.append,
        drain=drain,
        totals=Totals(),
    )
    run_planned(replace(loop, **parts), planned, path)
    return events


def test_after_a_restart_progress_counts_what_waits_behind_the_replay(tmp_path: Path) -> None:
    bounds = {CLICKS: OffsetBounds(0, 5_100), NEW: OffsetBounds(30, 37)}
    (progress,) = [one for one in first_events(tmp_path, lambda: bounds) if isinstance(one, Progress)]
    assert progress.lag == 5_007
    assert (progress.rows_in, progress.read) == (40, {"clicks": 40})


def test_after_a_restart_progress_says_which_tables_still_load(tmp_path: Path) -> None:
    bounds = dict.fromkeys((CLICKS, NEW), OffsetBounds(0, 100))
    (progress,) = [one for one in first_events(tmp_path, lambda: bounds, {"prices": 9}) if isinstance(one, Progress)]
    assert progress.loading == {"prices": 9}


def test_lost_positions_do_not_keep_a_replay_from_its_end(tmp_path: Path) -> None:
    bounds = {CLICKS: OffsetBounds(4_000, 5_100), NEW: OffsetBounds(0, 0)}
    (progress,) = [one for one in first_events(tmp_path, lambda: bounds) if isinstance(one, Progress)]
    assert progress.lag == 1_100


def test_a_repeated_batch_waits_for_a_broker_that_is_away(tmp_path: Path) -> None:
    away = [AwayError("no broker answers")]

    def bounds() -> Mapping[StreamPartition, OffsetBounds]:
        if away:
            raise away.pop()
        return {CLICKS: OffsetBounds(0, 101), NEW: OffsetBounds(0, 0)}

    waiting, progress = [one for one in first_events(tmp_path, bounds) if isinstance(one, BatchWaiting | Progress)]
    assert waiting == BatchWaiting("no broker answers")
    assert isinstance(progress, Progress)
    assert progress.lag == 1


def test_a_batch_of_changed_records_neither_repeats_nor_deletes(tmp_path: Path) -> None:
    bounds = {CLICKS: OffsetBounds(0, 5_100, 6), NEW: OffsetBounds(30, 37, 6)}
    ran: list[str] = []

    class NoSlots:
        def run(self, _: BatchTexts) -> list[str]:
            ran.append("run")
            return []

        def end(self) -> None:
            """Nothing is left."""

    parts: dict[str, Any] = {
        "cut": lambda positions: dict.fromkeys(positions, LogCut(20, "cut")),
        "processed": lambda _: ran.append("processed"),
        "job": NoSlots,
    }
    with pytest.raises(PositionLostError, match="Batch 7 was planned to read up to there"):
        first_events(tmp_path, lambda: bounds, planned=replace(PLANNED, epochs={CLICKS: 3}), **parts)
    assert ran == []
