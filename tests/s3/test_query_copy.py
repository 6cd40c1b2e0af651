"""What the next driver finds of Spark's checkpoint, and who may still plan: in a folder and an object store alike."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event

import pytest

from holdfast.errors import RetrySoonError, UserActionError
from holdfast_runtime.checkpoint.query_copy import QueryCopy, restore_query
from holdfast_runtime.state.durable.object_storage import ObjectStorage
from holdfast_runtime.state.durable.storage import DirectoryStorage, Storage
from holdfast_runtime.state.errors import CheckpointUnavailableError, EpochFencedError
from tests.error_codes import has_code
from tests.s3.gateway import Gateway
from tests.waiting import patience, wait_until

Files = dict[str, str]


@pytest.fixture(params=["folder", "object store"])
def storage(tmp_path: Path, request: pytest.FixtureRequest) -> Storage:
    if request.param == "folder":
        return DirectoryStorage(tmp_path / "shared" / "query", sync=False)
    gateway: Gateway = request.getfixturevalue("gateway")
    return gateway.bucket().storage.below("query")


class Driver:
    """An attempt whose Spark writes its logs as the real one does."""

    def __init__(self, storage: Storage, disk: Path, epoch: int) -> None:
        self.copy = QueryCopy(storage, disk / str(epoch), epoch)
        self.directory, self.epoch = self.copy.directory, epoch

    def began(self) -> Files:
        """Begin; what Spark finds."""
        self.copy.begin()
        files = {
            str(path.relative_to(self.directory)): path.read_text()
            for path in self.directory.rglob("*")
            if path.is_file()
        }
        for log in ("offsets", "commits"):
            (self.directory / log).mkdir(exist_ok=True)
        (self.directory / "metadata").write_text("the query")
        return files

    def plan(self, batch: int) -> None:
        (self.directory / "offsets" / str(batch)).write_text(f"batch {batch} of {self.epoch}")

    def run(self, batch: int) -> None:
        """Plan it, unless that has been done, and run it."""
        if not (self.directory / "offsets" / str(batch)).exists():
            self.plan(batch)
        self.copy.planned()
        (self.directory / "commits" / str(batch)).write_text(f"done by {self.epoch}")


@pytest.fixture
def driver(storage: Storage, tmp_path: Path) -> Callable[[int], Driver]:
    return lambda epoch: Driver(storage, tmp_path / "disk", epoch)


def test_a_look_finds_the_last_plan_and_stops_nobody(storage: Storage, tmp_path: Path) -> None:
    driver = Driver(storage, tmp_path, 1)
    driver.began()
    driver.run(0)
    driver.copy.done()
    restore_query(storage, tmp_path / "look")
    assert (tmp_path / "look" / "commits" / "0").read_text() == "done by 1"
    driver.run(1)
    restore_query(storage, tmp_path / "later")
    assert (tmp_path / "later" / "offsets" / "1").read_text() == "batch 1 of 1"
    restore_query(storage.below("nothing"), tmp_path / "nothing")
    assert list((tmp_path / "nothing").iterdir()) == []


def test_a_first_attempt_finds_nothing(driver: Callable[[int], Driver]) -> None:
    assert driver(1).began() == {}


def test_a_planned_batch_is_run_again_as_it_was(driver: Callable[[int], Driver]) -> None:
    first = driver(1)
    first.began()
    first.run(0)
    first.run(1)
    first.plan(2)
    first.copy.planned()
    assert driver(2).began() == {
        "metadata": "the query",
        "offsets/1": "batch 1 of 1",
        "offsets/2": "batch 2 of 1",
        "commits/1": "done by 1",
    }


def test_a_batch_known_to_be_done_is_not_repeated(driver: Callable[[int], Driver]) -> None:
    first = driver(1)
    first.began()
    first.run(0)
    first.copy.done()
    second = driver(2)
    assert second.began() == {"metadata": "the query", "offsets/0": "batch 0 of 1", "commits/0": "done by 1"}
    second.run(1)
    assert driver(3).began().keys() == {"metadata", "offsets/0", "offsets/1", "commits/0"}


def test_a_batch_that_is_not_planned_yet_is_planned_anew(driver: Callable[[int], Driver]) -> None:
    first = driver(1)
    first.began()
    first.run(0)
    first.plan(1)
    second = driver(2)
    assert "offsets/1" not in second.began()
    with pytest.raises(EpochFencedError, match=r"attempt 1 may not plan .* attempt 2 works there"):
        first.copy.planned()


def test_a_refused_attempts_plan_gives_way_to_the_newer_ones(driver: Callable[[int], Driver]) -> None:
    first, second = driver(1), driver(2)
    first.began()
    first.run(0)
    first.plan(1)
    second.began()
    second.run(1)
    with pytest.raises(EpochFencedError):
        first.copy.planned()
    with pytest.raises(EpochFencedError):
        first.copy.planned()
    assert driver(3).began()["offsets/1"] == "batch 1 of 2"


def test_an_older_attempts_late_end_of_a_batch_changes_nothing(driver: Callable[[int], Driver]) -> None:
    first, second = driver(1), driver(2)
    first.began()
    first.run(0)
    first.run(1)
    assert second.began()["offsets/1"] == "batch 1 of 1"
    first.copy.done()
    second.run(1)
    second.run(2)
    first.copy.done()
    assert driver(3).began()["offsets/2"] == "batch 2 of 2"


def test_an_older_attempt_does_not_begin_after_a_newer_one(driver: Callable[[int], Driver]) -> None:
    driver(2).began()
    with pytest.raises(EpochFencedError):
        driver(1).began()


def test_each_batch_is_written_once_and_old_ones_are_removed(storage: Storage, driver: Callable[[int], Driver]) -> None:
    driver(1).began()
    second = driver(2)
    second.began()
    for batch in range(20):
        second.run(batch)
        second.copy.planned()
    second.copy.done()
    second.copy.done()
    names = sorted(storage.names())
    assert [name.split("-")[0] for name in names] == ["done", "fence", *["planned"] * 4]
    assert {"fence-0000000002", f"planned-{0:020}-0000000001"} <= set(names)
    assert driver(3).began()["commits/19"] == "done by 2"


def test_an_attempt_that_restarts_goes_on_with_the_copy(driver: Callable[[int], Driver]) -> None:
    first = driver(1)
    first.began()
    first.run(0)
    first.copy.done()
    first.plan(1)
    # Its Spark had planned a batch that was not copied, as if it had died there.
    assert driver(1).began().keys() == {"metadata", "offsets/0", "commits/0"}


@pytest.mark.parametrize("content", [b"", b"torn", b"holdfast-query 1 sha256=" + b"0" * 64 + b"\n{}"])
def test_damage_stops_the_app_where_nothing_else_says_the_same(
    storage: Storage, driver: Callable[[int], Driver], content: bytes
) -> None:
    first = driver(1)
    first.began()
    first.run(0)
    first.run(1)
    first.copy.done()
    (done,), (planned,) = (
        [one for one in storage.names() if one.startswith(f"{kind}-0") and "01-" in one] for kind in ("done", "planned")
    )
    storage.write(done, [content], replace=True)
    # What was planned is run again, and says where the run stands as well.
    assert driver(2).began().keys() == {"metadata", "offsets/0", "offsets/1", "commits/0"}
    storage.write(planned, [content], replace=True)
    with pytest.raises(
        UserActionError, match=rf"{planned} can't be read.* new spec\.runId", check=has_code("QueryCopyDamagedError")
    ):
        driver(3).began()


def test_an_older_attempt_never_gets_its_name_back(storage: Storage, driver: Callable[[int], Driver]) -> None:
    first, second = driver(1), driver(2)
    first.began()
    first.run(0)
    first.run(1)
    second.began()
    for batch in range(1, 20):
        second.run(batch)
    second.copy.done()
    first.plan(2)
    with pytest.raises(EpochFencedError, match=r"attempt 1 may not plan .* attempt 2 works there"):
        first.copy.planned()
    third = driver(3)
    assert {"offsets/19", "commits/19"} <= third.began().keys()
    for batch in range(20, 30):
        third.run(batch)
    third.copy.done()
    assert {f"planned-{2:020}-0000000001", f"planned-{20:020}-0000000002"} <= set(storage.names())


def test_an_older_attempt_does_not_run_again_what_it_found(driver: Callable[[int], Driver]) -> None:
    first, second, third = driver(1), driver(2), driver(3)
    first.began()
    first.run(0)
    first.plan(1)
    first.copy.planned()
    assert second.began().keys() == third.began().keys()
    with pytest.raises(EpochFencedError, match=r"attempt 2 may not plan .* attempt 3 works there"):
        second.copy.planned()
    third.run(1)
    assert driver(4).began()["offsets/1"] == "batch 1 of 1"


def _has_two(batches: list[int]) -> bool:
    return len(batches) > 1


def test_a_newer_attempt_finds_all_that_was_planned_meanwhile(driver: Callable[[int], Driver]) -> None:
    for epoch in range(1, 9, 2):
        older, newer, planned = driver(epoch), driver(epoch + 1), list[int]()
        before = [int(name.split("/")[1]) for name in older.began() if name.startswith("offsets/")]

        def plan(older: Driver = older, first: int = max(before, default=0), planned: list[int] = planned) -> None:
            for batch in range(first, first + 1000):
                older.run(batch)
                planned.append(batch)

        with ThreadPoolExecutor(1) as pool:
            planning = pool.submit(plan)
            wait_until(partial(_has_two, planned), 20, "batches are planned")
            files = newer.began()
            with pytest.raises(EpochFencedError):
                planning.result()
        assert f"offsets/{planned[-1]}" in files


@dataclass(frozen=True, slots=True)
class SlowLooks(ObjectStorage):
    """A bucket in which nobody gets an answer to a look before it is time."""

    answers: Event = field(default_factory=Event)

    def names_behind(self, name: str) -> list[str]:
        assert self.answers.wait(patience(20))
        return ObjectStorage.names_behind(self, name)


def test_a_batch_in_a_bucket_waits_for_no_look(gateway: Gateway, tmp_path: Path) -> None:
    bucket = gateway.bucket().storage
    slow = SlowLooks(bucket.service, bucket.bucket, bucket.prefix)
    slow.answers.set()
    attempt = Driver(slow, tmp_path / "disk", 1)
    attempt.began()
    attempt.run(0)
    slow.answers.clear()
    attempt.run(1)
    slow.answers.set()
    Driver(slow, tmp_path / "disk", 2).began()
    with pytest.raises(EpochFencedError):
        attempt.run(2)


def test_a_plan_of_its_own_is_not_anothers(storage: Storage, driver: Callable[[int], Driver]) -> None:
    first = driver(1)
    first.began()
    first.run(0)
    again = driver(1)
    again.began()
    again.copy.planned()
    (planned,) = (name for name in storage.names() if name.startswith("planned"))
    again.plan(1)
    storage.write(planned.replace("0-", "1-", 1), [storage.read(planned) or b""])
    with pytest.raises(RetrySoonError, match="another attempt", check=has_code("AttemptOvertakenError")):
        again.copy.planned()


def test_a_batch_does_not_run_where_it_cannot_be_written(tmp_path: Path) -> None:
    attempt = Driver(DirectoryStorage(tmp_path / "shared"), tmp_path / "disk", 1)
    attempt.began()
    (tmp_path / "shared").rename(tmp_path / "away")
    (tmp_path / "shared").touch()
    with pytest.raises(CheckpointUnavailableError):
        attempt.run(0)
    assert not (attempt.directory / "commits" / "0").exists()
