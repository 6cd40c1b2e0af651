"""Reports of slots to the driver: what became of each task's turn, where the time went, errors that keep their type.

A slot's answer is one text: Spark carries nothing else out of the prepared job. Phases are for people; nothing may be
decided by them. Must not decide what follows.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import NoReturn

from holdfast.errors import AwayError, HoldfastError, RetrySoonError, UserActionError, WorldChangeError

_LISTED = 8
"""So many tasks are named in a message."""


@dataclass(slots=True)
class TaskReport:
    """What became of one task's turn."""

    task: str
    rows_in: int = 0
    bytes_in: int = 0
    read: dict[str, int] = field(default_factory=dict)
    """Stream -> records read."""
    bytes_read: dict[str, int] = field(default_factory=dict)
    """Stream -> their bytes."""
    rows_out: dict[str, int] = field(default_factory=dict)
    """Stream -> rows written."""
    bytes_out: int = 0
    late: int = 0
    ahead: int = 0
    """Records and watermarks whose event time is farther ahead of the clock than can be true."""
    first_ahead: str | None = None
    """The first of them, in a sentence."""
    undecoded: int = 0
    unwritable: int = 0
    tombstones: int = 0
    """Records whose value is null."""
    misplaced: dict[str, int] = field(default_factory=dict)
    """Stream -> records whose key belongs to another partition since the stream has grown."""
    failed: dict[str, int] = field(default_factory=dict)
    """Step -> dead letters it has written, of rows it failed on."""
    wake: int | None = None
    """When it wants to take part although nothing is there to read."""
    watermark: int | None = None
    held_back: str | None = None
    ended: bool = False
    """Nothing more will come to it."""
    state_bytes: int = 0
    restored: str | None = None
    """Why its local state was not used, if it was not."""
    replayed: bool = False
    """Its outputs and state came from what an earlier try had written."""

    def note_ahead(self, said: Sequence[str]) -> None:
        """More of what is too far ahead, in a sentence each."""
        self.ahead += len(said)
        self.first_ahead = self.first_ahead or next(iter(said), None)


@dataclass(frozen=True, slots=True)
class SlotReport:
    """What one slot did in a batch."""

    tasks: tuple[TaskReport, ...]
    phases: Mapping[str, float]
    """Phase -> milliseconds."""

    def text(self) -> str:
        """As JSON."""
        return json.dumps({"tasks": [asdict(task) for task in self.tasks], "phases": dict(self.phases)})


class SlotUserError(UserActionError):
    """A slot met something that only a user can cure."""


class SlotWorldError(WorldChangeError):
    """A slot met something that has to change outside."""


class SlotRetryError(RetrySoonError):
    """A slot lost a race; the batch can be run again as it is."""


class SlotWaitsError(AwayError):
    """A slot waited for something outside; the batch can be run again as it is."""


class SlotStoppedError(HoldfastError):
    """A slot may not go on: a newer attempt is at work, or Holdfast itself is wrong."""


_WAYS_OUT: tuple[tuple[str, type[HoldfastError], type[HoldfastError]], ...] = (
    ("user", UserActionError, SlotUserError),
    ("world", WorldChangeError, SlotWorldError),
    ("away", AwayError, SlotWaitsError),
    ("retry", RetrySoonError, SlotRetryError),
    ("stop", HoldfastError, SlotStoppedError),
)


@dataclass(frozen=True, slots=True)
class Failure:
    """An error on its way to the driver."""

    way_out: str
    message: str

    @classmethod
    def of(cls, error: HoldfastError, where: str) -> "Failure":
        """What went wrong in a task."""
        way_out = next(name for name, kind, _ in _WAYS_OUT if isinstance(error, kind))
        return cls(way_out, f"{where}: {error}")

    def text(self) -> str:
        """As JSON."""
        return json.dumps({"wayOut": self.way_out, "message": self.message})

    def throw(self, committed: Sequence[str]) -> NoReturn:
        """Raise it as what it is, with the tasks of other slots that have committed the batch."""
        kind = next(again for name, _, again in _WAYS_OUT if name == self.way_out)
        again = issubclass(kind, RetrySoonError | AwayError)
        raise kind(self.message if again or not committed else f"{self.message}\n{_staying(committed)}")


def read_reports(texts: list[str]) -> tuple[SlotReport, ...]:
    """The reports of all slots; raises what failed in any of them, the gravest first."""
    trees = [json.loads(text) for text in texts]
    committed = [task["task"] for tree in trees for task in tree.get("tasks", ())]
    failures = [Failure(tree["wayOut"], tree["message"]) for tree in trees if "wayOut" in tree]
    for name in ("stop", "user", "world", "away", "retry"):
        for failure in failures:
            if failure.way_out == name:
                failure.throw(committed)
    return tuple(SlotReport(tuple(TaskReport(**one) for one in tree["tasks"]), tree["phases"]) for tree in trees)


def _staying(committed: Sequence[str]) -> str:
    more = f" and {len(committed) - _LISTED} more" if len(committed) > _LISTED else ""
    return (
        f"other slots have committed their part of this batch, which stays as it is: "
        f"{', '.join(committed[:_LISTED])}{more}; the next run computes the others"
    )


class PhaseTimes:
    """Milliseconds by name, added up."""

    def __init__(self) -> None:
        self._spent: dict[str, float] = {}
        self._inner = 0.0

    @contextmanager
    def measured(self, name: str) -> Iterator[None]:
        """Count what happens inside for this phase, and for no other one around it."""
        began, outer = time.perf_counter(), self._inner
        self._inner = 0.0
        try:
            yield
        finally:
            whole = (time.perf_counter() - began) * 1000
            self.add({name: whole - self._inner})
            self._inner = outer + whole

    def add(self, spent: Mapping[str, float]) -> None:
        """Add what was measured elsewhere."""
        for name, milliseconds in spent.items():
            self._spent[name] = self._spent.get(name, 0.0) + milliseconds

    def taken(self) -> dict[str, float]:
        """What was spent since the last call."""
        spent, self._spent = self._spent, {}
        return spent
