"""Turns of a batch taken back: what is known of them is gathered, then it is done.

    look at each turn -> decide (`replanning`) -> remove what was decided -> the plan

Done by `holdfast offsets --replan`, and by an attempt whose spec names the batch; both have shut out earlier attempts.
May die anywhere, and then be repeated: before the plan is changed, a run would do what was planned and compute anew
what is removed. Must not be done while a batch runs.
"""

from collections.abc import Callable
from typing import Protocol

from holdfast_runtime.checkpoint.data_dir import folder_name
from holdfast_runtime.checkpoint.offsets import Offsets
from holdfast_runtime.checkpoint.places import Places
from holdfast_runtime.driver.attempt import Attempt
from holdfast_runtime.driver.replanning import Replan, ReplanRefusedError, TurnState, replan
from holdfast_runtime.state.durable import DurableCopy
from holdfast_runtime.state.errors import StoreDiskError
from holdfast_runtime.state.offline import OfflineStore
from holdfast_runtime.state.place import StorePlace, TaskIdentity

REPLAN_STEPS = ("delta removed", "plan changed")


RunKey = tuple[str, str]
"""The app's name and its run's id."""


class PlanLog(Protocol):
    """Where it stands which batch was planned."""

    def take_back(self, planned: Offsets, instead: Offsets | None) -> None:
        """Have this batch planned no more, or only this of it; all of that or nothing, and for good."""


class BatchRollback:
    """The batch of one run that is planned and not done."""

    def __init__(
        self, attempt: Attempt, number: int, places: Places, run: RunKey, at: Callable[[str], None] = lambda _: None
    ) -> None:
        """`attempt` has shut out those before it and taken up the checkpoint; `at` is told each step, for tests."""
        self._attempt, self._epoch, self._places, self._run, self._at = attempt, number, places, run, at

    def decide(self, done: Offsets, planned: Offsets) -> Replan:
        """What would become of it."""
        states = {task: self._state(task, planned.turns[task]) for task in planned.taking_part}
        return replan(done, planned, states, self._attempt.tasks)

    def do(self, planned: Offsets, decided: Replan, log: PlanLog) -> None:
        """Take the turns back. First what was decided: a plan that finds it would take it for its own."""
        for task in decided.taken_back:
            durable, turn = self._durable(task), planned.turns[task]
            for _ in durable.storage.delete([one.name for one in durable.listing().deltas if one.batch == turn]):
                self._at("delta removed")
        log.take_back(planned, decided.instead)
        self._at("plan changed")

    def _state(self, task: str, turn: int) -> TurnState:
        durable = self._durable(task)
        # Before the look: who is left of an earlier attempt sees the fence, and stops before its outputs.
        durable.fence(self._epoch)
        delta = durable.find_delta(turn, self._epoch)
        seen = self._attempt.is_written(task, turn) or self._is_in_state(task, turn, durable)
        if delta is None and seen:
            message = (
                f"{task} has written its batch {turn}, but what it has written is not in "
                f"{durable.storage.directory} any more: put the checkpoint back, or start under a new spec.runId"
            )
            raise ReplanRefusedError(message)
        if delta is None:
            return TurnState.OPEN
        return TurnState.SEEN if seen or not delta.outputs else TurnState.DECIDED

    def _is_in_state(self, task: str, turn: int, durable: DurableCopy) -> bool:
        """Whether state has followed, which it does when outputs are there."""
        if any(one.batch >= turn for one in durable.listing().snapshots):
            return True
        place = StorePlace(self._places.state / folder_name(task), self._identity(task))
        if not place.data_path.exists():
            return False
        try:
            with OfflineStore(place, place.data_path) as store:
                return store.head.batch >= turn
        except StoreDiskError:
            # It is made anew from the durable copy, which has nothing of this turn but its delta.
            return False

    def _durable(self, task: str) -> DurableCopy:
        return DurableCopy(self._places.durable, self._identity(task))

    def _identity(self, task: str) -> TaskIdentity:
        return TaskIdentity(*self._run, task)
