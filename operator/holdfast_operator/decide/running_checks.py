"""Why: a running attempt is ended only for these reasons, in this order, and each is said before it is done.

Must not end anything itself, and knows nothing of pods.
"""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.protocol.report import Report
from holdfast.reasons import Reason
from holdfast.spec.app_part import StreamApp
from holdfast.spec.diff import diff
from holdfast.spec.fields import Change
from holdfast.tasks.record import Record
from holdfast_operator.decide.facts import Finding, Snapshot
from holdfast_operator.examine.start_checks import Judged

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class _Case:
    seen: Snapshot
    judged: Judged
    app: StreamApp


def reason_to_end(seen: Snapshot, judged: Judged) -> Finding | None:
    """Why the running attempt has to end; None: it goes on."""
    if judged.app is None:
        return None
    case = _Case(seen, judged, judged.app)
    return next((found for ask in ENDS if (found := ask(case)) is not None), None)


def growth_halts(seen: Snapshot, judged: Judged) -> Finding | None:
    """What has grown, where the spec says to stop then."""
    if judged.app is None or judged.app.spec.on_partition_growth != "Halt" or not (told := _growth(seen, judged)):
        return None
    return Finding(Reason.GROWTH_HALTED, f"{told} partitions; set spec.onPartitionGrowth to Restart to go on")


def _growth(seen: Snapshot, judged: Judged) -> str:
    """Streams that have more partitions than the run was built for, in words; empty: none."""
    record = seen.record
    if judged.plan is None or not isinstance(record, Record) or record.run_id != seen.app.status.run_id:
        return ""
    before = record.counts()
    now = {one.name: one.count.actual for one in judged.plan.streams if one.count is not None}
    grown = [name for name in sorted(before) if now.get(name, 0) > before[name]]
    return ", ".join(f"{name} from {before[name]} to {now[name]}" for name in grown)


def _suspended(case: _Case) -> Finding | None:
    return Finding(Reason.SUSPENDED, "spec.suspend is true") if case.app.spec.suspend else None


def _changed(case: _Case) -> Finding | None:
    if not case.judged.differs(case.seen.app.status) or case.judged.against is not None:
        return None
    return Finding(Reason.SPEC_CHANGED, _cost(case))


def _cost(case: _Case) -> str:
    if not isinstance(case.seen.running, StreamApp):
        return f"the spec differs from what the attempt runs; {Change.RESTART.sentence}"
    found = diff(case.seen.running, case.app)
    named = [one.path for one in found.changes if one.cost >= Change.RESTART]
    more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
    cost = Change.RESTART.sentence if not found.new_run else "the new run starts with empty state"
    return f"{', '.join(named[:_SHOWN])}{more} changed: {cost}"


def _begun(case: _Case) -> bool:
    """Whether the record is this attempt's: until its driver has begun, it is that of the attempt before."""
    report, status = case.seen.report, case.seen.app.status
    return isinstance(report, Report) and report.attempt == status.attempt and report.begun


def _halted(case: _Case) -> Finding | None:
    return growth_halts(case.seen, case.judged) if _begun(case) else None


def _grown(case: _Case) -> Finding | None:
    if not _begun(case):
        return None
    told = _growth(case.seen, case.judged)
    if not told or case.app.spec.on_partition_growth != "Restart" or case.judged.against is not None:
        return None
    return Finding(Reason.PARTITIONS_GREW, f"{told} partitions")


ENDS: tuple[Callable[[_Case], Finding | None], ...] = (_suspended, _halted, _changed, _grown)
"""First match counts; none: it goes on."""
