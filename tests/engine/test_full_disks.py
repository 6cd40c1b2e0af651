"""Disks and quotas that are full: the app stops with the reason, and goes on once there is space."""

import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import UserActionError, WorldChangeError
from holdfast_runtime.testing import TestDriver
from tests.engine.totals import app, orders, settled


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["/bin/mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", place], check=False, capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"needs the right to mount a small disk: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["/bin/umount", "-l", place], check=True)


PLACES = {
    "local state": ("apps/totals/runs/1/state", WorldChangeError, "has no space for the state"),
    "checkpoint": ("apps/totals/runs/1/checkpoint/state", WorldChangeError, "No space left on device"),
    "log": ("log", WorldChangeError, r"log/totals/\d can't be used.* bytes free"),
}


@pytest.mark.parametrize("free", [0, 1, 2, 4])
@pytest.mark.parametrize("full", PLACES)
def test_a_full_disk_stops_with_the_reason_and_without_loss(
    tmp_path: Path, small_disk: Path, full: str, free: int
) -> None:
    where, kind, message = PLACES[full]
    path = tmp_path / "data" / where
    path.parent.mkdir(parents=True)
    path.symlink_to(small_disk)
    with TestDriver(app(), tmp_path / "data", slots=2) as driver:
        driver.feed("orders", orders(*range(40)))
        driver.run()
        driver.feed("orders", orders(*range(40, 2000)))
        fill(small_disk, free * 4096)
        with pytest.raises(kind, match=message):
            driver.run()
        with pytest.raises((kind, WorldChangeError), match=message):
            run_again(driver)
        (small_disk / "filler").unlink()
        driver.restart()
        settled(driver, 2000)


def test_a_store_at_its_state_size_goes_on_with_more(tmp_path: Path) -> None:
    small = app()
    small["spec"]["state"] = {"size": "1Mi"}
    many = [row | {"customer": f"{row['n']:0400}"} for row in orders(*range(6000))]
    with TestDriver(small, tmp_path, slots=2) as driver:
        driver.feed("orders", many)
        with pytest.raises(WorldChangeError, match=r"quota of 1,048,576 bytes .* raise the quota \(state.size\)"):
            driver.run_until_idle()
        driver.restart(app())
        driver.run_until_idle()
        assert len(driver.rows("totals")) == len(many)


def test_files_that_may_not_grow_stop_the_app_without_loss(tmp_path: Path) -> None:
    with TestDriver(app(), tmp_path, slots=2) as driver:
        driver.feed("orders", orders(*range(40)))
        driver.run()
        driver.feed("orders", orders(*range(40, 2000)))
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, limits[1]))
        try:
            with pytest.raises((UserActionError, WorldChangeError), match=r"File too large|no space|bytes free"):
                driver.run()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        driver.restart()
        settled(driver, 2000)


def run_again(driver: TestDriver) -> None:
    driver.restart()
    driver.run()


def fill(disk: Path, free: int) -> None:
    """Leave so many bytes."""
    with (disk / "filler").open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)) == 4096:
                pass
        except OSError:
            pass
        file.truncate(max(0, file.tell() // 4096 * 4096 - free))
