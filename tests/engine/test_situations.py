"""What can happen to a running app, each named after the situation; in the end nothing is lost, nothing is doubled."""

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError, RetrySoonError, UserActionError, WorldChangeError
from holdfast_runtime.checkpoint.directories import DataInUseError
from holdfast_runtime.state.durable.copy import SnapshotPolicy
from holdfast_runtime.testing import Crashed, Lab, TestDriver, TestMisuseError
from tests.engine.totals import CODE, app, orders, settled
from tests.error_codes import has_code


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[TestDriver]:
    often = Lab(snapshots=SnapshotPolicy(most_deltas=4, least_deltas=2))
    with TestDriver(app(), tmp_path / "data", slots=2, lab=often) as test_driver:
        yield test_driver


def history(driver: TestDriver, batches: int = 9) -> None:
    """So many batches with four orders each."""
    for batch in range(batches):
        driver.feed("orders", orders(*range(4 * batch, 4 * batch + 4)))
        driver.run()


def copy_of(tmp_path: Path, task: str = "partition-0") -> Path:
    """The durable copy of a task."""
    return tmp_path / "data/apps/totals/runs/1/checkpoint/state/totals/1" / task


def damage(path: Path) -> bytes:
    content = path.read_bytes()
    hurt = bytearray(content)
    hurt[len(hurt) // 2] ^= 1
    path.write_bytes(bytes(hurt))
    return content


def test_a_lost_disk_is_rebuilt_from_the_durable_copy(driver: TestDriver) -> None:
    history(driver)
    driver.lose_local_state()
    driver.feed("orders", orders(36, 37, 38, 39))
    (batch,) = driver.run()
    assert {task.task: task.restored for task in batch.tasks} == dict.fromkeys(driver.tasks, "there is no local store")
    settled(driver, 40)


def test_a_damaged_delta_stops_the_app_until_put_back(tmp_path: Path) -> None:
    with TestDriver(app(), tmp_path / "data") as driver:
        history(driver)
        (hurt,) = copy_of(tmp_path).glob("delta-*5-*")
        content = damage(hurt)
        driver.lose_local_state()
        driver.feed("orders", orders(36, 37, 38, 39))
        for _ in range(2):
            with pytest.raises(UserActionError, match=rf"{hurt}.*put the object back"):
                driver.run()
            driver.restart()
        hurt.write_bytes(content)
        settled(driver, 40)


def test_a_damaged_snapshot_gives_way_to_the_one_before(driver: TestDriver, tmp_path: Path) -> None:
    history(driver)
    snapshots = sorted(copy_of(tmp_path).glob("snapshot-*"))
    assert len(snapshots) == 2
    damage(snapshots[-1])
    driver.lose_local_state("partition-0")
    driver.feed("orders", orders(36, 37, 38, 39))
    (batch,) = driver.run()
    restored = next(task.restored for task in batch.tasks if task.task == "partition-0")
    assert restored is not None
    assert restored.startswith("there is no local store; snapshot ")
    assert str(snapshots[-1]) in restored
    settled(driver, 40)


def test_a_jumping_clock_neither_repeats_nor_forgets_a_timer(driver: TestDriver) -> None:
    driver.feed("orders", orders(0, amount=60))
    (first,) = driver.run()
    driver.advance(-3600)
    driver.feed("orders", orders(4))
    (second,) = driver.run()
    assert second.now == first.now - timedelta(hours=1), "functions are told the host's clock"
    driver.advance(59)
    assert driver.run_until_idle() == ()
    driver.advance(2)
    driver.run_until_idle()
    driver.advance(-30)
    driver.restart()
    driver.advance(45)
    driver.run_until_idle()
    assert [row["n"] for row in driver.rows("totals")] == [0, 4, -1]


def test_a_second_driver_learns_who_has_the_directory(driver: TestDriver, tmp_path: Path) -> None:
    assert driver.attempt == 1
    with pytest.raises(DataInUseError, match="in use by process"):
        TestDriver(app(), tmp_path / "data")


def test_the_older_of_two_drivers_on_one_checkpoint_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    newer: list[TestDriver] = []

    def take_over(step: str) -> None:
        if step == "offsets durable" and armed:
            newer.append(TestDriver(app(), directory, lab=Lab(exclusive=False)))
            newer[0].run()

    armed = False
    with TestDriver(app(), directory, lab=Lab(at=take_over, exclusive=False)) as older:
        older.feed("orders", orders(*range(8)))
        older.run()
        older.feed("orders", orders(*range(8, 16)))
        armed = True
        with pytest.raises(HoldfastError, match=r"attempt 2 wrote it, and this is attempt 1; this process must end"):
            older.run()
        armed = False
        settled(newer[0], 16)
        newer[0].close()


def test_a_driver_overtaken_in_its_sleep_runs_nothing_more(tmp_path: Path) -> None:
    with (
        TestDriver(app(), tmp_path, lab=Lab(exclusive=False)) as older,
        TestDriver(app(), tmp_path, lab=Lab(exclusive=False)) as newer,
    ):
        newer.feed("orders", orders(*range(8)))
        newer.run()
        with pytest.raises(TestMisuseError, match="batch 1 was planned by another driver"):
            older.run()
        settled(newer, 8)


def test_a_batch_cut_off_by_another_driver_runs_as_planned(tmp_path: Path) -> None:
    with TestDriver(app(), tmp_path, slots=2) as driver:
        driver.feed("orders", orders(*range(8)))
        driver.crash_at("delta written")
        with pytest.raises(Crashed):
            driver.run()
        with pytest.raises(TestMisuseError, match="restart"):
            driver.run()
        driver.feed("orders", orders(*range(8, 12)))
    with TestDriver(app(), tmp_path, slots=1) as driver:
        (replay,) = driver.run()
        assert (replay.number, replay.replay, driver.attempt) == (1, True, 2)
        assert sorted(task.replayed for task in replay.tasks) == [False, True]
        assert len(driver.rows("totals")) == 8
        settled(driver, 12)


def test_a_slot_that_lost_a_race_forgets_no_timer(tmp_path: Path) -> None:
    races = ["state committed"]

    def lose_a_race(step: str) -> None:
        if step in races:
            races.remove(step)
            message = "somebody else has it"
            raise RetrySoonError(message, code="StoreBusyError")

    with TestDriver(app(), tmp_path, slots=2, lab=Lab(at=lose_a_race)) as driver:
        driver.feed("orders", orders(0, amount=60) + orders(1, amount=60) + orders(2, amount=60) + orders(3, amount=60))
        driver.run_until_idle()
        assert races == []
        driver.advance(61)
        driver.run_until_idle()
        assert [row["n"] for row in driver.rows("totals")].count(-1) == 4


def test_a_task_without_part_in_a_replay_keeps_its_timer(driver: TestDriver) -> None:
    driver.feed("orders", orders(0, 1, 2, 3, amount=60))
    driver.run_until_idle()
    driver.feed("orders", orders(4))
    driver.crash_at("outputs committed")
    with pytest.raises(Crashed):
        driver.run()
    driver.restart()
    (replay,) = driver.run()
    assert (replay.replay, len(replay.tasks)) == (True, 1)
    driver.run_until_idle()
    driver.advance(61)
    driver.run_until_idle()
    assert [row["n"] for row in driver.rows("totals")].count(-1) == 4


def test_an_unwritable_checkpoint_location_stops_the_app_before_its_outputs(driver: TestDriver, tmp_path: Path) -> None:
    driver.feed("orders", orders(0, 1, 2, 3))
    driver.run()
    place = copy_of(tmp_path).parent
    shutil.move(place, tmp_path / "away")
    place.write_text("in the way")
    driver.feed("orders", orders(4, 5, 6, 7))
    with pytest.raises(
        WorldChangeError, match=rf"checkpoint location refuses {place}.*lets this process read and write"
    ):
        driver.run()
    assert len(driver.rows("totals")) == 4
    place.unlink()
    shutil.move(tmp_path / "away", place)
    driver.restart()
    settled(driver, 8)


def test_a_checkpoint_of_another_time_than_the_state_is_refused(tmp_path: Path) -> None:
    data, query = tmp_path / "data", tmp_path / "data/apps/totals/runs/1/checkpoint/query"
    with TestDriver(app(), data) as driver:
        driver.feed("orders", orders(0))
        driver.run()
        shutil.copytree(query, tmp_path / "then")
        driver.feed("orders", orders(4))
        driver.run()
    shutil.rmtree(query)
    shutil.copytree(tmp_path / "then", query)
    with pytest.raises(
        UserActionError,
        match=r"totals/\d holds batch 2 .* has come to batch 1: it is an older copy",
        check=has_code("OutputsAheadError"),
    ):
        TestDriver(app(), data)
    shutil.rmtree(data / "log/totals")
    with TestDriver(app(), data) as driver:
        driver.feed("orders", orders(8))
        with pytest.raises(
            UserActionError, match=r"orders/\d up to offset 3, but its delta read up to 2.*of one history"
        ):
            driver.run_until_idle()
        assert driver.rows("totals") == []


def test_a_bounded_app_completes_and_stays_complete(tmp_path: Path) -> None:
    with TestDriver(app(bounded=True), tmp_path, slots=2) as driver:
        driver.feed("orders", orders(*range(10)))
        driver.run_until_idle()
        before = driver.completed
        driver.end("orders")
        driver.run_until_idle()
        assert (before, driver.completed) == (False, True)
        # What comes behind the end does not count any more.
        driver.feed("orders", orders(10, 11))
        assert driver.run() == ()
        driver.restart()
        settled(driver, 10)
        assert driver.completed


@pytest.mark.parametrize("read", [False, True])
def test_growth_between_attempts_keeps_counts_and_order_of_keys(tmp_path: Path, *, read: bool) -> None:
    with TestDriver(app(most=3), tmp_path, slots=2) as driver:
        driver.feed("orders", orders(*range(20)))
        driver.run(20 if read else 1)
        driver.grow("orders", 4)
        driver.restart()
        driver.feed("orders", orders(*range(20, 40)))
        assert {record.partition for record in driver.records("orders")} > {0, 1}
        settled(driver, 40)
        assert driver.tasks == ("partition-0", "partition-1")
        driver.restart()
        driver.feed("orders", orders(*range(40, 44)))
        settled(driver, 44)


def test_a_growth_cut_off_by_a_crash_is_resumed(tmp_path: Path) -> None:
    with TestDriver(app(most=3), tmp_path, slots=2) as driver:
        driver.feed("orders", orders(*range(20)))
        driver.crash_at("partition written")
        with pytest.raises(Crashed):
            driver.run()
        driver.grow("orders", 4)
        driver.restart()
        driver.feed("orders", orders(*range(20, 40)))
        driver.crash_at("computed", 2)
        with pytest.raises(Crashed):
            driver.run_until_idle()
        driver.restart()
        settled(driver, 40)


def test_a_function_that_fails_commits_nothing_until_it_is_corrected(driver: TestDriver) -> None:
    driver.feed("orders", orders(0, 1, 2, 3))
    driver.run()
    driver.feed("orders", orders(4, 5, 6, amount=-1) + orders(7))
    for _ in range(2):
        with pytest.raises(UserActionError, match=r"summed.*totals:total.*a negative amount"):
            driver.run()
        driver.restart()
    driver.restart(app(code=CODE.replace("< 0", "< -1").replace('+ row["amount"]', '+ abs(row["amount"])')))
    settled(driver, 8)


def test_a_task_with_nothing_to_do_writes_nothing(driver: TestDriver, tmp_path: Path) -> None:
    driver.feed("orders", orders(0, 1, 2, 3))
    driver.run_until_idle()
    before = {task: sorted(copy_of(tmp_path, task).iterdir()) for task in driver.tasks}
    for n in range(4, 40, 4):
        driver.feed("orders", orders(n))
        (batch,) = driver.run()
        ran = {task.task for task in batch.tasks}
        assert len(ran) == 1
    (worked,) = ran
    (rested,) = set(driver.tasks) - ran
    assert sorted(copy_of(tmp_path, rested).iterdir()) == before[rested]
    assert sorted(copy_of(tmp_path, worked).iterdir()) != before[worked]
    assert driver.run() == ()


def test_commits_of_other_slots_outlast_a_failing_function(tmp_path: Path) -> None:
    """Slots do not wait for each other: a mended function computes the rest of the batch, and all later ones."""
    doubled = CODE.replace('state["total"]}', 'state["total"] * 2}').replace("< 0", "< -1")
    with TestDriver(app(), tmp_path / "data", slots=2) as driver:
        driver.feed("orders", orders(*range(4)))
        driver.run()
        task_of = {row.key: f"partition-{row.partition}" for row in driver.records("orders")}
        good, bad = (
            next(key.decode() for key, task in task_of.items() if key and task == name) for name in driver.tasks
        )
        driver.feed("orders", [{"customer": good, "n": 4, "amount": 1}, {"customer": bad, "n": 5, "amount": -1}])
        with pytest.raises(
            UserActionError, match=r"a negative amount[\s\S]*Other slots have .* it stays: partition-0. The"
        ):
            driver.run()
        stays = [row for row in driver.rows("totals") if row["n"] in (4, 5)]
        assert stays == [{"customer": good, "n": 4, "total": 2}]
        driver.restart(app(code=doubled))
        driver.feed("orders", [{"customer": good, "n": 6, "amount": 1}])
        driver.run_until_idle()
        assert sorted((row["n"], row["total"]) for row in driver.rows("totals") if row["n"] > 3) == [
            (4, 2),
            (5, 0),
            (6, 6),
        ]
