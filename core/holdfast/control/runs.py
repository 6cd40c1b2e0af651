"""The runs of the app that writes a stream, as its control messages name them: which one is heard.

An app that is run anew, with empty state, counts its batches from the start, its tasks may be others, and none of them
has ended. So what was heard of the run before counts no more. An app may also return to an earlier run; then messages
come from a later attempt than before. Must not know what the messages say.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

_MOST_PAST: Final = 16
"""How many runs are remembered as past. An older one would need a driver that outlived as many runs."""


class WriterRun(NamedTuple):
    """The run that wrote a message, and the attempt in it."""

    name: str
    attempt: int


def run_name(app: str, run_id: str, life: str) -> str:
    """Return the name of a run in messages. `life` is new for each checkpoint, also where the run has no new name."""
    return f"{app}/{run_id}/{life}"


def app_of(run: WriterRun) -> str:
    """Return the app whose run this is."""
    return run.name.partition("/")[0]


@dataclass(frozen=True, slots=True)
class WriterRuns:
    """The runs whose messages came in one partition, each with its latest attempt."""

    current: WriterRun | None = None
    """None: no message has named its run."""
    past: tuple[WriterRun, ...] = ()
    """Runs that another one has followed."""

    def after(self, run: WriterRun | None) -> "WriterRuns | None":
        """Return the runs after a message of this one; None if the message is of a past run, and not to be heard.

        None as `run`: the message names none, as the source itself and older releases do, so it is of the current one.
        """
        current = self.current
        if run is None or run == current:
            return self
        if current is not None and run.name == current.name:
            return WriterRuns(run, self.past) if run.attempt > current.attempt else self
        if any(run.name == one.name and run.attempt <= one.attempt for one in self.past):
            return None
        past = [one for one in self.past if one.name != run.name]
        return WriterRuns(run, tuple(past) if current is None else (*past, current)[-_MOST_PAST:])

    def replaced_by(self, after: "WriterRuns") -> bool:
        """Whether another run has begun with these: what was heard before is not of it."""
        return self.current is not None and after.current is not None and self.current.name != after.current.name


NO_RUNS: Final = WriterRuns()
