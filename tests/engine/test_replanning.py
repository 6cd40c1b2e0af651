"""A batch that is planned and not done is planned again: what can be seen stays, nothing is lost or doubled."""

from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import UserActionError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.checkpoint.directories import DataDir
from holdfast_runtime.checkpoint.offset_log import OffsetLogState, SparkPlanLog, read_offset_log
from holdfast_runtime.checkpoint.offsets import Offsets
from holdfast_runtime.coordination.local import LocalCoordinator
from holdfast_runtime.driver.attempt import Attempt
from holdfast_runtime.driver.replanning import (
    REPLAN_STEPS,
    BatchRollback,
    Replan,
    ReplanRefusedError,
    TurnState,
    replan,
)
from holdfast_runtime.slot.outputs import WRITE_STEPS
from holdfast_runtime.state.commit import COMMIT_STEPS
from holdfast_runtime.state.store.delta import pack_delta, read_delta
from holdfast_runtime.testing import Crashed, TestDriver
from holdfast_runtime.testing.stand_ins import History, app_of
from tests.engine.test_offset_log import done as entry_done
from tests.engine.test_offset_log import planned as entry_planned
from tests.engine.totals import app, orders, settled
from tests.error_codes import has_code

A0, A1, B0 = (StreamPartition(stream, number) for stream, number in (("a", 0), ("a", 1), ("b", 0)))
INPUTS = {"partition-0": (A0, B0), "partition-1": (A1,)}
DONE = Offsets(4, 500, {A0: 10, A1: 20}, {"partition-0": 4})
PLANNED = Offsets(
    batch=5,
    now=600,
    positions={A0: 15, A1: 29, B0: 7},
    turns={"partition-0": 5, "partition-1": 1},
    starts={A0: 10, A1: 20},
    taking_part=("partition-0", "partition-1"),
)
OPEN, DECIDED, SEEN = TurnState
DEATHS = [("offsets durable", 1), *((step, slot) for step in (*COMMIT_STEPS, *WRITE_STEPS) for slot in (1, 2))]


def decided(planned: Offsets, *states: TurnState) -> Replan:
    return replan(DONE, planned, dict(zip(INPUTS, states, strict=True)), INPUTS)


@pytest.mark.parametrize("states", [(OPEN, OPEN), (DECIDED, OPEN), (DECIDED, DECIDED)])
def test_an_unseen_batch_is_planned_anew_as_a_whole(states: tuple[TurnState, ...]) -> None:
    decision = decided(PLANNED, *states)
    assert (decision.instead, decision.taken_back) == (None, ("partition-0", "partition-1"))


def test_a_batch_that_is_written_in_part_keeps_that_part() -> None:
    first, second = decided(PLANNED, SEEN, DECIDED), decided(PLANNED, OPEN, SEEN)
    assert first.taken_back == ("partition-1",)
    assert first.instead == replace(
        PLANNED,
        positions={A0: 15, A1: 20, B0: 7},
        turns={"partition-0": 5},
        starts={A0: 10},
        taking_part=("partition-0",),
    )
    assert second.instead == replace(
        PLANNED,
        positions={A0: 10, A1: 29, B0: 7},
        turns={"partition-0": 4, "partition-1": 1},
        starts={A1: 20},
        taking_part=("partition-1",),
    )


def test_a_batch_that_is_written_needs_no_plan() -> None:
    with pytest.raises(ReplanRefusedError, match=r"written already\. Run the app"):
        decided(PLANNED, SEEN, SEEN)


def test_what_can_be_neither_kept_nor_taken_back_is_refused() -> None:
    with pytest.raises(ReplanRefusedError, match="positions that were set"):
        decided(replace(PLANNED, jump="j2"), SEEN, OPEN)
    inputs = {"partition-0": (A0, B0), "partition-1": (A1, B0)}
    shared = replace(PLANNED, starts={**PLANNED.starts, B0: 3})
    with pytest.raises(ReplanRefusedError, match="reads b/0 for tasks that have written"):
        replan(DONE, shared, dict(zip(inputs, (SEEN, OPEN), strict=True)), inputs)
    assert replan(DONE, shared, dict(zip(inputs, (OPEN, OPEN), strict=True)), inputs).instead is None
    with pytest.raises(ReplanRefusedError, match="planned for partition-1, which the app does not have"):
        replan(DONE, PLANNED, dict.fromkeys(INPUTS, OPEN), {"partition-0": (A0,)})


class PlanFiles:
    """The plans of a TestDriver, as the log that is changed."""

    def __init__(self, query: Path) -> None:
        self.folder = query / "test-offsets"

    def take_back(self, planned: Offsets, instead: Offsets | None) -> None:
        path = self.folder / str(planned.batch)
        if instead is None:
            path.unlink()
        else:
            path.write_text(instead.text(), encoding="utf-8")


def taken_back(data: Path, spec: dict[str, Any], at: Callable[[str], None] = lambda _: None) -> Replan | None:
    """As `holdfast offsets --replan` does it, on the log of a TestDriver; None: nothing is planned."""
    run = DataDir(data).app("totals").run("1")
    history = History(run.query)
    planned = history.unfinished()
    with LocalCoordinator(run.metadata, "totals", "1") as coordinator:
        paths = DataDir(data).paths("totals", "1")
        attempt = Attempt(app_of(spec), paths, coordinator, lambda: 0)
        if planned is None:
            return None
        number = attempt.shut_out(len(attempt.tasks))
        attempt.take_up(number, OffsetLogState(history.done(), planned))
        rollback = BatchRollback(attempt, number, paths, ("totals", "1"), at)
        what = rollback.decide(history.done(), planned)
        rollback.do(planned, what, PlanFiles(run.query))
    return what


def dead(data: Path, step: str, after: int) -> None:
    """An app of two slots that has read twenty orders and died in the batch of twenty more."""
    with TestDriver(app(), data, slots=2) as driver:
        driver.feed("orders", orders(*range(20)))
        driver.run_until_idle()
        driver.feed("orders", orders(*range(20, 40)))
        driver.crash_at(step, after)
        with pytest.raises(Crashed):
            driver.run_until_idle()


@pytest.mark.parametrize(("step", "after"), DEATHS)
@pytest.mark.parametrize("disk_is_lost", [False, True])
def test_a_deadly_batch_replanned_with_other_limits_counts_orders_once(
    tmp_path: Path, step: str, after: int, disk_is_lost: bool
) -> None:
    dead(tmp_path, step, after)
    narrow = app(most=3)
    try:
        decision = taken_back(tmp_path, narrow)
    except ReplanRefusedError as error:
        assert (step, after) in {("outputs committed", 2), ("state committed", 2), ("partition written", 2)}
        assert "is written already" in str(error)
        decision = None
    with TestDriver(narrow, tmp_path, slots=2) as driver:
        if disk_is_lost:
            driver.lose_local_state()
        first = driver.run()[0]
        if decision is not None and decision.instead is None:
            assert (first.replay, first.rows_in) == (False, 6)
        driver.feed("orders", orders(*range(40, 60)))
        settled(driver, 60)


@pytest.mark.parametrize(
    ("step", "after", "dies_at"),
    [*(("delta written", 2, step) for step in REPLAN_STEPS), ("outputs committed", 1, "plan changed")],
)
def test_taking_a_plan_back_survives_a_death_within(tmp_path: Path, step: str, after: int, dies_at: str) -> None:
    dead(tmp_path, step, after)

    def dies(at: str) -> None:
        if at == dies_at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        taken_back(tmp_path, app(), dies)
    try:
        taken_back(tmp_path, app(most=3))
    except ReplanRefusedError as error:
        assert dies_at == "plan changed"
        assert "is written already" in str(error)
    with TestDriver(app(most=3), tmp_path, slots=2) as driver:
        settled(driver, 40)


def test_a_run_amid_a_withdrawal_repeats_the_batch_as_planned(tmp_path: Path) -> None:
    dead(tmp_path, "delta written", 2)

    def dies(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        taken_back(tmp_path, app(), dies)
    with TestDriver(app(), tmp_path, slots=2) as driver:
        assert driver.run()[0].replay
        settled(driver, 40)


def test_outputs_without_what_was_decided_are_not_taken_back(tmp_path: Path) -> None:
    dead(tmp_path, "outputs committed", 1)
    state = DataDir(tmp_path).app("totals").run("1").durable
    for delta in state.rglob("delta-*2-*"):
        delta.unlink()
    with pytest.raises(ReplanRefusedError, match="has written its batch 2, but the delta of that batch is missing in"):
        taken_back(tmp_path, app())


def dead_in_kafka(data: Path) -> None:
    """As if the app had died before its transaction, which has the outputs."""
    dead(data, "delta written", 1)
    for path in DataDir(data).app("totals").run("1").durable.rglob("delta-*2-*"):
        delta = read_delta(str(path), BytesIO(path.read_bytes()).read)
        path.write_bytes(b"".join(pack_delta(replace(delta, withheld="events")).chunks))


def test_a_batch_whose_transaction_did_not_come_is_not_decided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead_in_kafka(tmp_path)
    monkeypatch.setattr(Attempt, "kafka_markers", {"events": {}})
    decision = taken_back(tmp_path, app(most=3))
    assert decision is not None
    assert {*decision.states.values()} == {OPEN}
    with TestDriver(app(most=3), tmp_path, slots=2) as driver:
        settled(driver, 40)


def test_a_transaction_nobody_asks_for_is_not_taken_back(tmp_path: Path) -> None:
    dead_in_kafka(tmp_path)
    with pytest.raises(UserActionError, match="Kafka system events", check=has_code("OutputsUnknownError")):
        taken_back(tmp_path, app(most=3))
    with (
        TestDriver(app(), tmp_path, slots=2) as driver,
        pytest.raises(UserActionError, match="Bring back the former spec"),
    ):
        driver.run()


@pytest.mark.parametrize("instead", [None, replace(PLANNED, taking_part=("partition-0",))])
def test_sparks_log_says_what_is_planned_instead(tmp_path: Path, instead: Offsets | None) -> None:
    entry_planned(tmp_path, 0, DONE)
    entry_done(tmp_path, 0)
    entry_planned(tmp_path, 1, PLANNED)
    SparkPlanLog(tmp_path).take_back(PLANNED, instead)
    logged = read_offset_log(tmp_path)
    assert logged is not None
    assert (logged.done, logged.planned) == (DONE, instead)
    left = sorted(path.name for path in (tmp_path / "offsets").iterdir())
    assert left == [".0.crc", "0", *(["1"] if instead else [])]
    with pytest.raises(UserActionError, match="does not plan batch 5 any more", check=has_code("PlanChangedError")):
        SparkPlanLog(tmp_path).take_back(PLANNED, instead)
