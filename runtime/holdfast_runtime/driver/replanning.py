"""Replanning of a batch that is planned but not done: which tasks' turns can be taken back, and taking them back.

A turn whose outputs may be visible is finished as it was decided: anything else would lose or double rows. Other turns
are taken back: nobody has seen them, and their state is still the one before. `replan` is the pure decision;
`BatchRollback` examines each turn, calls `replan`, removes the deltas, then changes the plan. Used by `holdfast offsets
--replan`, and by an attempt whose spec names the batch; both have fenced off earlier attempts. May be killed anywhere
and repeated: until the plan is changed, a run does what was planned and computes removed deltas again. Must not run
while a batch does.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

from holdfast.errors import UserActionError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.checkpoint.directories import RunPaths, directory_name
from holdfast_runtime.checkpoint.offsets import Offsets
from holdfast_runtime.driver.attempt import Attempt
from holdfast_runtime.slot.slot_transaction import markers_of
from holdfast_runtime.state.durable.copy import DurableCopy
from holdfast_runtime.state.errors import StoreDiskError
from holdfast_runtime.state.local_disk import on_local_disk
from holdfast_runtime.state.store.directory import StoreDirectory, TaskIdentity
from holdfast_runtime.state.store.offline import OfflineStore

Inputs = Mapping[str, Sequence[StreamPartition]]
"""Task -> partitions that it reads."""


class ReplanRefusedError(UserActionError):
    """The batch can't be replanned, or need not be."""


class AllWrittenError(ReplanRefusedError):
    """Everything that the batch does is written; the batch only has to be marked as done."""


class TurnState(Enum):
    """How far a task has come in a batch."""

    OPEN = "not decided"
    DECIDED = "decided, not written"
    """Its delta is written and would be used as it is, but nothing of it is visible yet."""
    SEEN = "written"
    """Its outputs may be visible, or it has none; its state may be committed."""


@dataclass(frozen=True, slots=True)
class Replan:
    """The decision about a batch."""

    batch: int
    states: Mapping[str, TurnState]
    """Task of the batch -> how far its turn has come."""
    instead: Offsets | None
    """The batch that replaces it, with only the tasks that stay; None if no task stays."""

    @property
    def taken_back(self) -> tuple[str, ...]:
        """The tasks whose turns are replanned."""
        return tuple(task for task, state in self.states.items() if state is not TurnState.SEEN)


def replan(done: Offsets, planned: Offsets, states: Mapping[str, TurnState], inputs: Inputs) -> Replan:
    """Decide about the batch that leads from `done` to `planned`; raise `ReplanRefusedError` if that is impossible."""
    if unknown := sorted(set(planned.taking_part) - inputs.keys()):
        message = (
            f"batch {planned.batch} was planned for {', '.join(unknown)}, which the app does not have any more. "
            "Replan it with the spec that it was planned with, then change the spec"
        )
        raise ReplanRefusedError(message)
    stay = tuple(task for task in planned.taking_part if states[task] is TurnState.SEEN)
    back = tuple(task for task in planned.taking_part if task not in stay)
    if not back:
        message = (
            f"everything of batch {planned.batch} is written already. Run the app, which then marks it as done: "
            "holdfast run --batches 1"
        )
        raise AllWrittenError(message)
    turn_states = {task: states[task] for task in planned.taking_part}
    return Replan(planned.batch, turn_states, _reduced(done, planned, stay, back, inputs) if stay else None)


def _reduced(done: Offsets, planned: Offsets, stay: Sequence[str], back: Sequence[str], inputs: Inputs) -> Offsets:
    """Return the batch without the tasks whose turns are taken back."""
    back_inputs, stay_inputs = (
        {partition for task in tasks for partition in inputs[task]} & planned.starts.keys() for tasks in (back, stay)
    )
    if shared := sorted(back_inputs & stay_inputs):
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
        positions={**planned.positions, **{partition: planned.starts[partition] for partition in back_inputs}},
        turns={**turns, **{task: done.turns[task] for task in back if task in done.turns}},
        starts={partition: start for partition, start in planned.starts.items() if partition in stay_inputs},
        taking_part=tuple(stay),
    )


REPLAN_STEPS = ("delta removed", "plan changed")


RunKey = tuple[str, str]
"""The app's name and its run's id."""


class PlanLog(Protocol):
    """The log that says which batch is planned."""

    def take_back(self, planned: Offsets, instead: Offsets | None) -> None:
        """Remove the plan of this batch, or replace it by `instead`; atomically and durably."""


class BatchRollback:
    """Takes back turns of the batch of one run that is planned but not done."""

    def __init__(
        self,
        attempt: Attempt,
        number: int,
        paths: RunPaths,
        run: RunKey,
        reached: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`attempt` has fenced off earlier ones and taken up the checkpoint.

        `reached` is called at each step, for tests.
        """
        self._attempt, self._epoch, self._paths, self._run, self._at = attempt, number, paths, run, reached

    def decide(self, done: Offsets, planned: Offsets) -> Replan:
        """Return the decision, without acting on it."""
        states = {task: self._state(task, planned.turns[task]) for task in planned.taking_part}
        return replan(done, planned, states, self._attempt.tasks)

    def do(self, planned: Offsets, decided: Replan, log: PlanLog) -> None:
        """Take the turns back. Deltas are removed first: the new plan would take one it finds for its own."""
        for task in decided.taken_back:
            durable, turn = self._durable(task), planned.turns[task]
            for _ in durable.storage.delete([delta.name for delta in durable.listing().deltas if delta.batch == turn]):
                self._at("delta removed")
        log.take_back(planned, decided.instead)
        self._at("plan changed")

    def _state(self, task: str, turn: int) -> TurnState:
        durable = self._durable(task)
        # Fence before looking: a process left of an earlier attempt then stops before it writes outputs.
        durable.fence(self._epoch)
        stored = durable.find_delta(turn, self._epoch)
        written = self._attempt.is_written(task, turn) or self._is_in_state(task, turn, durable)
        if stored is None and written:
            message = (
                f"{task} has written its batch {turn}, but the delta of that batch is missing in "
                f"{durable.storage.directory}. Put the checkpoint back, or start under a new spec.runId"
            )
            raise ReplanRefusedError(message)
        if stored is None:
            return TurnState.OPEN
        delta = stored.delta
        if delta.withheld is not None and not written:
            markers_of(delta, self._attempt.kafka_markers)
            return TurnState.OPEN
        return TurnState.SEEN if written or not delta.outputs else TurnState.DECIDED

    def _is_in_state(self, task: str, turn: int, durable: DurableCopy) -> bool:
        """Return whether the turn is in the task's state, which is committed after the outputs."""
        listing = durable.listing()
        if any(named.batch >= turn for named in (*listing.snapshots, *listing.bundles)):
            return True
        store_directory = StoreDirectory(self._paths.state / directory_name(task), self._identity(task))
        with on_local_disk(f"the state of {store_directory.identity}", store_directory.path):
            if not store_directory.data_path.exists():
                return False
        try:
            with OfflineStore(store_directory, store_directory.data_path) as store:
                return store.head.batch >= turn
        except StoreDiskError:
            # The store will be restored from the durable copy, which has nothing of this turn but its delta.
            return False

    def _durable(self, task: str) -> DurableCopy:
        return DurableCopy(self._paths.durable, self._identity(task))

    def _identity(self, task: str) -> TaskIdentity:
        return TaskIdentity(*self._run, task)
