"""Failures in tests: the crash point where a batch dies as if the process were gone, and the errors of a test itself.

Nothing behind the step of a crash happens. `Crashed` must not be a `HoldfastError`: those are handled on the way, and
a dead process handles nothing.
"""

from holdfast.errors import UserActionError
from holdfast.suggest import near_miss
from holdfast_runtime.slot.outputs import WRITE_STEPS
from holdfast_runtime.state.commit import COMMIT_STEPS
from holdfast_runtime.state.durable import COLLECT_STEPS, SNAPSHOT_STEPS
from holdfast_runtime.state.opening import RESTORE_STEPS

DRIVER_STEPS = ("offsets durable", "slots done")
"""What the driver itself does in a batch: it plans and writes down, and behind the slots it notes that all is done."""
ALL_STEPS = (*DRIVER_STEPS, *RESTORE_STEPS, *COMMIT_STEPS, *WRITE_STEPS, *SNAPSHOT_STEPS, *COLLECT_STEPS)


class Crashed(Exception):  # noqa: N818 - it is what happened, not an error
    """The batch died where the test wanted it to."""


class UnknownStepError(UserActionError):
    """There is no such step."""


class CrashPoint:
    """Counts steps, and dies at the one a test has named."""

    def __init__(self) -> None:
        self._step: str | None = None
        self._left = 0

    def arm(self, step: str, after: int) -> None:
        """Die when this step is reached for the so-manieth time."""
        if step not in ALL_STEPS:
            message = f"there is no step {step!r}{near_miss(step, ALL_STEPS)}; all of them: {', '.join(ALL_STEPS)}"
            raise UnknownStepError(message)
        if after < 1:
            message = f"a batch can die at the first or a later {step!r}, not at number {after}"
            raise UnknownStepError(message)
        self._step, self._left = step, after

    def disarm(self) -> None:
        """Go on living."""
        self._step = None

    def reached(self, step: str) -> None:
        """A step is done."""
        if step != self._step:
            return
        self._left -= 1
        if self._left == 0:
            self._step = None
            message = f"died at {step!r}"
            raise Crashed(message)


class TestMisuseError(UserActionError):
    """The test asks for something the driver can't do."""

    __test__ = False


class SparkNeededError(UserActionError):
    """The app has Spark SQL steps, and the test gave no session."""


class FeedError(UserActionError):
    """Rows that are not rows of the stream they were fed into."""
