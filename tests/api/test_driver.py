"""The driver's whole process, with real executors and a real API server; the test plays the operator."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyspark
import pytest
from ruamel.yaml import YAML

from holdfast.protocol.assignment import Assignment, VersionedAssignment
from holdfast.protocol.report import DriverReport
from holdfast.tasks.partitions import StreamPartition
from holdfast.tasks.record import PlacementRecord
from holdfast_runtime.coordination.reporter import ReportMap
from holdfast_runtime.streams.log.embedded_log import MAP_SIZE, EmbeddedLog, open_partition
from tests.api.drivers import USER, Theatre
from tests.api.plane import Plane
from tests.engine.otlp import receiver, resource_of, sent_spans, values
from tests.engine.runs import APP, check, feed
from tests.processes import die, processes_below
from tests.registry.scripted import ScriptedAnswer, ScriptedRegistry
from tests.waiting import patience, wait_until

ROWS = 8_000
DEADLINE = 120.0
LOCATIONS = {"0": "disk-0", "1": "disk-1"}
FIRST = Assignment({"0": ("partition-0", "partition-2"), "1": ("partition-1",)})
SWAPPED = Assignment({"0": ("partition-1",), "1": ("partition-0", "partition-2")})
_NUMBERS = itertools.count()


class Driver:
    """One driver; its executors keep state below their own working folders, so each has a disk of its own."""

    def __init__(self, theatre: Theatre, home: Path, spark: dict[str, str], *options: str, **runtime: Any) -> None:
        self.home, self.disk = home, f"disk-{os.getpid()}-{theatre.orders.namespace}"
        folder = home / "folder"
        folder.mkdir(exist_ok=True)
        for name, content in theatre.files(app(home, **runtime), spark).items():
            (folder / name).write_text(content)
        self.termination = home / "termination-log"
        command = [sys.executable, "-m", "holdfast_runtime.driver", str(folder), "--state", self.disk]
        command += ["--log", str(home / "log"), "--termination", str(self.termination), *options]
        with (home / "driver.log").open("wb") as log:
            self.process = subprocess.Popen(
                command,
                env={**os.environ, "KUBECONFIG": str(theatre.plane.kubeconfig(USER))},
                cwd=home,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def said(self) -> str:
        """Its log so far."""
        return (self.home / "driver.log").read_text(errors="replace")

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait while it lives."""

        def held() -> bool:
            assert self.process.poll() is None, f"the driver ended: {self.said()[-4000:]}"
            return bool(condition())

        try:
            wait_until(held, DEADLINE, what)
        except TimeoutError as error:
            message = f"{error}: {self.said()[-4000:]}"
            raise TimeoutError(message) from error

    def drained(self) -> None:
        """Ask it to end, and see that it does so well."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(patience(DEADLINE)) == 0, self.said()[-4000:]
        assert json.loads(self.termination.read_text()) == {"ended": "drained"}

    def close(self) -> None:
        """End it, and take its executors' disks away."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(patience(DEADLINE))
        for disk in (Path(pyspark.__file__).parent / "work").glob(f"*/*/{self.disk}"):
            shutil.rmtree(disk, ignore_errors=True)


def app(home: Path, **runtime: Any) -> dict[str, Any]:
    tree: dict[str, Any] = YAML(typ="safe").load(APP)
    tree["spec"]["runtime"]["checkpoint"] = {"location": f"file://{home}/shared"}
    tree["spec"]["runtime"]["sparkConf"] = {"spark.ui.enabled": "false"}
    tree["spec"]["runtime"].update(runtime)
    return tree


@pytest.fixture
def theatre(plane: Plane) -> Theatre:
    return Theatre.opened(plane, "counted", f"driver-{next(_NUMBERS)}")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    feed(tmp_path, ROWS)
    return tmp_path


def recorded(theatre: Theatre) -> PlacementRecord:
    record = theatre.record()
    assert record is not None
    return record


def test_a_move_between_batches_loses_and_doubles_nothing(theatre: Theatre, home: Path) -> None:
    driver = Driver(theatre, home, {"spark.app.id": "counted-1"}, "--master", "local-cluster[2,1,1024]")
    try:
        driver.until(lambda: theatre.reported(attempt=1), "it has begun")
        theatre.hand(VersionedAssignment(1, 1, LOCATIONS, FIRST))
        driver.until(lambda: theatre.reported(assignment=1, tasks=3, partitions=5, placed=3), "assignment 1")
        assert recorded(theatre).task_processor == FIRST.processor_of()
        driver.until(lambda: (report := theatre.report()) is not None and report.batch > 2, "some batches")
        theatre.hand(VersionedAssignment(2, 1, LOCATIONS, SWAPPED))
        driver.until(lambda: theatre.reported(assignment=2, placed=0), "assignment 2")
        assert recorded(theatre).task_processor == SWAPPED.processor_of()
        assert recorded(theatre).task_location["partition-1"] == "disk-0"
        feed(home, 500, ROWS)
        driver.until(lambda: "restored partition-1" in driver.said(), "a task goes on at its new place")
        theatre.hand(VersionedAssignment(3, 1, LOCATIONS, FIRST))
        driver.until(lambda: theatre.reported(assignment=3), "assignment 3")
        feed(home, 500, ROWS + 500)
        driver.until(lambda: theatre.reported(lag=0) and counted(home) == kept(ROWS + 1_000), "all rows are through")
        driver.drained()
    finally:
        driver.close()
    check(home, ROWS + 1_000)
    assert "it is at batch" in driver.said(), "what was left behind was not taken for the state"


def test_without_an_operator_a_driver_follows_an_executor_that_returns(
    theatre: Theatre, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = {"spark.executorEnv.SPARK_EXECUTOR_ATTRIBUTE_POD": "pod-0"}
    options = ("--master", "local-cluster[1,2,1024]", "--patience", "1")
    lineage, traces = ScriptedRegistry([ScriptedAnswer(201, b"")]), receiver()
    with lineage.running() as url, traces.running() as endpoint:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        driver = Driver(theatre, home, spark, *options, lineage={"url": url})
        _follow(driver, theatre, home)
    check(home, ROWS + 500)
    events = [json.loads(body) for *_, body in lineage.requests]
    states = [event["eventType"] for event in events]
    assert (states[0], set(states[1:-1]), states[-1]) == ("START", {"RUNNING"}, "ABORT")
    assert len({event["run"]["runId"] for event in events}) == 1
    assert {event["job"]["namespace"] for event in events} == {theatre.orders.namespace}
    assert resource_of(traces)["service.namespace"] == theatre.orders.namespace
    slots = [values(span.attributes) for span in sent_spans(traces) if span.name == "slot"]
    assert {slot["holdfast.slot"].rpartition("/")[0] for slot in slots} == {"pod-0"}
    assert {slot["holdfast.location"] for slot in slots} == {"pod-0"}


def _follow(driver: Driver, theatre: Theatre, home: Path) -> None:
    try:
        driver.until(lambda: theatre.reported(assignment=0, tasks=3, placed=3), "its own assignment")
        assert set(recorded(theatre).task_processor.values()) == {"pod-0"}
        assert set(recorded(theatre).task_location.values()) == {"pod-0"}
        driver.until(lambda: (report := theatre.report()) is not None and report.batch > 2, "some batches")
        die(processes_below(driver.process.pid, "CoarseGrainedExecutorBackend")[0])
        driver.until(lambda: "3 on pod-0 at 127.0.0.1_1" in driver.said(), "the pod is back as another executor")
        feed(home, 500, ROWS)
        driver.until(lambda: counted(home) == kept(ROWS + 500), "all rows are through")
        driver.drained()
    finally:
        driver.close()


def test_earlier_attempts_are_shut_out_before_tasks_have_places(theatre: Theatre, home: Path) -> None:
    second = replace(theatre, orders=theatre.attempt(2))
    driver = Driver(second, home, {}, "--master", "local-cluster[1,1,1024]", "--patience", "600")
    try:
        driver.until(lambda: refuses(home, "counted/1", epoch=1), "the first attempt can't write any more")
        assert theatre.record() is None
        driver.drained()
    finally:
        driver.close()


def test_a_driver_that_cannot_run_says_who_has_to_act(theatre: Theatre, home: Path) -> None:
    spoilt = app(home)
    spoilt["spec"]["runtime"]["checkpoint"] = {"location": "gs://bucket/ads"}
    assert "object stores that speak S3" in refused(theatre, home, spoilt)


def test_a_driver_whose_checkpoint_is_gone_does_not_begin_anew(theatre: Theatre, home: Path) -> None:
    ReportMap(theatre.maps(), theatre.orders).write(DriverReport(attempt=1, at=1, batch=7, progressed=1))
    message = refused(replace(theatre, orders=theatre.attempt(2)), home, app(home))
    assert "has committed batches" in message
    assert not list((home / "shared").rglob("*.json"))


def refused(theatre: Theatre, home: Path, tree: dict[str, Any]) -> str:
    """The last word of a driver that wants its user to act."""
    folder = home / "refused"
    folder.mkdir()
    for name, content in theatre.files(tree, {}).items():
        (folder / name).write_text(content)
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "holdfast_runtime.driver",
            str(folder),
            "--termination",
            str(home / "last-word"),
        ],
        env={**os.environ, "KUBECONFIG": str(theatre.plane.kubeconfig(USER))},
        capture_output=True,
        timeout=patience(DEADLINE),
        check=False,
    )
    last_word = json.loads((home / "last-word").read_text())
    assert (ran.returncode, last_word["failed"]) == (1, "user")
    return str(last_word["message"])


def refuses(home: Path, owner: str, epoch: int) -> bool:
    """Whether the output takes nothing of this attempt."""
    path, partition = home / "log" / "numbered" / "0", StreamPartition("numbered", 0)
    if not EmbeddedLog(home / "log").has("numbered"):
        return False
    # Not by a write: its marker would be one that the checkpoint knows nothing of.
    return open_partition(path, partition, map_size=MAP_SIZE, sync=False).fences().get(owner, 0) > epoch


def counted(home: Path) -> int:
    """Rows that stand in the output."""
    log = EmbeddedLog(home / "log")
    return sum(end - oldest for oldest, end, _ in log.bounds("numbered").values()) if log.has("numbered") else 0


def kept(rows: int) -> int:
    """How many of so many rows come out."""
    return sum(number % 10 != 3 for number in range(rows))
