"""Old runs in a folder and in an object store: what is removed, what stays, and who is refused."""

import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from holdfast.errors import UserActionError
from holdfast.protocol.attempt import AttemptOrders
from holdfast_runtime.checkpoint.run_owner import OldRuns, claim_run
from holdfast_runtime.clocks import now
from holdfast_runtime.state.durable.object_storage import ObjectStorage
from holdfast_runtime.state.durable.storage import Chunk, DirectoryStorage, Storage
from tests.error_codes import has_code
from tests.s3.gateway import Gateway

TOLD = AttemptOrders("ads", "team-a", "u-1", "1", 1, "ads-assignment", "ads-report")
DAY = 86_400_000
WEEK = 7 * DAY
STAYS = ["collected.json", "owner.json"]


@dataclass(frozen=True)
class Site:
    """Where an app keeps its runs, and the files in which that is."""

    app: Storage
    files: Path
    forgotten: list[str] = field(default_factory=list)
    """The runs of which drivers have removed what is kept elsewhere."""

    def claims(self, run: str, attempt: int = 1, uid: str = "u-1") -> str:
        return claim_run(self.app.below(run), replace(TOLD, run=run, attempt=attempt, uid=uid))

    def written(self, run: str) -> None:
        """What batches write."""
        storage = self.app.below(run)
        storage.write("jump.json", [b"{}"])
        for name in ("offsets", "commits"):
            storage.below("query", name).write("0", [b"v1"])
        for task in ("partition-0", "partition-1"):
            for batch in range(3):
                storage.below("state", "ads", run, task).write(f"delta-{batch:020}-{1:010}", [b"delta"])

    def look(self, run: str, claim: str, later: int = 0, retention: int | None = WEEK) -> None:
        """A round of the driver of this run, so many milliseconds from now."""
        self.driver(run, claim, later, retention).collect()

    def driver(self, run: str, claim: str, later: int = 0, retention: int | None = WEEK) -> OldRuns:
        return OldRuns(self.app, run, claim, retention, lambda: now() + later, self._forget)

    def _forget(self, run: str) -> int:
        self.forgotten.append(run)
        return 2

    def objects(self, run: str) -> list[str]:
        """All that is kept of it."""
        folder = self.files / run
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())

    def aged(self, run: str, days: int) -> None:
        """As if all of it had been written so long ago."""
        for path in (self.files / run).rglob("*"):
            at = path.stat().st_mtime - days * 86_400
            os.utime(path, (at, at))


@pytest.fixture(params=["folder", "object store"])
def site(tmp_path: Path, request: pytest.FixtureRequest) -> Site:
    if request.param == "folder":
        return Site(DirectoryStorage(tmp_path / "ads", sync=False), tmp_path / "ads")
    bucket = request.getfixturevalue("gateway").bucket()
    app = bucket.storage.below("ads")
    return Site(app, bucket.folder(app.directory))


@dataclass(frozen=True)
class Left:
    """Run 2 is the current one, run 1 was seen left."""

    site: Site
    claim: str


@pytest.fixture
def left(site: Site) -> Left:
    site.claims("1")
    site.written("1")
    site.aged("1", 30)
    claim = site.claims("2")
    site.written("2")
    site.look("2", claim)
    return Left(site, claim)


def test_a_run_goes_after_retention_and_its_id_is_refused(left: Left, caplog: pytest.LogCaptureFixture) -> None:
    site, before = left.site, left.site.objects("2")
    assert "left.json" in site.objects("1")
    site.look("2", left.claim, WEEK - DAY)
    assert len(site.objects("1")) == 12
    with caplog.at_level(logging.INFO, "holdfast"):
        site.look("2", left.claim, WEEK + DAY)
        site.look("2", left.claim, WEEK + 2 * DAY)
    assert site.objects("1") == STAYS
    assert site.objects("2") == before
    collected, elsewhere, *_ = caplog.messages
    assert f"run {site.app.below('1').directory} is collected, 11 objects: nothing was written" in collected
    assert elsewhere == f"run {site.app.below('1').directory} is collected: 2 ConfigMaps are removed"
    with pytest.raises(
        UserActionError,
        match=r"held run 1 of ads.*retention and is collected: .* new spec\.runId",
        check=has_code("RunCollectedError"),
    ):
        site.claims("1", attempt=2)
    assert site.objects("1") == STAYS


def test_a_runs_record_goes_with_its_checkpoint_and_not_before(left: Left) -> None:
    site = left.site
    site.look("2", left.claim, WEEK - DAY)
    assert site.forgotten == []
    driver = site.driver("2", left.claim, WEEK + DAY)
    driver.collect()
    assert (site.objects("1"), site.forgotten) == (STAYS, ["1"])
    driver.collect()
    assert site.forgotten == ["1"], "a driver asks once for a run that is collected"


def test_a_dead_drivers_unremoved_record_goes_with_the_next(left: Left) -> None:
    site = left.site

    def dies(_: str) -> int:
        raise _DiedError

    with pytest.raises(_DiedError):
        OldRuns(site.app, "2", left.claim, WEEK, lambda: now() + WEEK + DAY, dies).collect()
    assert site.objects("1") == STAYS
    with pytest.raises(UserActionError, check=has_code("RunCollectedError")):
        site.claims("1", attempt=2)
    site.look("2", site.claims("2", attempt=2))
    assert site.forgotten == ["1"]


def test_the_record_of_a_run_taken_up_again_stays(left: Left) -> None:
    site = left.site
    back = site.claims("1", attempt=2)
    site.look("2", left.claim, 9 * WEEK)
    site.look("1", back, 9 * WEEK)
    assert "1" not in site.forgotten


def test_going_back_in_time_finds_all_and_restarts_the_retention(left: Left) -> None:
    site = left.site
    back = site.claims("1", attempt=2)
    assert "left.json" not in site.objects("1")
    assert "jump.json" in site.objects("1")
    site.aged("2", 30)
    site.look("1", back)
    site.look("1", back, WEEK + DAY)
    assert site.objects("2") == STAYS


def test_a_driver_left_behind_collects_nothing_of_a_later_run(left: Left) -> None:
    site = left.site
    site.aged("2", 2)
    site.claims("1", attempt=2)
    before = site.objects("1")
    for later in (0, WEEK + DAY, 9 * WEEK):
        site.look("2", left.claim, later)
    assert site.objects("1") == before


def test_an_attempt_that_a_newer_one_has_replaced_collects_nothing(left: Left) -> None:
    left.site.claims("2", attempt=2)
    left.site.look("2", left.claim, WEEK + DAY)
    assert "jump.json" in left.site.objects("1")


def test_runs_of_other_apps_and_folders_of_nobody_stay(left: Left) -> None:
    site = left.site
    site.claims("0", uid="u-0")
    site.app.below("mine").write("notes.txt", [b"keep"])
    site.app.below("torn").write("owner.json", [b"{"])
    for run in ("0", "torn"):
        site.written(run)
        site.aged(run, 90)
    before = {run: site.objects(run) for run in ("0", "mine", "torn")}
    for later in (0, WEEK + DAY, 99 * WEEK):
        site.look("2", left.claim, later)
    assert {run: site.objects(run) for run in ("0", "mine", "torn")} == before


def test_for_ever_nothing_goes(left: Left) -> None:
    left.site.look("2", left.claim, 999 * WEEK, retention=None)
    assert len(left.site.objects("1")) == 12


def test_what_an_old_writer_leaves_behind_later_goes_too(left: Left) -> None:
    site = left.site
    site.look("2", left.claim, WEEK + DAY)
    site.written("1")
    site.look("2", left.claim)
    assert site.objects("1") == STAYS


class _DiedError(Exception):
    """The driver is no more."""


@dataclass(frozen=True)
class _Watched:
    """A storage in which something happens before or after others do their part."""

    storage: Storage
    acts: dict[str, Callable[[], None]]
    """What happens, once each, by when."""

    @property
    def at_once(self) -> int:
        return self.storage.at_once

    def refuses_taken(self, size: int) -> bool:
        return self.storage.refuses_taken(size)

    @property
    def directory(self) -> str:
        return self.storage.directory

    def below(self, *names: str) -> "_Watched":
        return _Watched(self.storage.below(*names), self.acts)

    def path(self, name: str) -> str:
        return self.storage.path(name)

    def names(self) -> list[str]:
        return self.storage.names()

    def names_behind(self, name: str) -> list[str]:
        return self.storage.names_behind(name)

    def modified(self) -> dict[str, int]:
        return self.storage.modified()

    def directories(self) -> list[str]:
        return self.storage.directories()

    def unfinished(self) -> dict[str, str]:
        return self.storage.unfinished()

    def read(self, name: str) -> bytes | None:
        return self.storage.read(name)

    def reading(self, name: str) -> AbstractContextManager[Callable[[int], bytes]]:
        return self.storage.reading(name)

    def write(self, name: str, chunks: Iterable[Chunk], *, replace: bool = False) -> int | None:
        self._act(f"before {name}")
        written = self.storage.write(name, chunks, replace=replace)
        self._act(f"after {name}")
        return written

    def delete(self, names: Iterable[str]) -> Iterator[str]:
        return self.storage.delete(names)

    def clear(self, keep: Collection[str]) -> int:
        self._act("before removal")
        return self.storage.clear(keep)

    def _act(self, when: str) -> None:
        self.acts.pop(when, lambda: None)()


def watched(site: Site, when: str, act: Callable[[], None]) -> Site:
    return replace(site, app=_Watched(site.app, {when: act}))


def die() -> None:
    raise _DiedError


def test_going_back_just_before_the_mark_keeps_everything(left: Left) -> None:
    site, back = left.site, list[str]()
    site_then = watched(site, "before collected.json", lambda: back.append(site.claims("1", attempt=2)))
    site_then.look("2", left.claim, WEEK + DAY)
    assert "jump.json" in site.objects("1")
    # No later run of the app acts on it either.
    site.aged("1", 1)
    site.look("3", site.claims("3"), 9 * WEEK)
    assert "jump.json" in site.objects("1")
    site.look("1", back[0])
    assert "collected.json" not in site.objects("1")
    site.claims("1", attempt=3)


def test_going_back_just_after_the_mark_is_refused(left: Left) -> None:
    site = left.site

    def back() -> None:
        with pytest.raises(UserActionError, check=has_code("RunCollectedError")):
            site.claims("1", attempt=2)

    watched(site, "after collected.json", back).look("2", left.claim, WEEK + DAY)
    assert site.objects("1") == STAYS


def test_a_removal_that_died_after_its_mark_is_finished_later(left: Left) -> None:
    site = left.site

    with pytest.raises(_DiedError):
        watched(site, "before removal", die).look("2", left.claim, WEEK + DAY)
    assert len(site.objects("1")) == 13
    with pytest.raises(UserActionError, check=has_code("RunCollectedError")):
        site.claims("1", attempt=2)
    site.look("2", site.claims("2", attempt=2))
    assert site.objects("1") == STAYS


def test_a_run_collected_under_a_living_driver_stays_given_up(left: Left) -> None:
    site = left.site
    (old,) = (name for name in site.objects("1") if name.startswith("claim-"))

    with pytest.raises(_DiedError):
        watched(site, "before removal", die).look("2", left.claim, WEEK + DAY)
    site.look("1", old)
    assert "collected.json" in site.objects("1")


def test_a_look_at_a_collected_run_asks_little(gateway: Gateway) -> None:
    bucket = gateway.bucket()
    app = bucket.storage.below("ads")
    site = Site(app, bucket.folder(app.directory))
    site.claims("1")
    site.written("1")
    site.aged("1", 30)
    claim = site.claims("2")
    site.look("2", claim)
    site.look("2", claim, WEEK + DAY)
    before = gateway.asked(bucket)
    site.look("2", claim, WEEK + DAY)
    assert (gateway.asked(bucket) - before).total() < 20


@pytest.fixture
def links(tmp_path: Path) -> tuple[DirectoryStorage, Path]:
    other = tmp_path / "other"
    other.mkdir()
    (other / "file").write_text("not the run's")
    run = tmp_path / "run"
    (run / "state").mkdir(parents=True)
    (run / "state" / "link").symlink_to(other)
    (run / ".writing-x").touch()
    return DirectoryStorage(run), other


def test_a_links_target_stays_and_unfinished_writes_go(links: tuple[DirectoryStorage, Path]) -> None:
    storage, other = links
    assert storage.clear({"owner.json"}) == 2
    assert list(storage.root.iterdir()) == []
    assert (other / "file").exists()
    assert storage.clear(()) == 0
    assert DirectoryStorage(other / "never").clear(()) == 0
    assert DirectoryStorage(other / "never").directories() == []
    assert DirectoryStorage(other / "never").modified() == {}


def test_clearing_a_bucket_leaves_only_the_names_to_keep(gateway: Gateway) -> None:
    storage: ObjectStorage = gateway.bucket().storage
    assert (storage.clear(()), storage.directories(), storage.modified()) == (0, [], {})
    for names in ((), ("a",), ("a", "b"), ("keep",)):
        for name in ("one", "keep"):
            storage.below(*names).write(f"{name}.json", [b"1"])
    assert sorted(storage.directories()) == ["a", "keep"]
    assert storage.modified().keys() == {"one.json", "keep.json"}
    assert storage.clear({"keep.json"}) == 7
    assert (storage.names(), storage.directories()) == (["keep.json"], [])
