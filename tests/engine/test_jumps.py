"""Positions that a user has set are taken up once, by one batch, whatever dies, and state follows."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import UserActionError
from holdfast.tasks.partitions import StreamPartition
from holdfast.tasks.record import ParentEnd
from holdfast_runtime.checkpoint.directories import DataDir
from holdfast_runtime.checkpoint.offsets import DueJump, Jump, JumpFile, Offsets
from holdfast_runtime.loop.lost_positions import PositionLostError
from holdfast_runtime.loop.next_batch import AttemptInputs, LoopSnapshot, batch_to, next_offsets
from holdfast_runtime.loop.ranges import BatchLimits
from holdfast_runtime.slot.batch_plan import BatchPlan
from holdfast_runtime.slot.outputs import WRITE_STEPS
from holdfast_runtime.state.commit import COMMIT_STEPS
from holdfast_runtime.state.store.task_store import OFFSETS
from holdfast_runtime.streams.records import OffsetBounds, OffsetRange
from holdfast_runtime.testing import Crashed, TestDriver
from tests.engine.totals import app, orders
from tests.error_codes import has_code

A0, A1, B0 = (StreamPartition(stream, number) for stream, number in (("a", 0), ("a", 1), ("b", 0)))
READING = AttemptInputs({"partition-0": (A0, B0), "partition-1": (A1, B0)}, frozenset(), BatchLimits(100))
STOOD = Offsets(
    batch=4, now=500, positions={A0: 10, A1: 20, B0: 30}, turns={"partition-0": 4, "partition-1": 2}, ids={"a": "one"}
)
O0, O1 = StreamPartition("orders", 0), StreamPartition("orders", 1)
DEATHS = [("offsets durable", 1), *((step, slot) for step in (*COMMIT_STEPS, *WRITE_STEPS) for slot in (1, 2))]


def seen(ids: Mapping[str, str] | None = None, **bounds: tuple[int, int]) -> LoopSnapshot:
    known = {A0: OffsetBounds(0, 10), A1: OffsetBounds(0, 20), B0: OffsetBounds(0, 30)}
    named_bounds = {StreamPartition(name[0], int(name[1])): OffsetBounds(*span) for name, span in bounds.items()}
    return LoopSnapshot({**known, **named_bounds}, 1000, first=True, ids=ids or {"a": "one"})


def jump(ids: Mapping[str, str] | None = None, **to: int) -> Jump:
    partitions = {StreamPartition(name[0], int(name[1])): at for name, at in to.items()}
    return Jump("j1", {one: STOOD.positions[one] for one in partitions}, partitions, ids or {})


def test_a_jump_back_reads_from_there_also_in_a_replay() -> None:
    after = next_offsets(STOOD, READING, seen(), jump(a0=4))
    plan = BatchPlan.parse(batch_to(Offsets.parse(after.text()), READING.inputs, 7, first=True).text())
    assert plan == batch_to(after, READING.inputs, 7, first=True)
    turn = plan.turns["partition-0"]
    assert (turn.ranges, turn.jumped) == ((OffsetRange(A0, 4, 10),), {A0: 10})
    assert plan.turns["partition-1"].jumped == {}
    assert after.jump == "j1"


def test_a_jump_to_nothing_has_a_range_for_every_reader() -> None:
    after = next_offsets(STOOD, READING, replace(seen(b0=(0, 50)), first=False), jump(b0=50))
    assert after.taking_part == ("partition-0", "partition-1")
    for turn in batch_to(after, READING.inputs, 7, first=True).turns.values():
        assert (turn.ranges, turn.fetched, turn.jumped) == ((OffsetRange(B0, 50, 50),), (), {B0: 30})


def test_a_jump_is_made_where_the_partition_has_to_wait() -> None:
    reading = replace(READING, after={A1: ParentEnd(A0, 15)})
    after = next_offsets(STOOD, reading, seen(), jump(a1=3))
    assert (after.starts, after.positions[A1]) == ({A1: 3}, 3)


def test_the_batch_after_a_jump_goes_on_from_there() -> None:
    after = next_offsets(STOOD, READING, seen(), jump(a0=4))
    later = next_offsets(after, READING, seen(a0=(0, 12)))
    assert (later.starts, later.jumped, later.jump) == ({A0: 10}, {}, "j1")
    assert Offsets.parse(later.text()) == later


def test_offsets_of_a_run_without_jumps_read_as_always() -> None:
    assert set(json.loads(STOOD.text())) == {
        "format", "batch", "now", "positions", "turns", "ends", "starts", "takingPart", "ids", "crc32",
    }  # fmt: skip


def test_a_jump_takes_the_id_of_a_new_topic() -> None:
    world = seen({"a": "two"}, a0=(0, 3), a1=(0, 0))
    with pytest.raises(PositionLostError) as stopped:
        next_offsets(STOOD, READING, world)
    assert stopped.value.settings == ("a=oldest",)
    after = next_offsets(STOOD, READING, world, jump({"a": "two"}, a0=0, a1=0))
    assert (after.positions, after.ids) == ({A0: 3, A1: 0, B0: 30}, {"a": "two"})
    with pytest.raises(PositionLostError, match="its id is three"):
        next_offsets(STOOD, READING, seen({"a": "three"}), jump({"a": "two"}, a0=0, a1=0))


def test_a_bounded_stream_made_anew_ends_at_its_new_end() -> None:
    reading, before = replace(READING, bounded=frozenset("a")), replace(STOOD, ends={A0: 99, A1: 99})
    world = seen({"a": "two"}, a0=(0, 3), a1=(0, 5))
    assert next_offsets(before, reading, world, jump({"a": "two"}, a0=0, a1=0)).ends == {A0: 3, A1: 5}
    assert next_offsets(before, reading, seen(), jump(a0=4)).ends == {A0: 99, A1: 99}


@pytest.mark.parametrize(
    ("before", "reading", "message"),
    [
        (replace(STOOD, positions={**STOOD.positions, A0: 11}), READING, "a/0 stood at 10, but it stands at 11 now"),
        (STOOD, replace(READING, inputs={"partition-0": (B0,)}), "but it is not read any more"),
    ],
)
def test_a_jump_from_elsewhere_is_refused(before: Offsets, reading: AttemptInputs, message: str) -> None:
    with pytest.raises(UserActionError, match=message, check=has_code("JumpStaleError")):
        next_offsets(before, reading, seen(), jump(a0=4))


def test_a_jump_to_lost_records_stops_with_the_choice() -> None:
    with pytest.raises(PositionLostError, match=r"is 4, but the oldest record kept is 6: 2 records are gone"):
        next_offsets(STOOD, READING, seen(a0=(6, 10)), jump(a0=4))


def test_all_partitions_that_are_lost_are_named() -> None:
    with pytest.raises(PositionLostError, match="Also lost: a/1, b/0") as stopped:
        next_offsets(STOOD, READING, seen(a0=(12, 15), a1=(0, 7), b0=(31, 31)))
    assert stopped.value.settings == ("a/0=oldest", "a/1=end", "b/0=oldest")


def test_a_jump_with_a_digit_that_is_another_leads_nowhere() -> None:
    text = jump(a0=5).text()
    assert Jump.parse(text).to == {A0: 5}
    with pytest.raises(UserActionError, match="does not fit its checksum", check=has_code("JumpUnreadableError")):
        Jump.parse(text.replace("5]", "4]"))


@pytest.mark.parametrize("text", ["", "{}", '{"format": 2}', '{"format": 1, "id": "x", "partitions": {"a": [1, 2]}}'])
def test_a_file_of_no_jump_is_refused_with_the_cure(tmp_path: Path, text: str) -> None:
    (tmp_path / "jump.json").write_text(text)
    with pytest.raises(
        UserActionError, match="set them once more with `holdfast offsets`", check=has_code("JumpUnreadableError")
    ):
        JumpFile.beside(tmp_path / "query").read()


def test_a_jump_waits_until_its_batch_is_committed(tmp_path: Path) -> None:
    file, next_jump = JumpFile.beside(tmp_path / "query"), jump({"a": "two"}, a0=4, a1=0)
    assert file.read() is None
    file.write(jump(a0=1))
    file.write(next_jump)
    due = DueJump(file)
    assert [due.after(STOOD), due.after(STOOD)] == [next_jump, next_jump]
    assert due.after(replace(STOOD, jump="j1")) is None
    assert list(tmp_path.iterdir()) == []


def stood(data: Path) -> tuple[dict[StreamPartition, int], Jump]:
    """An app that has read twenty orders and not read eight more; two are to be read again, and some skipped."""
    with TestDriver(app(), data, slots=2) as driver:
        driver.feed("orders", orders(*range(20)))
        driver.run_until_idle()
        at = ends(driver)
        driver.feed("orders", orders(*range(20, 28)))
        next_jump = Jump("j1", at, {O0: at[O0] - 2, O1: ends(driver)[O1] - 1})
    JumpFile.beside(DataDir(data).app("totals").run("1").query).write(next_jump)
    return at, next_jump


def ends(driver: TestDriver) -> dict[StreamPartition, int]:
    records = driver.records("orders")
    return {one: sum(record.partition == one.partition for record in records) for one in (O0, O1)}


def check(driver: TestDriver, at: Mapping[StreamPartition, int], next_jump: Jump) -> None:
    """What was read is what stands before the jump, and what follows it."""
    read: list[dict[str, Any]] = []
    for orders_partition in (O0, O1):
        pairs = zip(driver.records("orders"), driver.rows("orders"), strict=True)
        rows = [row for record, row in pairs if record.partition == orders_partition.partition]
        read += rows[: at[orders_partition]] + rows[next_jump.to[orders_partition] :]
    for customer in {row["customer"] for row in read}:
        totals = [(row["n"], row["total"]) for row in driver.rows("totals") if row["customer"] == customer]
        numbers = [row["n"] for row in read if row["customer"] == customer]
        assert totals == [(n, nth) for nth, n in enumerate(numbers, start=1)]
        assert driver.state("summed", customer) == {"total": len(numbers)}
    offsets = {key: int(end) for task in driver.tasks for key, end in driver.tables(task)[OFFSETS].items()}
    assert offsets == {str(partition).encode(): end for partition, end in ends(driver).items()}


@pytest.mark.parametrize(("step", "after"), DEATHS)
@pytest.mark.parametrize("disk_is_lost", [False, True])
def test_a_jump_is_made_once_wherever_its_batch_dies(tmp_path: Path, step: str, after: int, disk_is_lost: bool) -> None:
    at, next_jump = stood(tmp_path)
    assert min(at[O0] - 2, next_jump.to[O1] - at[O1]) > 0, "some are read again, some skipped"
    with TestDriver(app(), tmp_path, slots=2) as driver:
        driver.crash_at(step, after)
        with pytest.raises(Crashed):
            driver.run_until_idle()
    file = JumpFile.beside(DataDir(tmp_path).app("totals").run("1").query)
    assert file.read() == next_jump, "until its batch is committed"
    with TestDriver(app(), tmp_path, slots=2) as driver:
        if disk_is_lost:
            driver.lose_local_state()
        driver.run_until_idle()
        check(driver, at, next_jump)
        driver.feed("orders", orders(*range(28, 40)))
        driver.run_until_idle()
        check(driver, at, next_jump)
    assert file.read() is None


def test_a_jump_whose_file_comes_back_is_not_made_again(tmp_path: Path) -> None:
    at, next_jump = stood(tmp_path)
    for _ in range(2):
        with TestDriver(app(), tmp_path) as driver:
            driver.run_until_idle()
            check(driver, at, next_jump)
        JumpFile.beside(DataDir(tmp_path).app("totals").run("1").query).write(next_jump)


def test_state_remembers_a_jump_to_the_ends_without_records(tmp_path: Path) -> None:
    at, next_jump = stood(tmp_path)
    with TestDriver(app(), tmp_path) as driver:
        next_jump = replace(next_jump, to=ends(driver))
        JumpFile.beside(DataDir(tmp_path).app("totals").run("1").query).write(next_jump)
        assert [(batch.rows_in, batch.rows_out) for batch in driver.run_until_idle()] == [(0, 0)]
        check(driver, at, next_jump)
        driver.feed("orders", orders(*range(28, 40)))
        driver.run_until_idle()
        check(driver, at, next_jump)


@pytest.mark.parametrize("back", [0, 3, None], ids=["nowhere", "a little", "to the oldest"])
@pytest.mark.parametrize("death", [None, *DEATHS], ids=str)
def test_a_jump_to_where_partitions_stood_lets_the_app_continue(
    tmp_path: Path, back: int | None, death: tuple[str, int] | None
) -> None:
    with TestDriver(app(), tmp_path, slots=2) as driver:
        driver.feed("orders", orders(*range(20)))
        driver.run_until_idle()
        stands = ends(driver)
    to = {partition: 0 if back is None else at - back for partition, at in stands.items()}
    JumpFile.beside(DataDir(tmp_path).app("totals").run("1").query).write(Jump("j1", stands, to))
    if death is not None:
        with TestDriver(app(), tmp_path, slots=2) as driver:
            driver.crash_at(*death)
            with suppress(Crashed):  # where nothing is read, nothing is written
                driver.run_until_idle()
    with TestDriver(app(), tmp_path, slots=2) as driver:
        if death is not None:
            driver.lose_local_state()
        driver.run_until_idle()
        driver.feed("orders", orders(*range(20, 28)))
        driver.run_until_idle()
        totals = [driver.state("summed", f"customer-{number}") for number in range(4)]
    read_again = sum(stands.values()) - sum(to.values())
    assert sum(total["total"] for total in totals if total is not None) == 28 + read_again
