"""The runs of the app that writes a stream, as its control messages name them: which one is heard.

An app that is run anew, with empty state, counts its batches from the start, its tasks may be others, and none of them
has ended. So what was heard of the run before counts no more. Must not know what the messages say.
"""

from dataclasses import dataclass
from typing import Final

_MOST_PAST: Final = 16
"""How many runs are remembered as past. An older one would need a driver that outlived as many runs."""


def run_name(app: str, run_id: str, life: str) -> str:
    """Return the name of a run in messages. `life` is new for each checkpoint, also where the run has no new name."""
    return f"{app}/{run_id}/{life}"


def app_of(run: str) -> str:
    """Return the app whose run has this name."""
    return run.partition("/")[0]


@dataclass(frozen=True, slots=True)
class WriterRuns:
    """The runs whose messages came in one partition."""

    current: str | None = None
    """None: no message has named its run."""
    past: tuple[str, ...] = ()
    """Runs that another one has followed."""

    def after(self, run: str | None) -> "WriterRuns | None":
        """Return the runs after a message of this one; None if the message is of a past run, and not to be heard.

        None as `run`: the message names none, as the source itself and older releases do, so it is of the current one.
        """
        if run is None or run == self.current:
            return self
        if run in self.past:
            return None
        return WriterRuns(run, self.past if self.current is None else (*self.past, self.current)[-_MOST_PAST:])

    def replaced_by(self, after: "WriterRuns") -> bool:
        """Whether a new run has begun with these: what was heard before is of another run."""
        return self.current is not None and self.current != after.current


NO_RUNS: Final = WriterRuns()
