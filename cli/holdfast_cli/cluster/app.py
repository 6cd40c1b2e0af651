"""An app as its cluster has it: the object, what its driver reports, where its tasks are, its events.

What is missing is a value too, with the reason. Texts were written by others, so each is made one printable line
here. Must not judge: conditions are the operator's.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, TypeVar

from pydantic import ValidationError

from holdfast.errors import HoldfastError, UserActionError
from holdfast.moments import moment
from holdfast.protocol.assignment import (
    ASSIGNMENT_KEY,
    Assignment,
    AssignmentInvalidError,
    VersionedAssignment,
    read_assignment,
)
from holdfast.protocol.labels import REPORT_LABEL
from holdfast.protocol.names import assignment_name, attempt_name, report_name
from holdfast.protocol.report import DriverReport, report_in
from holdfast.spec.app import Condition, Status
from holdfast.suggest import did_you_mean
from holdfast_cli.cluster.requests import APPS, CONFIG_MAPS, EVENTS, ObjectKind
from holdfast_cli.output.screen import one_line

Tree = dict[str, Any]
T = TypeVar("T")
_EVENTS = 5
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
_LONGEST = 253
"""Letters of a name of Kubernetes."""


class ObjectReader(Protocol):
    """Where trees come from."""

    def get(self, kind: ObjectKind, namespace: str, name: str) -> Tree | None:
        """One object; None: it is not there."""

    def find(self, kind: ObjectKind, namespace: str | None, query: dict[str, str]) -> list[Tree]:
        """All that fit."""


class AppUnknownError(UserActionError):
    """There is no app of this name."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Not known, and why."""

    why: str


OrMissing: TypeAlias = T | Missing


@dataclass(frozen=True, slots=True)
class AppEvent:
    """What happened to an app."""

    at: int
    warning: bool
    reason: str
    note: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an app is ready, as it was applied last."""

    message: str
    reason: str | None = None
    """None: the operator has said nothing of it yet."""
    ready: bool = False


@dataclass(frozen=True, slots=True)
class ClusterApp:
    """The object."""

    name: str
    namespace: str
    uid: str
    created: int | None
    generation: int
    status: Status
    suspend: bool = False
    """What its spec says."""

    @property
    def verdict(self) -> Verdict:
        """What is said of the app as it is now; what was said of an older generation does not count."""
        ready = next((one for one in self.status.conditions if one.type == "Ready"), None)
        if ready is None:
            return Verdict("the operator has not looked at it yet; is it installed, and does it run?")
        if (ready.observed_generation or 0) < self.generation:
            message = f"the operator has not looked at generation {self.generation} yet; what follows is older"
            return Verdict(message)
        return Verdict(ready.message, ready.reason, ready=ready.status == "True")

    @property
    def driver(self) -> str | None:
        """The pod of its latest attempt."""
        status = self.status
        if status.run_id is None or status.attempt is None:
            return None
        return attempt_name(self.name, status.run_id, status.attempt)


@dataclass(frozen=True, slots=True)
class AppDetail:
    """All that is known of one app."""

    app: ClusterApp
    report: OrMissing[DriverReport]
    handed: OrMissing[VersionedAssignment]
    events: OrMissing[tuple[AppEvent, ...]]


@dataclass(frozen=True, slots=True)
class AppList:
    """Some apps, each with what its driver reports."""

    apps: tuple[tuple[ClusterApp, OrMissing[DriverReport]], ...]


def read_app(reader: ObjectReader, namespace: str, name: str) -> AppDetail:
    """One app, and what others say of it; raises what says why it can't be asked for."""
    app = find_app(reader, namespace, name)
    run = app.status.run_id
    if run is None:
        nothing = Missing("no attempt has been started")
        return AppDetail(app, nothing, nothing, _tried(lambda: _events(reader, app)))
    return AppDetail(
        app,
        _tried(lambda: report_of(reader.get(CONFIG_MAPS, namespace, report_name(name, run)))),
        _tried(lambda: handed_of(reader.get(CONFIG_MAPS, namespace, assignment_name(name, run)))),
        _tried(lambda: _events(reader, app)),
    )


def find_app(reader: ObjectReader, namespace: str, name: str) -> ClusterApp:
    """The object alone; raises what says why it can't be asked for."""
    tree = reader.get(APPS, namespace, name) if is_name(name) else None
    if tree is None:
        message = f"there is no StreamApp {name} in namespace {namespace}{_meant(reader, namespace, name)}"
        raise AppUnknownError(message)
    return app_of(tree)


def is_name(text: str) -> bool:
    """Whether an object could have this name; what could not would mean another place in a path."""
    return _NAME.fullmatch(text) is not None


def read_apps(reader: ObjectReader, namespace: str | None) -> AppList:
    """All apps of a namespace, or of all."""
    apps = sorted(map(app_of, reader.find(APPS, namespace, {})), key=lambda one: (one.namespace, one.name))
    if not apps:
        return AppList(())
    found = _tried(lambda: reader.find(CONFIG_MAPS, namespace, {"labelSelector": REPORT_LABEL}))
    if isinstance(found, Missing):
        return AppList(tuple((app, found) for app in apps))
    trees = {(one["metadata"].get("namespace"), one["metadata"].get("name")): one for one in found}

    def report(app: ClusterApp) -> OrMissing[DriverReport]:
        run = app.status.run_id
        return report_of(None if run is None else trees.get((app.namespace, report_name(app.name, run))))

    return AppList(tuple((app, report(app)) for app in apps))


def app_of(tree: Tree) -> ClusterApp:
    """The object in this tree."""
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


def report_of(tree: Tree | None) -> OrMissing[DriverReport]:
    """What the driver wrote into this ConfigMap."""
    if tree is None:
        return Missing("its driver has not reported yet")
    report = report_in(tree)
    if report is None:
        return Missing(f"ConfigMap {tree['metadata']['name']} holds no report that can be read")
    return replace(report, held_back=None if report.held_back is None else one_line(report.held_back))


def handed_of(tree: Tree | None) -> OrMissing[VersionedAssignment]:
    """The assignment in this ConfigMap."""
    if tree is None:
        return Missing("no assignment has been handed to its driver")
    try:
        handed = read_assignment(str((tree.get("data") or {}).get(ASSIGNMENT_KEY)))
    except AssignmentInvalidError as error:
        return Missing(one_line(str(error)))
    places = {one_line(processor): one_line(location) for processor, location in handed.processors.items()}
    tasks_of = {
        one_line(processor): tuple(map(one_line, tasks)) for processor, tasks in handed.assignment.tasks_of.items()
    }
    names = (*places, *places.values(), *(task for tasks in tasks_of.values() for task in tasks))
    if any(len(name) > _LONGEST for name in names):
        return Missing(
            f"{ASSIGNMENT_KEY} holds a name of more than {_LONGEST} characters, which no pod, place or task has"
        )
    return replace(handed, processors=places, assignment=Assignment(tasks_of))


def _status(tree: Tree) -> Status:
    """The status; fields of another release are passed over, one that can't be read at all counts as none."""
    fields = {name: _printable(value) for name, value in tree.items() if name in _names(Status)}
    try:
        given = fields.get("conditions") or []
        fields["conditions"] = [{name: one[name] for name in one if name in _names(Condition)} for one in given]
        return Status.model_validate(fields, by_alias=True, by_name=False)
    except (ValidationError, TypeError):
        return Status()


def _names(model: type[Status | Condition]) -> frozenset[str]:
    return frozenset(field.alias or name for name, field in model.model_fields.items())


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, list):
        return [_printable(one) for one in value]
    return {name: _printable(one) for name, one in value.items()} if isinstance(value, dict) else value


def _events(reader: ObjectReader, app: ClusterApp) -> tuple[AppEvent, ...]:
    """The latest ones, the oldest of them first."""
    found = reader.find(EVENTS, app.namespace, {"fieldSelector": f"regarding.uid={app.uid}"})
    return tuple(sorted(map(_event, found), key=lambda one: one.at)[-_EVENTS:])


def _event(tree: Tree) -> AppEvent:
    series = tree.get("series") or {}
    times = (series.get("lastObservedTime"), tree.get("deprecatedLastTimestamp"), tree.get("eventTime"))
    return AppEvent(
        at=next((at for at in map(_moment, times) if at is not None), 0),
        warning=tree.get("type") == "Warning",
        reason=one_line(str(tree.get("reason"))),
        note=one_line(str(tree.get("note") or "")),
    )


def _meant(reader: ObjectReader, namespace: str, name: str) -> str:
    """What was probably meant; nothing where apps can't be listed, as that is not what was asked."""
    try:
        return did_you_mean(name, [app_of(one).name for one in reader.find(APPS, namespace, {})])
    except HoldfastError:
        return ""


def _tried(reading: Callable[[], OrMissing[T]]) -> OrMissing[T]:
    try:
        return reading()
    except HoldfastError as error:
        return Missing(str(error))


def _moment(value: object) -> int | None:
    return moment(value) if isinstance(value, str) else None
