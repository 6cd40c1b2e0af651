"""Failures in tests: the crash point, where a batch dies as if its process were killed, and errors of the test itself.

Nothing after the step of the crash happens. `Crashed` must not be a `HoldfastError`: the engine handles those, and a
dead process handles nothing.
"""

from holdfast.errors import UserActionError
from holdfast.suggest import near_miss
from holdfast_runtime.slot.outputs import WRITE_STEPS
from holdfast_runtime.state.commit import COMMIT_STEPS
from holdfast_runtime.state.durable.copy import BUNDLE_STEPS, COLLECT_STEPS, SNAPSHOT_STEPS
from holdfast_runtime.state.durable.restore import RESTORE_STEPS
from holdfast_runtime.state.shared.shared_table import SHARED_STEPS

DRIVER_STEPS = ("offsets durable", "slots done")
"""The driver's own steps in a batch: the planned offsets are durable; all slots are done, which is not noted yet."""
TASK_STEPS = (
    *DRIVER_STEPS,
    *RESTORE_STEPS,
    *COMMIT_STEPS,
    *WRITE_STEPS,
    *SNAPSHOT_STEPS,
    *BUNDLE_STEPS,
    *COLLECT_STEPS,
)
"""The steps of every app with state."""
ALL_STEPS = (*TASK_STEPS, *SHARED_STEPS)
"""Those of Broadcast tables too."""


class Crashed(Exception):  # noqa: N818 - it is what happened, not an error
    """The batch crashed at the step that the test named with `crash_at`."""


class UnknownStepError(UserActionError):
    """The test named a step that does not exist, or an impossible count."""


class CrashPoint:
    """Counts steps and raises `Crashed` at the one that a test has named."""

    def __init__(self) -> None:
        self._step: str | None = None
        self._left = 0

    def arm(self, step: str, after: int) -> None:
        """Crash when this step is reached for the `after`-th time."""
        if step not in ALL_STEPS:
            message = f"there is no step {step!r}{near_miss(step, ALL_STEPS)}; all of them: {', '.join(ALL_STEPS)}"
            raise UnknownStepError(message)
        if after < 1:
            message = f"a batch can die at the first or a later {step!r}, not at number {after}"
            raise UnknownStepError(message)
        self._step, self._left = step, after

    def disarm(self) -> None:
        """Crash nowhere."""
        self._step = None

    def reached(self, step: str) -> None:
        """Count a step that a batch has reached; raise `Crashed` if it is the one."""
        if step != self._step:
            return
        self._left -= 1
        if self._left == 0:
            self._step = None
            message = f"died at {step!r}"
            raise Crashed(message)


class TestMisuseError(UserActionError):
    """The test asks for something that the driver can't do."""

    __test__ = False


class SparkNeededError(UserActionError):
    """Spark SQL computes a part of the app, but the test gave no Spark session."""


class FeedError(UserActionError):
    """Rows that do not fit the schema of the stream they were fed into."""
