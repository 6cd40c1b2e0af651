"""The ConfigMap with a driver's report, which also shows the newest attempt of the run, so that older ones end.

What a driver stores on the cluster is owned by its app and deleted with it, not with attempts. Must not decide when to
write, nor make the driver a controller: that is the operator.
"""

from holdfast.errors import RetrySoonError, WorldChangeError
from holdfast.placement.config_map_store import ConfigMapConflictError, ConfigMaps, Tree, version_of
from holdfast.protocol.attempt import AttemptOrders
from holdfast.protocol.labels import REPORT_LABEL
from holdfast.protocol.report import REPORT_KEY, DriverReport, report_in
from holdfast.spec.app import API_VERSION, KIND


def owner_reference(told: AttemptOrders) -> Tree:
    """Return the owner reference to the app. It does not block deletion: that takes a right that drivers don't need."""
    return {"apiVersion": API_VERSION, "kind": KIND, "name": told.app, "uid": told.uid, "blockOwnerDeletion": False}


_TRIES = 3


class SupersededError(WorldChangeError):
    """A newer attempt of the run is at work, so this one must end."""


class ReportContendedError(RetrySoonError):
    """Every try to write the report met a write by somebody else."""


def has_committed(maps: ConfigMaps, told: AttemptOrders) -> bool:
    """Return whether an earlier attempt of the run has reported a finished batch."""
    report = report_in(maps.get(told.report) or {})
    return report is not None and (report.batch > 0 or report.progressed is not None)


class ReportMap:
    """The report of one run. Not thread-safe."""

    def __init__(self, maps: ConfigMaps, told: AttemptOrders) -> None:
        self._maps, self._told = maps, told
        self._version: str | None = None
        """The resource version that this process wrote last; None: read it first."""

    def write(self, report: DriverReport) -> None:
        """Replace the report; raise `SupersededError` if the present one is of a newer attempt."""
        for _ in range(_TRIES):
            if self._version is None:
                self._version = self._there()
            try:
                written = self._written(report)
            except ConfigMapConflictError:
                self._version = None
                continue
            self._version = None if written is None else version_of(written)
            if written is not None:
                return
        message = f"ConfigMap {self._told.report} was written by others {_TRIES} times while the driver reported"
        raise ReportContendedError(message)

    def check(self) -> None:
        """Raise `SupersededError` if a newer attempt has reported."""
        self._there()

    def _there(self) -> str | None:
        tree = self._maps.get(self._told.report)
        if tree is None:
            return None
        said = report_in(tree)
        if said is not None and said.attempt > self._told.attempt:
            message = (
                f"attempt {said.attempt} of {self._told.app} is at work, as ConfigMap {self._told.report} says: "
                f"this is attempt {self._told.attempt}, it ends"
            )
            raise SupersededError(message)
        return version_of(tree)

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
