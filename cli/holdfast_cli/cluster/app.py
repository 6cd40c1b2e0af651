"""One app as the cluster shows it: the object, the driver's report, the assignment, the events.

A part that can't be read becomes a `Missing` with the reason. All texts come from other programs, so each is made
one printable line here. Must not judge whether an app is healthy: the operator's conditions say that. Must not import
the Kubernetes client, which takes half a second to load.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Protocol, TypeAlias, TypeVar

from pydantic import ValidationError

from holdfast.errors import HoldfastError, UserActionError
from holdfast.protocol.assignment import (
    ASSIGNMENT_KEY,
    Assignment,
    AssignmentInvalidError,
    VersionedAssignment,
    read_assignment,
)
from holdfast.protocol.names import REPORT_LABEL, assignment_name, attempt_name, report_name
from holdfast.protocol.report import DriverReport, report_in
from holdfast.spec.app import Condition, Status
from holdfast.suggest import did_you_mean
from holdfast.times import moment
from holdfast.trees import Tree
from holdfast_cli.output.screen import one_line

T = TypeVar("T")
_EVENTS = 5
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
_LONGEST = 253
"""Maximum length of a Kubernetes name."""
_PER_PAGE = "100"
"""Apps in an answer: one with more values than an object may have is checked object by object, which takes longer."""
_FARTHEST = 8
"""How many apps are followed upstream."""


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """A kind of Kubernetes object."""

    api: str
    """Path of its API group and version."""
    plural: str

    @property
    def right(self) -> str:
        """Return the resource name that RBAC and `kubectl auth can-i` use."""
        return ".".join([self.plural, *self.api.split("/")[2:-1]])


APPS = ObjectKind("/apis/holdfast.dev/v1alpha1", "streamapps")
CONFIG_MAPS = ObjectKind("/api/v1", "configmaps")
EVENTS = ObjectKind("/apis/events.k8s.io/v1", "events")
PODS = ObjectKind("/api/v1", "pods")


class ObjectReader(Protocol):
    """A source of Kubernetes objects."""

    def get(self, kind: ObjectKind, namespace: str, name: str) -> Tree | None:
        """Return one object, or None if it does not exist."""

    def find(self, kind: ObjectKind, namespace: str | None, query: dict[str, str]) -> list[Tree]:
        """Return all objects that match the query."""


class AppUnknownError(UserActionError):
    """There is no app with this name."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A part of an app that could not be read, with the reason."""

    why: str


OrMissing: TypeAlias = T | Missing


@dataclass(frozen=True, slots=True)
class AppEvent:
    """A Kubernetes event about an app."""

    at: int
    warning: bool
    reason: str
    note: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the app's newest generation is ready."""

    message: str
    reason: str | None = None
    """None: the operator has not reported on it yet."""
    ready: bool = False

    @property
    def text(self) -> str:
        """Return the verdict in a line, e.g. `not ready, Suspended: ...`."""
        return f"{'ready' if self.ready else 'not ready'}{f', {self.reason}' if self.reason else ''}: {self.message}"


@dataclass(frozen=True, slots=True)
class ClusterApp:
    """The StreamApp object."""

    name: str
    namespace: str
    uid: str
    created: int | None
    generation: int
    status: Status
    suspend: bool = False
    """The value of `spec.suspend`."""

    @property
    def verdict(self) -> Verdict:
        """Return the verdict on the current generation; a condition about an older one is ignored."""
        ready = next((condition for condition in self.status.conditions if condition.type == "Ready"), None)
        if ready is None:
            question = f"and does it watch namespace {self.namespace}"
            return Verdict(f"the operator has not looked at it yet; is it installed, does it run, {question}?")
        if (ready.observed_generation or 0) < self.generation:
            message = f"the operator has not looked at generation {self.generation} yet; what follows is older"
            return Verdict(message)
        return Verdict(ready.message, ready.reason, ready=ready.status == "True")

    @property
    def driver(self) -> str | None:
        """Return the name of the latest attempt's driver pod."""
        status = self.status
        if status.run_id is None or status.attempt is None:
            return None
        return attempt_name(self.name, status.run_id, status.attempt)

    def holds(self, condition: str) -> bool:
        """Return whether this condition is true."""
        return any(observed.type == condition and observed.status == "True" for observed in self.status.conditions)

    def current(self, report: OrMissing[DriverReport]) -> OrMissing[DriverReport]:
        """Return the report if the latest attempt wrote it, else `Missing`."""
        if isinstance(report, Missing) or report.attempt == self.status.attempt:
            return report
        return Missing(f"attempt {self.status.attempt} has not reported yet, only attempt {report.attempt} has")


@dataclass(frozen=True, slots=True)
class UpstreamApp:
    """Another app that is waited for, as it is seen from the one that waits."""

    name: str
    app: OrMissing[ClusterApp]
    report: OrMissing[DriverReport]


@dataclass(frozen=True, slots=True)
class AppDetail:
    """Everything that can be read about one app."""

    app: ClusterApp
    report: OrMissing[DriverReport]
    handed: OrMissing[VersionedAssignment]
    events: OrMissing[tuple[AppEvent, ...]]
    upstream: tuple[UpstreamApp, ...] = ()
    """The app that holds the watermark back, the one that holds that one back, and so on."""


@dataclass(frozen=True, slots=True)
class AppList:
    """Several apps, each with its driver's report."""

    apps: tuple[tuple[ClusterApp, OrMissing[DriverReport]], ...]


def read_app(reader: ObjectReader, namespace: str, name: str, *, events: int = _EVENTS) -> AppDetail:
    """Return one app with its report, assignment and latest events; raise if the app itself can't be read."""
    app = find_app(reader, namespace, name)
    run = app.status.run_id
    if run is None:
        nothing = Missing("no attempt has been started")
        return AppDetail(app, nothing, nothing, tried(lambda: _events(reader, app, events)))
    report = _read_report(reader, app)
    return AppDetail(
        app,
        report,
        tried(lambda: _handed(reader.get(CONFIG_MAPS, namespace, assignment_name(name, run)))),
        tried(lambda: _events(reader, app, events)),
        tuple(_upstream(reader, app, report)),
    )


def _read_report(reader: ObjectReader, app: ClusterApp) -> OrMissing[DriverReport]:
    name = report_name(app.name, app.status.run_id or "")
    return tried(lambda: _report(reader.get(CONFIG_MAPS, app.namespace, name)))


def _upstream(reader: ObjectReader, app: ClusterApp, report: OrMissing[DriverReport]) -> Iterator[UpstreamApp]:
    """Follow who waits for whom through apps of one namespace."""
    met = {app.name}
    for _ in range(_FARTHEST):
        report = app.current(report)
        held_by = None if isinstance(report, Missing) else report.held_by
        if held_by is None or held_by in met:
            return
        met.add(held_by)
        upstream_app = tried(partial(find_app, reader, app.namespace, held_by))
        if isinstance(upstream_app, Missing):
            yield UpstreamApp(held_by, upstream_app, upstream_app)
            return
        app, report = upstream_app, _read_report(reader, upstream_app)
        yield UpstreamApp(held_by, app, app.current(report))


def find_app(reader: ObjectReader, namespace: str, name: str) -> ClusterApp:
    """Return the object alone; raise if it can't be read."""
    return app_of(app_tree(reader, namespace, name))


def app_tree(reader: ObjectReader, namespace: str, name: str) -> Tree:
    """Return the object as the API server has it; raise if it can't be read."""
    tree = reader.get(APPS, namespace, name) if is_name(name) else None
    if tree is None:
        message = f"there is no StreamApp {name} in namespace {namespace}{_meant(reader, namespace, name)}"
        raise AppUnknownError(message)
    return tree


def is_name(text: str) -> bool:
    """Return whether an object can have this name. Any other text could change the request path."""
    return _NAME.fullmatch(text) is not None


def read_apps(reader: ObjectReader, namespace: str | None) -> AppList:
    """Return all apps of a namespace, or of all namespaces."""
    apps = sorted(
        map(app_of, reader.find(APPS, namespace, {"limit": _PER_PAGE})), key=lambda app: (app.namespace, app.name)
    )
    if not apps:
        return AppList(())
    reports = tried(lambda: reader.find(CONFIG_MAPS, namespace, {"labelSelector": REPORT_LABEL}))
    if isinstance(reports, Missing):
        return AppList(tuple((app, reports) for app in apps))
    trees = {(report["metadata"].get("namespace"), report["metadata"].get("name")): report for report in reports}
    names = [(app.namespace, report_name(app.name, app.status.run_id or "")) for app in apps]
    return AppList(tuple((app, _report(trees.get(name))) for app, name in zip(apps, names, strict=True)))


def app_of(tree: Tree) -> ClusterApp:
    """Return the app that this tree describes."""
    metadata = tree["metadata"]
    return ClusterApp(
        name=one_line(str(metadata.get("name"))),
        namespace=one_line(str(metadata.get("namespace"))),
        uid=str(metadata.get("uid")),
        created=_moment(metadata.get("creationTimestamp")),
        generation=int(metadata.get("generation") or 0),
        status=_status(tree.get("status") or {}),
        suspend=(tree.get("spec") or {}).get("suspend") is True,
    )


def _report(tree: Tree | None) -> OrMissing[DriverReport]:
    """Return the driver's report from this ConfigMap."""
    if tree is None:
        return Missing("its driver has not reported yet")
    report = report_in(tree)
    if report is None:
        return Missing(f"ConfigMap {tree['metadata']['name']} holds no report that can be read")
    return replace(
        report,
        held_back=_on_one_line(report.held_back),
        held_by=_on_one_line(report.held_by),
        loading=_on_one_line(report.loading),
        incomplete=_on_one_line(report.incomplete),
    )


def _on_one_line(text: str | None) -> str | None:
    return None if text is None else one_line(text)


def _handed(tree: Tree | None) -> OrMissing[VersionedAssignment]:
    """Return the assignment from this ConfigMap."""
    if tree is None:
        return Missing("no assignment has been handed to its driver")
    try:
        handed = read_assignment(str((tree.get("data") or {}).get(ASSIGNMENT_KEY)))
    except AssignmentInvalidError as error:
        return Missing(one_line(str(error)))
    location_of = {one_line(processor): one_line(location) for processor, location in handed.processors.items()}
    tasks_of = {
        one_line(processor): tuple(map(one_line, tasks)) for processor, tasks in handed.assignment.tasks_of.items()
    }
    names = (*location_of, *location_of.values(), *(task for tasks in tasks_of.values() for task in tasks))
    if any(len(name) > _LONGEST for name in names):
        return Missing(
            f"{ASSIGNMENT_KEY} holds a name of more than {_LONGEST} characters, which no pod, place or task has"
        )
    return replace(handed, processors=location_of, assignment=Assignment(tasks_of))


def _status(tree: Tree) -> Status:
    """Return the status. Unknown fields (of another release) are ignored; an unreadable status counts as empty."""
    fields = {name: _printable(value) for name, value in tree.items() if name in _names(Status)}
    try:
        conditions = fields.get("conditions") or []
        fields["conditions"] = [
            {name: condition[name] for name in condition if name in _names(Condition)} for condition in conditions
        ]
        return Status.model_validate(fields, by_alias=True, by_name=False)
    except (ValidationError, TypeError):
        return Status()


@cache
def _names(model: type[Status | Condition]) -> frozenset[str]:
    return frozenset(field.alias or name for name, field in model.model_fields.items())


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, list):
        return [_printable(member) for member in value]
    return {name: _printable(member) for name, member in value.items()} if isinstance(value, dict) else value


def _events(reader: ObjectReader, app: ClusterApp, most: int) -> tuple[AppEvent, ...]:
    """Return the latest events, oldest first."""
    trees = reader.find(EVENTS, app.namespace, {"fieldSelector": f"regarding.uid={app.uid}"})
    return tuple(sorted(map(_event, trees), key=lambda event: event.at)[-most:])


def _event(tree: Tree) -> AppEvent:
    series = tree.get("series") or {}
    times = (series.get("lastObservedTime"), tree.get("deprecatedLastTimestamp"), tree.get("eventTime"))
    return AppEvent(
        at=next((time for time in map(_moment, times) if time is not None), 0),
        warning=tree.get("type") == "Warning",
        reason=one_line(str(tree.get("reason"))),
        note=one_line(str(tree.get("note") or "")),
    )


def _meant(reader: ObjectReader, namespace: str, name: str) -> str:
    """Return a "did you mean" hint; empty if apps can't be listed, as the user did not ask for a list."""
    try:
        return did_you_mean(name, [app_of(tree).name for tree in reader.find(APPS, namespace, {})])
    except HoldfastError:
        return ""


def tried(reading: Callable[[], OrMissing[T]]) -> OrMissing[T]:
    """Return what is read, or why it can't be."""
    try:
        return reading()
    except HoldfastError as error:
        return Missing(str(error))


def _moment(value: object) -> int | None:
    return moment(value) if isinstance(value, str) else None
