"""The reporter of a driver: writes its report into a ConfigMap, beside the batches, and only when it is worth a write.

Thousands of drivers share one API server, while people wait for news. So an important change is written at once (but
not twice in a second), progress every few seconds, a sign of life every minute. A failed write is tried again, whatever
failed: an app whose report is no longer written is taken for stuck. The report also shows the newest attempt of the
run, and only a newer one ends this one. What a driver stores on the cluster is owned by its app and deleted with it,
not with attempts. Must not make batches wait for the API server.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from holdfast.api_answers import ApiConflictError
from holdfast.errors import HoldfastError, RetrySoonError, WorldChangeError
from holdfast.placement.config_map_store import ConfigMaps, version_of
from holdfast.protocol.attempt import AttemptOrders
from holdfast.protocol.names import REPORT_LABEL
from holdfast.protocol.report import MOST_STREAMS, REPORT_INTERVAL, REPORT_KEY, DriverReport, report_in
from holdfast.spec.app import API_VERSION, KIND
from holdfast.trees import Tree
from holdfast_runtime.coordination.row_meter import RowMeter
from holdfast_runtime.progress import Progress, TablesLoading


def owner_reference(orders: AttemptOrders) -> Tree:
    """Return the owner reference to the app. It does not block deletion: that takes a right that drivers don't need."""
    return {"apiVersion": API_VERSION, "kind": KIND, "name": orders.app, "uid": orders.uid, "blockOwnerDeletion": False}


_TRIES = 3


class SupersededError(WorldChangeError):
    """A newer attempt of the run is at work, so this one must end."""


def has_committed(maps: ConfigMaps, orders: AttemptOrders) -> bool:
    """Return whether an earlier attempt of the run has reported a finished batch."""
    report = report_in(maps.get(orders.report) or {})
    return report is not None and (report.batch > 0 or report.progressed is not None)


def check_newest(maps: ConfigMaps, orders: AttemptOrders) -> str | None:
    """Return the version of the report's ConfigMap; raise `SupersededError` if a newer attempt has reported."""
    tree = maps.get(orders.report)
    if tree is None:
        return None
    report = report_in(tree)
    if report is not None and report.attempt > orders.attempt:
        message = (
            f"attempt {report.attempt} of {orders.app} is at work, as ConfigMap {orders.report} shows. "
            f"This is attempt {orders.attempt}: it ends, and you need not do anything"
        )
        raise SupersededError(message)
    return version_of(tree)


class ReportMap:
    """The report of one run. Not thread-safe."""

    def __init__(self, maps: ConfigMaps, orders: AttemptOrders) -> None:
        self._maps, self._told = maps, orders
        self._version: str | None = None
        """The resource version that this process wrote last; None: read it first."""

    def write(self, report: DriverReport) -> None:
        """Replace the report; raise `SupersededError` if the present one is of a newer attempt."""
        for _ in range(_TRIES):
            if self._version is None:
                self._version = check_newest(self._maps, self._told)
            try:
                written = self._written(report)
            except ApiConflictError:
                self._version = None
                continue
            self._version = None if written is None else version_of(written)
            if written is not None:
                return
        message = f"ConfigMap {self._told.report} was written by others {_TRIES} times while the driver reported"
        raise RetrySoonError(message, code="ReportContendedError")

    def _written(self, report: DriverReport) -> Tree | None:
        tree: Tree = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": self._told.report,
                "labels": {REPORT_LABEL: self._told.app},
                "ownerReferences": [owner_reference(self._told)],
            },
            "data": {REPORT_KEY: report.text()},
        }
        if self._version is None:
            return self._maps.create(tree)
        tree["metadata"]["resourceVersion"] = self._version
        return self._maps.replace(tree)


EVERY = 5_000
"""Milliseconds between writes of progress alone."""
APART = 1_000
"""Milliseconds between any two writes: a value that changes with every batch must not be written each time."""
_LONGEST = 400


def due(last: DriverReport | None, now: DriverReport, *, idle: bool = False) -> bool:
    """Return whether this report has to be written; `last`: the one written last; `idle`: no rows flow any more."""
    if last is None:
        return True
    since = now.at - last.at
    if not 0 <= since < REPORT_INTERVAL:  # the clock was put back
        return True
    if _picture(last) != _picture(now):
        return since >= APART
    stopped = idle and _flows(last)
    return since >= EVERY and (stopped or (now.batch, now.loading) != (last.batch, last.loading))


def shortened(text: str | None) -> str | None:
    """Return the text cut to a limit of bytes: a report must stay small, however long names of streams are."""
    if text is None or len(text.encode()) <= _LONGEST:
        return text
    return f"{text.encode()[: _LONGEST - 3].decode(errors='ignore')}..."


def most_unread(lags: Mapping[str, Sequence[int]]) -> Mapping[str, int]:
    """Return the unread records of each stream, of so many streams as a report tells apart."""
    unread = sorted(((sum(each), stream) for stream, each in lags.items()), key=lambda lag: (-lag[0], lag[1]))
    return {stream: records for records, stream in unread[:MOST_STREAMS]}


def _flows(report: DriverReport) -> bool:
    return report.rows is not None and report.rows.flow


def _picture(report: DriverReport) -> tuple[object, ...]:
    return (
        report.attempt,
        report.assignment,
        report.tasks,
        report.partitions,
        report.placed,
        report.progressed is None,
        report.held_back is None,
        report.loading is None,
        report.incomplete,
    )


_LOG = logging.getLogger("holdfast")
_LOOK = 1.0
_AFTER_FAILURE = 5.0
_LAST = 20.0


class Reporter:
    """Keeps one report up to date, from `start` to `close`."""

    def __init__(
        self,
        reports: ReportMap,
        attempt: int,
        clock: Callable[[], int],
        meter: RowMeter,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        """`seconds`: the clock of the meter."""
        self._reports, self._clock, self._meter, self._seconds = reports, clock, meter, seconds
        self._report = DriverReport(attempt, clock())
        self._said: DriverReport | None = None
        self._lags: Mapping[str, Sequence[int]] = {}
        """As of the last batch: summed up when a report is written, which is rarer."""
        self._changing = threading.Lock()
        """Held while the report or the meter changes."""
        self._news, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="reporter", daemon=True)
        self._failing = False
        self.superseded: SupersededError | None = None
        """Why this attempt must end; None if it need not."""

    def start(self) -> None:
        """Write this attempt's first report, and start; raise `SupersededError`, or the API server's error."""
        self._write(replace(self._report, at=self._clock()))
        self._thread.start()

    def close(self) -> None:
        """Write the last report, and stop."""
        self._over.set()
        self._news.set()
        self._thread.join(_LAST)
        last = self._said
        if self.superseded is None and last is not None and (_flows(last) or last.batch != self._report.batch):
            self._try(replace(self._report, at=self._clock()))

    def progressed(self, progress: Progress) -> None:
        """Report a finished batch."""
        self._lags = progress.lags
        with self._changing:
            self._meter.count(self._seconds(), progress.seconds, progress.read, progress.streams)
        held_back = shortened(progress.held_back)
        waiting = sum(side.rows for side in progress.buffered.values())
        left = ", ".join(f"{table}: {records:,} records left" for table, records in sorted(progress.loading.items()))
        self._change(
            batch=progress.batch,
            progressed=progress.at,
            lag=progress.lag,
            waiting=waiting,
            held_back=held_back,
            held_by=progress.held_by,
            loading=shortened(left or None),
            incomplete=shortened(", ".join(progress.incomplete) or None),
        )

    def loading(self, tables: TablesLoading) -> None:
        """Report what is loaded while there is no batch."""
        left = {table: f"{records:,} records left" for table, records in tables.left.items()}
        lines = (f"{table}: {tables.problems.get(table, amount)}" for table, amount in sorted(left.items()))
        self._change(loading=shortened(", ".join(lines) or None))

    def placed(self, version: int, tasks: int, partitions: int, placed: int) -> None:
        """Report that tasks run under this version of the assignment."""
        self._change(assignment=version, tasks=tasks, partitions=partitions, placed=placed)

    def _change(self, **fields: int | str | None) -> None:
        with self._changing:
            self._report = replace(self._report, **fields)  # type: ignore[arg-type] # mypy wants one type for all
        self._news.set()

    def _run(self) -> None:
        while not self._over.is_set() and self.superseded is None:
            self._news.wait(_LOOK)
            self._news.clear()
            now = replace(self._report, at=self._clock())
            if due(self._said, now, idle=self._meter.idle(self._seconds())) and not self._try(now):
                self._over.wait(_AFTER_FAILURE)

    def _try(self, report: DriverReport) -> bool:
        try:
            self._write(report)
        except SupersededError as error:
            self.superseded = error
        except Exception as error:  # noqa: BLE001 - the thread must live as long as the attempt
            if not self._failing:
                foreign = not isinstance(error, HoldfastError)
                message = "the report can't be written, batches go on and it is tried again: %s"
                _LOG.warning(message, error, exc_info=foreign)
            self._failing = True
            return False
        self._failing = False
        return True

    def _write(self, report: DriverReport) -> None:
        with self._changing:
            rows = None if self._over.is_set() else self._meter.rates(self._seconds())
        whole = replace(report, lags=most_unread(self._lags), rows=rows)
        self._reports.write(whole)
        self._said = whole
