"""What a driver reads from the operator's folder, and where its run keeps what."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import UserActionError
from holdfast.protocol.attempt import AttemptOrders
from holdfast_runtime.checkpoint.run_owner import claim_run
from holdfast_runtime.driver.pod import DriverDirectory, old_runs_of, paths_of, read_directory
from holdfast_runtime.state.durable.storage import DirectoryStorage
from tests.error_codes import has_code

TOLD = AttemptOrders("ads", "team-a", "u-1", "Run.1", 2, "ads-assignment", "ads-report", {"clicks": 4})
FOLDERS = Path("/etc/holdfast"), Path("/var/lib/holdfast"), Path("/tmp/driver")  # noqa: S108 - nothing is made
APP: dict[str, Any] = {
    "apiVersion": "holdfast.dev/v1alpha1",
    "kind": "StreamApp",
    "metadata": {"name": "ads"},
    "spec": {
        "systems": [{"name": "events", "kafka": {"bootstrapServers": "kafka:9092"}}],
        "streams": [{"name": "clicks", "system": "events"}, {"name": "out", "system": "events"}],
        "steps": [{"name": "written", "from": ["clicks"], "to": "out"}],
    },
}


def folder(tmp_path: Path, **runtime: Any) -> Path:
    app = APP | {"spec": APP["spec"] | {"runtime": runtime}}
    (tmp_path / "app.json").write_text(json.dumps(app))
    (tmp_path / "attempt.json").write_text(TOLD.text())
    (tmp_path / "spark.json").write_text('{"spark.app.id": "ads-1"}')
    return tmp_path


def told(tmp_path: Path, location: str) -> DriverDirectory:
    return read_directory(folder(tmp_path, checkpoint={"location": location}))


def test_a_driver_reads_its_app_its_attempt_and_its_settings(tmp_path: Path) -> None:
    read = told(tmp_path, "file:///shared")
    assert (read.app.name, read.orders, read.spark) == ("ads", TOLD, {"spark.app.id": "ads-1"})


def test_shared_files_are_apart_by_run_local_ones_by_location(tmp_path: Path) -> None:
    paths = paths_of(told(tmp_path, "file:///shared/check%20points"), *FOLDERS, None)
    run = Path("/shared/check points/team-a/ads/Run.1")
    assert (paths.query, paths.planned) == (run / "query", None)
    assert (paths.shared, paths.durable) == (DirectoryStorage(run), DirectoryStorage(run / "state"))
    assert paths.state == Path("/var/lib/holdfast/tasks")
    assert paths.log is None


def test_beside_an_object_store_spark_uses_the_drivers_disk(tmp_path: Path) -> None:
    paths = paths_of(told(tmp_path, "s3a://bucket/check%20points"), *FOLDERS, None)
    assert paths.query == FOLDERS[2] / "query"
    assert paths.planned is not None
    assert [one.directory for one in (paths.shared, paths.durable, paths.planned)] == [
        f"s3a://bucket/check points/team-a/ads/Run.1{below}" for below in ("", "/state", "/query")
    ]


@pytest.mark.parametrize(
    ("location", "why"),
    [("gs://bucket/ads", "object stores that speak S3"), ("file://host/ads", "it names a host")],
)
def test_a_location_that_this_release_cannot_use_is_refused(tmp_path: Path, location: str, why: str) -> None:
    with pytest.raises(UserActionError, match=why, check=has_code("CheckpointLocationError")):
        paths_of(told(tmp_path, location), *FOLDERS, None)


def test_an_app_without_a_location_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserActionError, match=r"checkpoint is not set", check=has_code("CheckpointLocationError")):
        paths_of(read_directory(folder(tmp_path)), *FOLDERS, None)


@pytest.mark.parametrize("name", ["app.json", "attempt.json", "spark.json"])
def test_a_file_that_is_missing_or_spoilt_is_named(tmp_path: Path, name: str) -> None:
    directory = folder(tmp_path)
    (directory / name).write_text("{")
    with pytest.raises(
        UserActionError, match="image of the release whose operator wrote", check=has_code("DriverFolderError")
    ):
        read_directory(directory)
    (directory / name).unlink()
    with pytest.raises(UserActionError, match=name, check=has_code("DriverFolderError")):
        read_directory(directory)


@pytest.mark.parametrize(("retention", "stays"), [({}, 3), ({"retention": "59s"}, 2), ({"retention": "Forever"}, 2)])
def test_other_runs_are_kept_as_long_as_the_spec_says(tmp_path: Path, retention: dict[str, str], stays: int) -> None:
    read = read_directory(folder(tmp_path, checkpoint={"location": f"file://{tmp_path}/shared", **retention}))
    runs = tmp_path / "shared" / "team-a" / "ads"
    claim_run(DirectoryStorage(runs / "old"), replace(TOLD, run="old", attempt=1))
    for path in (runs / "old").iterdir():
        os.utime(path, (0, 0))
    forgotten: list[str] = []

    def forget(run: str) -> int:
        forgotten.append(run)
        return 0

    old_runs = old_runs_of(read, tmp_path, claim_run(DirectoryStorage(runs / "Run.1"), TOLD), forget)
    old_runs.collect()
    for path in (runs / "old").iterdir():
        at = path.stat().st_mtime - 60
        os.utime(path, (at, at))
    old_runs.collect()
    assert len(list((runs / "old").iterdir())) == stays
    assert (runs / "old" / "collected.json").exists() == (retention == {"retention": "59s"})
    assert forgotten == (["old"] if retention == {"retention": "59s"} else [])
