"""The pod of a driver: the directory that the operator fills, the log that people read, the termination message.

The directory is read once; it also determines where the run keeps its files. The log has few lines, each worth reading:
every batch is in the report and in the metrics. The message tells the operator, who sees only that the pod ended, how
the driver ended and who has to act. Must not log secrets, ask the API server, nor decide anything by the text of an
error.
"""

import json
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import RetrySoonError, UserActionError, WorldChangeError, code_of
from holdfast.planning.plan import plan
from holdfast.protocol.attempt import ORDERS_KEY, AttemptOrders, read_orders
from holdfast.spec.app import StreamApp
from holdfast.spec.parse import parse_app
from holdfast.spec.values import FOREVER, millis
from holdfast_runtime.checkpoint.changelog import changelog_of, with_changelog
from holdfast_runtime.checkpoint.directories import RunPaths, cluster_runs, directory_name
from holdfast_runtime.checkpoint.run_owner import OldRuns
from holdfast_runtime.clocks import steady
from holdfast_runtime.inspection.local_app import ClusterRun, LocalApp
from holdfast_runtime.progress import (
    AttemptStarted,
    BatchWaiting,
    ClockJumped,
    Event,
    GrowthRefused,
    Progress,
    RunDraining,
    RunEnded,
    TablesLoading,
)
from holdfast_runtime.state.durable.storage import DirectoryStorage, Storage

_LOG = logging.getLogger("holdfast")
_APP, _SPARK, _SECRETS = "app.json", "spark.json", "secrets"


@dataclass(frozen=True, slots=True)
class DriverDirectory:
    """The content of a driver's directory."""

    app: StreamApp
    orders: AttemptOrders
    spark: Mapping[str, str]
    """Spark settings that come with the cluster."""


def read_directory(directory: Path) -> DriverDirectory:
    """Read this directory; raise `DriverFolderError` if a file is missing or invalid."""
    app, orders, spark = (_text(directory / name) for name in (_APP, ORDERS_KEY, _SPARK))
    try:
        return DriverDirectory(parse_app(json.loads(app)), read_orders(orders), json.loads(spark))
    except (ValueError, KeyError, TypeError) as error:
        message = (
            f"{directory} does not hold the files of a driver ({type(error).__name__}: {error}). Use the runtime image "
            f"of the release whose operator wrote them"
        )
        raise UserActionError(message, code="DriverFolderError") from error


def paths_of(read: DriverDirectory, directory: Path, state: Path, scratch: Path, log: Path | None) -> RunPaths:
    """Return where the app's run keeps its files; raise `CheckpointLocationError`. Namespaces may share a location.

    `directory`: what the operator mounts, at the same path in all pods of the app. `state`: a disk of the pod's
    location. `scratch`: a directory of this driver, removed with it.
    """
    name = directory_name(read.orders.run)
    shared = cluster_runs(read.app, read.orders.namespace).below(name)
    lasting = runs_of(read, directory).below(name)
    # Spark keeps its checkpoint in files: in the shared directory if there is one, else on the driver's own disk.
    if isinstance(lasting, DirectoryStorage):
        query, planned = lasting.root / "query", None
    else:
        query, planned = scratch / "query", lasting.below("query")
    return RunPaths(
        query=query,
        shared=shared,
        durable=lasting.below("state"),
        state=state / "tasks",
        log=log,
        planned=planned,
        secrets=directory / _SECRETS,
    )


def old_runs_of(read: DriverDirectory, directory: Path, claim: str, forget: Callable[[str], int]) -> OldRuns:
    """Return the runs beside the current one, which `claim` has taken up; raise `CheckpointLocationError`.

    `directory`: what the operator mounts; `forget`: removes the ConfigMaps of a run.
    """
    keep_for = None if read.app.spec.runtime.checkpoint is None else read.app.spec.runtime.checkpoint.retention
    retention = None if keep_for is None or keep_for == FOREVER else millis(keep_for)
    runs = runs_of(read, directory)
    return OldRuns(runs, directory_name(read.orders.run), claim, retention, steady, forget)


def runs_of(read: DriverDirectory, directory: Path) -> Storage:
    """Return the storage of the app's runs, with their changelog if it has one; `directory`: as in `paths_of`."""
    namespace, topic = read.orders.namespace, changelog_of(read.app, directory / _SECRETS)
    return with_changelog(cluster_runs(read.app, namespace), topic, namespace)


def inspected_app(directory: Path) -> LocalApp:
    """Return the app of this directory, to be looked at beside its driver."""
    read = read_directory(directory)
    # No scratch directory: Spark's checkpoint on the driver's own disk is not looked at, as there is a copy of it.
    paths = paths_of(read, directory, Path(), Path(), None)
    query = paths.query if paths.planned is None else None
    run = ClusterRun(read.orders.namespace, runs_of(read, directory), paths.shared, query)
    return LocalApp(read.app, plan(read.app), directory, None, run)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        message = f"{path} can't be read ({error.strerror}): give the driver the folder that the operator mounts"
        raise UserActionError(message, code="DriverFolderError") from error


_LONGEST = 2000
"""Bytes of the text; Kubernetes keeps 4096 of the whole file."""


def success_message(ended: RunEnded) -> str:
    """Return the termination message of a run that ended well, as JSON."""
    return json.dumps({"ended": ended.ending.value})


def failure_message(error: BaseException) -> str:
    """Return the termination message of a failure, as JSON, with the way out: `user`, `world` or `bug`."""
    if isinstance(error, UserActionError):
        way_out = "user"
    elif isinstance(error, WorldChangeError | RetrySoonError):
        way_out = "world"
    else:
        way_out = "bug"
    text = str(error) if way_out != "bug" else f"{code_of(error)}: {error}"
    message = text.encode(errors="replace")[:_LONGEST].decode(errors="ignore")
    return json.dumps({"failed": way_out, "message": message}, ensure_ascii=False)


def write_termination(message: str, path: Path) -> None:
    """Write the message where Kubernetes reads it; outside of a pod that path may not exist."""
    try:
        path.write_text(message, encoding="utf-8")
    except OSError as error:
        _LOG.warning("%s can't be written (%s): %s", path, error.strerror, message)


_APART = 60_000
_SHOWN = 10


def _log_start(event: AttemptStarted) -> None:
    _LOG.info(
        "%s run %s attempt %d: %d tasks in %d slots, data %s",
        event.app,
        event.run,
        event.attempt,
        event.tasks,
        event.slots,
        event.data,
    )
    if event.why_jobs is not None:
        _LOG.info("%s", event.why_jobs)
    for sentence in event.given_up:
        _LOG.warning("%s", sentence)


_COUNTED: Mapping[str, Callable[[Progress], Mapping[str, int]]] = {
    "%d records of %s misplaced: a producer has not seen it grow": lambda progress: progress.misplaced,
    "%d rows on which step %s failed became dead letters": lambda progress: progress.failed,
    "%d rows too late for step %s": lambda progress: progress.late,
    "%d rows of %s older than its topic keeps records: Kafka deletes them": lambda progress: progress.expired,
}
"""A warning, with a number and the name of a stream or step -> what is counted for it."""


class DriverLog:
    """Logs a run's events."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._said = 0
        self._rows_in = self._rows_out = self._batches = 0
        self._counts = {text: Counter[str]() for text in _COUNTED}
        self._ahead = 0
        self._first_ahead: str | None = None

    def listen(self, event: Event) -> None:
        """Log the event if it is worth a line."""
        match event:
            case AttemptStarted():
                _log_start(event)
            case Progress():
                self._progress(event)
            case BatchWaiting():
                _LOG.warning("waiting: %s", event.why)
            case TablesLoading():
                for table, left in event.left.items():
                    _LOG.info("table %s: about %d records left to load", table, left)
            case GrowthRefused() | ClockJumped():
                _LOG.warning("%s", event.why)
            case RunDraining():
                _LOG.info("draining: the current batch is finished first")
            case RunEnded():
                _LOG.info(
                    "%s: %d batches, %d rows in, %d out", event.ending, event.batches, event.rows_in, event.rows_out
                )

    def _progress(self, event: Progress) -> None:
        self._batches += 1
        self._rows_in += event.rows_in
        self._rows_out += event.rows_out
        for text, counted in _COUNTED.items():
            self._counts[text].update(counted(event))
        self._first_ahead = event.first_ahead if not self._ahead else self._first_ahead
        self._ahead += event.ahead
        for task in event.restored[:_SHOWN]:
            _LOG.info("restored %s", task)
        if len(event.restored) > _SHOWN:
            _LOG.info("restored %d more tasks", len(event.restored) - _SHOWN)
        if event.freed.stores:
            _LOG.info("%d local stores that nothing needs any more are removed, %d bytes", *event.freed)
        if self._clock() - self._said >= _APART:
            held_back = "" if event.held_back is None else f", watermark held back: {event.held_back}"
            counts = self._batches, self._rows_in, self._rows_out
            _LOG.info(
                "batch %d (%d since the last line, %d rows in, %d out), lag %d%s%s",
                event.batch,
                *counts,
                event.lag,
                "" if event.farthest_behind is None else f" (most in {event.farthest_behind})",
                held_back,
            )
            for text, counts_by_name in self._counts.items():
                for name, number in counts_by_name.items():
                    _LOG.warning(text, number, name)
                counts_by_name.clear()
            if self._ahead:
                _LOG.warning(
                    "%d rows from the future since the last line, for example %s", self._ahead, self._first_ahead
                )
            self._ahead = 0
            self._said, self._batches, self._rows_in, self._rows_out = self._clock(), 0, 0, 0
