"""Apps and snapshots of them for tests of the operator's decisions."""

import copy
from typing import Any

from holdfast.protocol.names import attempt_name
from holdfast.protocol.pods import PodPhase, PodState
from holdfast.protocol.report import DriverReport
from holdfast.spec.app import Status
from holdfast_operator.decide.decision import Decision
from holdfast_operator.decide.facts import AppObject, DecisionLimits, Snapshot, StartVerdict, read_spec
from holdfast_operator.decide.rules import decide
from holdfast_operator.examine.start_checks import judge
from holdfast_operator.manifests.driver_pod import Installation
from holdfast_operator.manifests.pod_policy import PodPolicy

NOW = 1_800_000_000_000
LIMITS = DecisionLimits()
UID = "uid-of-app"
POLICY = PodPolicy(Installation("registry/holdfast:1"))
_JUDGED: dict[str, StartVerdict] = {}

TREE: dict[str, Any] = {
    "apiVersion": "holdfast.dev/v1alpha1",
    "kind": "StreamApp",
    "metadata": {"name": "ads"},
    "spec": {
        "systems": [{"name": "events", "kafka": {"bootstrapServers": "kafka:9092"}}],
        "streams": [
            {"name": "clicks", "system": "events", "key": ["k"], "schema": "k STRING"},
            {"name": "out", "system": "events", "key": ["k"]},
        ],
        "steps": [{"name": "written", "from": ["clicks"], "to": "out"}],
        "runtime": {"checkpoint": {"location": "s3a://bucket/ads"}},
    },
}


def tree(**spec: Any) -> dict[str, Any]:
    """The app with these fields of its spec."""
    made = copy.deepcopy(TREE)
    made["spec"] |= spec
    return made


def app(status: Status | None = None, generation: int = 1, **spec: Any) -> AppObject:
    """The object, guarded by its finalizer."""
    return AppObject("ads", "apps", UID, generation, tree(**spec), status or Status(), finalizer=True)


def driver(attempt: int = 1, run: str = "1", **facts: Any) -> PodState:
    """A driver that runs."""
    pod_fields = {"phase": PodPhase.RUNNING, "created": NOW - 60_000, "role": "driver", **facts}
    return PodState(attempt_name("ads", run, attempt), f"uid-{attempt}", attempt=attempt, owner=UID, **pod_fields)


def report(attempt: int = 1, **fields: Any) -> DriverReport:
    """A driver that does well."""
    report_fields = {
        "at": NOW - 1000,
        "batch": 7,
        "progressed": NOW - 2000,
        "tasks": 4,
        "partitions": 8,
        "placed": 4,
        **fields,
    }
    return DriverReport(attempt, **report_fields)


def seen(of: AppObject, **facts: Any) -> Snapshot:
    """A snapshot in which topics are there."""
    return Snapshot(of, **{"counts": {"clicks": 4, "out": 4}, **facts})


def decided(snapshot: Snapshot, now: int = NOW, limits: DecisionLimits = LIMITS) -> Decision:
    """What the operator does."""
    facts = repr((snapshot.app.tree, snapshot.counts, snapshot.record, snapshot.missing, snapshot.storage_class))
    if facts not in _JUDGED:
        _JUDGED[facts] = judge(snapshot.grounds, read_spec(snapshot.app.tree), POLICY)
    return decide(snapshot, _JUDGED[facts], now, limits)


def started(**spec: Any) -> Status:
    """The status of an app whose first attempt was started and seen."""
    intended = decided(seen(app(**spec))).status
    return intended.model_copy(update={"driver_uid": "uid-1"})


def after(**status: Any) -> Status:
    """The same, and what has been written down since."""
    return started().model_copy(update=status)


def message(decision: Decision, kind: str) -> str:
    """Message of a condition."""
    return next(one.message for one in decision.status.conditions if one.type == kind)


def condition(decision: Decision, kind: str) -> tuple[str, str]:
    """Status and reason of a condition."""
    return next((one.status, one.reason) for one in decision.status.conditions if one.type == kind)
