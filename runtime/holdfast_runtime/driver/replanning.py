"""A batch that is planned and not done, planned anew: which of its tasks may be, and what stays of it.

A task's turn that somebody can see already is finished as it was decided, for anything else would lose or double rows.
The turns of other tasks are taken back: nobody has seen them, and their state stands before them. So nothing is lost or
doubled, and there is no choice to make. Pure: what is known of turns comes in. Must not read or write.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from holdfast.errors import UserActionError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.checkpoint.offsets import Offsets

Inputs = Mapping[str, Sequence[StreamPartition]]
"""Task -> what it reads."""


class ReplanRefusedError(UserActionError):
    """A batch that can't be planned anew, or need not be."""


class AllWrittenError(ReplanRefusedError):
    """All that the batch does is written: it only has to be noted as done."""


class TurnState(Enum):
    """How far a task has come in a batch."""

    OPEN = "not decided"
    DECIDED = "decided, not written"
    """What it does is written down, and will be done as it is; nobody can see any of it."""
    SEEN = "written"
    """Somebody may have seen its outputs, or it has none; its state may have followed."""


@dataclass(frozen=True, slots=True)
class Replan:
    """What becomes of a batch."""

    batch: int
    states: Mapping[str, TurnState]
    """Of its tasks."""
    instead: Offsets | None
    """The batch that takes its place: that of the tasks that stay; None: no task does."""

    @property
    def taken_back(self) -> tuple[str, ...]:
        """The tasks whose turns are planned anew."""
        return tuple(task for task, state in self.states.items() if state is not TurnState.SEEN)


def replan(done: Offsets, planned: Offsets, states: Mapping[str, TurnState], inputs: Inputs) -> Replan:
    """What becomes of the batch that leads from `done` to `planned`; raises `ReplanRefusedError`."""
    if unknown := sorted(set(planned.taking_part) - inputs.keys()):
        message = (
            f"batch {planned.batch} was planned for {', '.join(unknown)}, which the app does not have as it is now: "
            "plan it anew with the spec it was planned with, then change the spec"
        )
        raise ReplanRefusedError(message)
    stay = tuple(task for task in planned.taking_part if states[task] is TurnState.SEEN)
    back = tuple(task for task in planned.taking_part if task not in stay)
    if not back:
        message = (
            f"all that batch {planned.batch} does is written already: run the app, and it is done (holdfast run "
            "--batches 1)"
        )
        raise AllWrittenError(message)
    found = {task: states[task] for task in planned.taking_part}
    return Replan(planned.batch, found, _reduced(done, planned, stay, back, inputs) if stay else None)


def _reduced(done: Offsets, planned: Offsets, stay: Sequence[str], back: Sequence[str], inputs: Inputs) -> Offsets:
    """The same batch without the tasks that are taken back."""
    theirs, mine = ({one for task in tasks for one in inputs[task]} & planned.starts.keys() for tasks in (back, stay))
    if shared := sorted(theirs & mine):
        message = (
            f"batch {planned.batch} reads {', '.join(map(str, shared))} for tasks that have written "
            f"({', '.join(stay)}) and for others that have not ({', '.join(back)}): a stream that all tasks read is "
            "read once. Let the batch be written as it is, or start under a new spec.runId"
        )
        raise ReplanRefusedError(message)
    if planned.jump != done.jump:
        message = (
            f"batch {planned.batch} goes to positions that were set, and some of its tasks have gone there "
            f"({', '.join(stay)}): let it be written as it is, or start under a new spec.runId"
        )
        raise ReplanRefusedError(message)
    turns = {task: turn for task, turn in planned.turns.items() if task not in back}
    return replace(
        planned,
        positions={**planned.positions, **{one: planned.starts[one] for one in theirs}},
        turns={**turns, **{task: done.turns[task] for task in back if task in done.turns}},
        starts={one: start for one, start in planned.starts.items() if one in mine},
        taking_part=tuple(stay),
    )
