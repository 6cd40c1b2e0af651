"""The runs of the app that writes a stream, as its control messages name them: which one is heard.

An app that is run anew, with empty state, counts its batches from the start, its tasks may be others, and none of them
has ended. So what was heard of the run before counts no more. An app may also return to an earlier run; then messages
come from a later attempt than before. Inside a run, a later attempt may have other tasks: those of the attempt before
that are gone would be waited for in vain, so what was heard of its tasks counts no more either, and all tasks of the
new attempt say again where they stand (`ControlSender.among`). Must not know what the messages say.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple
from zlib import crc32

_MOST_PAST: Final = 16
"""How many runs are remembered as past. An older one would need a driver that outlived as many runs."""


class WriterRun(NamedTuple):
    """The run that wrote a message, and the attempt in it."""

    name: str
    attempt: int


class WriterTasks(NamedTuple):
    """The tasks that write a stream in one attempt."""

    number: int
    digest: str = ""
    """A digest of their names; empty: the message has none, so that only the number tells them from others."""


@lru_cache(maxsize=256)
def tasks_named(names: tuple[str, ...]) -> WriterTasks:
    """Return these tasks as messages name them. Cached, since each batch of a task asks for the same."""
    return WriterTasks(len(names), f"{crc32(b' '.join(sorted(name.encode() for name in names))):08x}")


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
    tasks: WriterTasks | None = None
    """The tasks of the current run's latest attempt; None: no message has named them, or the plan does."""

    def after(self, run: WriterRun | None, tasks: WriterTasks | None = None) -> "WriterRuns | None":
        """Return the runs after a message of this one, which names these tasks; None if it is not to be heard.

        That is a message of a past run, or of an earlier attempt whose tasks were others. None as `run`: the message
        names none, as the source itself and older releases do, so it is of the current one.
        """
        current = self.current
        if run is None or (run == current and tasks in (None, self.tasks)):
            return self
        if current is not None and run.name == current.name:
            if run.attempt == current.attempt or self.tasks in (None, tasks) or tasks is None:
                return WriterRuns(max(run, current), self.past, self.tasks or tasks)
            return None if run.attempt < current.attempt else WriterRuns(run, self.past, tasks)
        if any(run.name == one.name and run.attempt <= one.attempt for one in self.past):
            return None
        past = [one for one in self.past if one.name != run.name]
        return WriterRuns(run, tuple(past) if current is None else (*past, current)[-_MOST_PAST:], tasks)

    def replaced_by(self, after: "WriterRuns") -> bool:
        """Whether another run has begun with these, or an attempt with other tasks: what was heard is not of it."""
        if self.current is None or after.current is None:
            return False
        other_tasks = self.tasks is not None and after.tasks is not None and self.tasks != after.tasks
        return other_tasks or self.current.name != after.current.name

    def tree(self) -> list[Any]:
        """Return the runs as JSON has them, empty if there are none."""
        return [] if self.current is None else [self.current, self.past, self.tasks]

    @classmethod
    def of_tree(cls, tree: Sequence[Any]) -> "WriterRuns":
        """Return the runs in a tree; raise ValueError or TypeError where there are none in it."""
        if not tree:
            return NO_RUNS
        current, past, *rest = tree
        runs = [WriterRun(*one) for one in (current, *past)]
        tasks = [WriterTasks(*one) for one in rest if one is not None]
        named = all(isinstance(one.name, str) and type(one.attempt) is int for one in runs)
        if not named or not all(type(one.number) is int and isinstance(one.digest, str) for one in tasks):
            message = "a run has no name"
            raise ValueError(message)
        return cls(runs[0], tuple(runs[1:]), tasks[0] if tasks else None)


NO_RUNS: Final = WriterRuns()
