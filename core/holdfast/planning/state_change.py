"""Changes of an app that its run can't follow: types of columns in state, names of steps with state, partition counts.

Compares the plans of two versions; the second is planned with the placement record of the first. Columns that are only
added or removed are not compared: the runtime fills or drops them. Must not know how state is stored.
"""

from collections.abc import Iterator, Mapping

from holdfast.planning.plan import Plan, PlanningFacts, plan
from holdfast.planning.problems import Problem
from holdfast.reasons import Reason
from holdfast.spec.app import StreamApp
from holdfast.spec.diff import FieldChange, renamed
from holdfast.spec.fields import ChangeCost
from holdfast.spec.kept_state import KeptState
from holdfast.tasks.record import PlacementRecord

_OF_THE_RUN = frozenset(
    {
        Reason.NOT_A_MULTIPLE,
        Reason.PARTITIONS_SHRANK,
        Reason.TASK_VANISHED,
        Reason.PARTITIONER_UNKNOWN,
        Reason.STEP_RENAMED,
        Reason.STREAM_RENAMED,
        Reason.STATE_MISFIT,
    }
)
"""Problems that arise from the history of the run."""


def refusals(old: StreamApp, new: StreamApp) -> tuple[FieldChange, ...]:
    """Changes that a run of the old app would refuse; counts that only brokers know are not compared."""
    before, after = plan(old), plan(new)
    former_paths = _renamed(old, new)
    changes = {change.path: change for change in _shrunk(old, new, before, after)}
    if old.spec.run_id == new.spec.run_id:
        grouping = {task.name: task.inputs for task in before.tasks}
        record = PlacementRecord(old.spec.run_id, grouping, {}, {}, state=KeptState().after(old.spec, before.made_by))
        for problem in plan(new, PlanningFacts(record=record)).problems:
            if problem.reason in _OF_THE_RUN:
                change = _refused(problem, before, after, former_paths)
                changes.setdefault(change.path, change)
    return tuple(changes.values())


def _renamed(old: StreamApp, new: StreamApp) -> dict[str, str]:
    """Path of a step or stream -> its former path."""
    steps = [{step.name: step for step in app.spec.steps} for app in (old, new)]
    streams = [{stream.name: stream for stream in app.spec.streams} for app in (old, new)]
    return {
        f"spec.{kind}[{now}]": f"spec.{kind}[{former}]"
        for kind, (before, after) in (("steps", steps), ("streams", streams))
        for former, now in renamed(before, after).items()
    }


def _shrunk(old: StreamApp, new: StreamApp, before: Plan, after: Plan) -> Iterator[FieldChange]:
    """Streams of the embedded log that would get fewer partitions: their logs outlive runs and never shrink."""
    logs = {system.name for system in new.spec.systems if system.log is not None}
    then, now = _counts(before), _counts(after)
    former = {stream.name: (stream.system, stream.topic or stream.name) for stream in old.spec.streams}
    for stream in new.spec.streams:
        name = stream.name
        same = former.get(name) == (stream.system, stream.topic or name) and stream.system in logs
        if same and now.get(name, 0) < then.get(name, 0) and name in now:
            note = f"{name} has {then[name]} partitions and can't shrink to {now[name]}: keep partitions: {then[name]}"
            yield FieldChange(
                f"spec.streams[{name}].partitions",
                then[name],
                now[name],
                ChangeCost.FORBIDDEN,
                note,
                Reason.PARTITIONS_SHRANK,
            )


def _refused(problem: Problem, before: Plan, after: Plan, former_paths: Mapping[str, str]) -> FieldChange:
    if problem.field is not None:
        item, end, inside = problem.field.partition("]")
        path = former_paths.get(item + end, item + end) + inside
        note = problem.message.removeprefix(f"{problem.field} ")
        return FieldChange(path, None, None, ChangeCost.NEW_RUN, note, problem.reason)
    if problem.step is not None:
        return FieldChange(
            f"spec.steps[{problem.step}]", None, None, ChangeCost.NEW_RUN, problem.message, problem.reason
        )
    name = problem.stream or ""
    declared = any(stream.name == name and stream.role != "intermediate" for stream in after.streams)
    path = f"spec.streams[{name}].partitions" if declared else f"partitions of {name}"
    counts = _counts(before).get(name), _counts(after).get(name)
    return FieldChange(path, *counts, ChangeCost.NEW_RUN, problem.message, problem.reason)


def _counts(of: Plan) -> dict[str, int]:
    return {stream.name: stream.count.actual for stream in of.streams if stream.count is not None}
