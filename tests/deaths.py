"""Where drawn lives die: mostly in a commit, where something could be lost or doubled."""

import random

from holdfast_runtime.state.commit import COMMIT_STEPS
from holdfast_runtime.testing.failures import DRIVER_STEPS, TASK_STEPS

_PLANNED, _DONE = DRIVER_STEPS
_IN_A_COMMIT = (_PLANNED, *COMMIT_STEPS, _DONE)


def drawn_step(draw: random.Random) -> str:
    """Return a step for `crash_at`, of those of every app with state."""
    return draw.choice(_IN_A_COMMIT if draw.random() < 0.8 else TASK_STEPS)
