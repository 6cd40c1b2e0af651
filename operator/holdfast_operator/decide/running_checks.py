"""Why: a running attempt is ended only for these reasons, in this order, and each is said before it is done.

Must not end anything itself, and knows nothing of pods.
"""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.protocol.report import DriverReport
from holdfast.reasons import Reason
from holdfast.spec.app_part import StreamApp
from holdfast.spec.diff import diff
from holdfast.spec.fields import ChangeCost
from holdfast.tasks.record import PlacementRecord
from holdfast_operator.decide.facts import AppFinding, Snapshot
from holdfast_operator.examine.start_checks import StartVerdict

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class _RunningCase:
    seen: Snapshot
    judged: StartVerdict
    app: StreamApp


def reason_to_end(seen: Snapshot, judged: StartVerdict) -> AppFinding | None:
    """Why the running attempt has to end; None: it goes on."""
    if judged.app is None:
        return None
    case = _RunningCase(seen, judged, judged.app)
    return next((found for ask in REASONS_TO_END if (found := ask(case)) is not None), None)


def growth_halts(seen: Snapshot, judged: StartVerdict) -> AppFinding | None:
    """What has grown, where the spec says to stop then."""
    if judged.app is None or judged.app.spec.on_partition_growth != "Halt" or not (told := _growth(seen, judged)):
        return None
    return AppFinding(Reason.GROWTH_HALTED, f"{told} partitions; set spec.onPartitionGrowth to Restart to go on")


def _growth(seen: Snapshot, judged: StartVerdict) -> str:
    """Streams that have more partitions than the run was built for, in words; empty: none."""
    record = seen.record
    if judged.plan is None or not isinstance(record, PlacementRecord) or record.run_id != seen.app.status.run_id:
        return ""
    before = record.counts()
    now = {one.name: one.count.actual for one in judged.plan.streams if one.count is not None}
    grown = [name for name in sorted(before) if now.get(name, 0) > before[name]]
    return ", ".join(f"{name} from {before[name]} to {now[name]}" for name in grown)


def _suspended(case: _RunningCase) -> AppFinding | None:
    return AppFinding(Reason.SUSPENDED, "spec.suspend is true") if case.app.spec.suspend else None


def _changed(case: _RunningCase) -> AppFinding | None:
    if not case.judged.differs(case.seen.app.status) or case.judged.against is not None:
        return None
    return AppFinding(Reason.SPEC_CHANGED, _cost(case))


def _cost(case: _RunningCase) -> str:
    if not isinstance(case.seen.running, StreamApp):
        return f"the spec differs from what the attempt runs; {ChangeCost.RESTART.sentence}"
    found = diff(case.seen.running, case.app)
    named = [one.path for one in found.changes if one.cost >= ChangeCost.RESTART]
    more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
    cost = ChangeCost.RESTART.sentence if not found.new_run else "the new run starts with empty state"
    return f"{', '.join(named[:_SHOWN])}{more} changed: {cost}"


def _begun(case: _RunningCase) -> bool:
    """Whether the record is this attempt's: until its driver has begun, it is that of the attempt before."""
    report, status = case.seen.report, case.seen.app.status
    return isinstance(report, DriverReport) and report.attempt == status.attempt and report.begun


def _halted(case: _RunningCase) -> AppFinding | None:
    return growth_halts(case.seen, case.judged) if _begun(case) else None


def _grown(case: _RunningCase) -> AppFinding | None:
    if not _begun(case):
        return None
    told = _growth(case.seen, case.judged)
    if not told or case.app.spec.on_partition_growth != "Restart" or case.judged.against is not None:
        return None
    return AppFinding(Reason.PARTITIONS_GREW, f"{told} partitions")


REASONS_TO_END: tuple[Callable[[_RunningCase], AppFinding | None], ...] = (_suspended, _halted, _changed, _grown)
"""First match counts; none: it goes on."""
