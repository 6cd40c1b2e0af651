"""Reports of slots to the driver, and the notes about a task that one segment of a slot passes to the next.

A slot's answer is one text: Spark carries nothing else out of the prepared job. It holds the result of each task's
turn, times by phase, and errors that keep their type. Notes travel beside the rows, between processes of one Spark
task, and must not outlive the batch. Phases are for people; no decision may depend on them. Must not decide what
follows.
"""

import json
import pickle
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, NoReturn

import pyarrow as pa

from holdfast.errors import AwayError, HoldfastError, RetrySoonError, UserActionError, WorldChangeError
from holdfast.spec.kept_streams import StreamNames
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.progress import BufferedRows, Freed
from holdfast_runtime.slot.clock.clock_messages import PendingMessages
from holdfast_runtime.steps.context import StepClock
from holdfast_runtime.steps.tables.kept_versions import DatasetEnd

_LISTED = 8
"""How many tasks a message names."""


@dataclass(slots=True)
class TaskReport:
    """The result of one task's turn."""

    task: str
    rows_in: dict[str, int] = field(default_factory=dict)
    """Stream -> rows read and decoded."""
    bytes_in: int = 0
    read: dict[str, int] = field(default_factory=dict)
    """Stream -> records read."""
    bytes_read: dict[str, int] = field(default_factory=dict)
    """Stream -> their bytes."""
    rows_out: dict[str, int] = field(default_factory=dict)
    """Stream -> rows written."""
    bytes_out: int = 0
    late: dict[str, int] = field(default_factory=dict)
    """Step -> rows that were late for it, or lacked the event time it needs."""
    ahead: int = 0
    """Records and watermarks whose event time is farther ahead of the clock than `maxAhead`."""
    first_ahead: str | None = None
    """The first of them, in one sentence."""
    undecoded: int = 0
    unwritable: int = 0
    expired: dict[str, int] = field(default_factory=dict)
    """Stream -> rows written with an event time that is older than its topic keeps records."""
    tombstones: int = 0
    """Records of main inputs whose value is null."""
    unkeyed: dict[str, int] = field(default_factory=dict)
    """Side input, or table -> records and rows without a key, which no table keeps."""
    misplaced: dict[str, int] = field(default_factory=dict)
    """Stream -> records whose key belongs to another partition since the stream grew."""
    failed: dict[str, int] = field(default_factory=dict)
    """Step -> rows on which it failed and that became dead letters."""
    wake: int | None = None
    """The batch clock at which the task wants to take part even without records."""
    watermark: int | None = None
    stream_marks: dict[str, int | None] = field(default_factory=dict)
    """Stream -> its watermark in this task."""
    held_back: str | None = None
    held_by: str | None = None
    """The other app that is waited for, if it is one."""
    ended: bool = False
    """All inputs of the task have ended."""
    state_bytes: int = 0
    buffered: dict[str, BufferedRows] = field(default_factory=dict)
    """Step and side, `matched.left` -> the rows that wait there for a partner."""
    unjoined: dict[str, int] = field(default_factory=dict)
    """Step -> rows that it has put aside, because they make too many pairs for one commit."""
    restored: str | None = None
    """Why the local store was not used and had to be restored; None if it was used."""
    replayed: bool = False
    """Outputs and state came from the delta of an earlier try."""

    def under(self, names: StreamNames) -> "TaskReport":
        """Return the report by the names that people know streams by."""
        return replace(
            self,
            rows_in=names.shown(self.rows_in),
            read=names.shown(self.read),
            bytes_read=names.shown(self.bytes_read),
            rows_out=names.shown(self.rows_out),
            expired=names.shown(self.expired),
            unkeyed=names.shown(self.unkeyed),
            misplaced=names.shown(self.misplaced),
            stream_marks=names.shown(self.stream_marks),
        )

    def note_late(self, step: str, rows: int) -> None:
        """Count rows that were late for a step."""
        if rows:
            self.late[step] = self.late.get(step, 0) + rows

    def note_unkeyed(self, name: str, rows: int) -> None:
        """Count records of a side input, or rows for a table, that have no key."""
        if rows:
            self.unkeyed[name] = self.unkeyed.get(name, 0) + rows

    def add_reading(self, other: "TaskReport") -> None:
        """Add what another thread has read for this task."""
        self.bytes_in += other.bytes_in
        self.undecoded += other.undecoded
        for counts, other_counts in (
            (self.rows_in, other.rows_in),
            (self.read, other.read),
            (self.bytes_read, other.bytes_read),
            (self.unkeyed, other.unkeyed),
            (self.misplaced, other.misplaced),
        ):
            for name, number in other_counts.items():
                counts[name] = counts.get(name, 0) + number

    def note_ahead(self, sentences: Sequence[str]) -> None:
        """Count records or watermarks that are too far ahead, given as one sentence each."""
        self.ahead += len(sentences)
        self.first_ahead = self.first_ahead or next(iter(sentences), None)


_NOTHING = {
    item.name: item.default_factory() if item.default_factory is not MISSING else item.default
    for item in fields(TaskReport)
}
"""Field -> what it holds if nothing was reported."""


@dataclass(frozen=True, slots=True)
class SlotReport:
    """The result of one slot in a batch."""

    tasks: tuple[TaskReport, ...]
    phases: Mapping[str, float]
    """Phase -> milliseconds."""
    freed: Freed = field(default_factory=Freed)
    """The leftover local stores that the slot has removed from its location."""

    def text(self) -> str:
        """Return the report as JSON, without what is as in a turn that did nothing."""
        tasks = [
            {name: reported for name, nothing in _NOTHING.items() if (reported := getattr(task, name)) != nothing}
            for task in self.tasks
        ]
        return json.dumps({"tasks": tasks, "phases": dict(self.phases), "freed": self.freed})


_WAYS_OUT: tuple[tuple[str, type[HoldfastError]], ...] = (
    ("user", UserActionError),
    ("world", WorldChangeError),
    ("away", AwayError),
    ("retry", RetrySoonError),
    ("stop", HoldfastError),
)


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that a slot reports to the driver."""

    way_out: str
    message: str
    code: str

    @classmethod
    def of(cls, error: HoldfastError, tasks: str) -> "Failure":
        """Return the failure for an error; `tasks`: the task or tasks in which it was raised."""
        way_out = next(name for name, kind in _WAYS_OUT if isinstance(error, kind))
        return cls(way_out, f"{tasks}: {error}", error.code)

    def text(self) -> str:
        """Return the failure as JSON."""
        return json.dumps({"wayOut": self.way_out, "message": self.message, "code": self.code})

    def throw(self, committed: Sequence[str]) -> NoReturn:
        """Raise the error in its type; the message names tasks of other slots that have committed the batch."""
        kind = dict(_WAYS_OUT)[self.way_out]
        retried = issubclass(kind, RetrySoonError)
        raise kind(
            self.message if retried or not committed else f"{self.message}\n{_staying(committed)}", code=self.code
        )


def read_reports(texts: list[str]) -> tuple[SlotReport, ...]:
    """Return the reports of all slots; if any failed, raise the gravest failure."""
    trees = [json.loads(text) for text in texts]
    committed = [task["task"] for tree in trees for task in tree.get("tasks", ())]
    failures = [Failure(tree["wayOut"], tree["message"], tree["code"]) for tree in trees if "wayOut" in tree]
    for name in ("stop", "user", "world", "away", "retry"):
        for failure in failures:
            if failure.way_out == name:
                failure.throw(committed)
    return tuple(
        SlotReport(tuple(_task(task) for task in tree["tasks"]), tree["phases"], Freed(*tree["freed"]))
        for tree in trees
    )


def _task(tree: dict[str, Any]) -> TaskReport:
    if "buffered" in tree:
        tree["buffered"] = {side: BufferedRows(*rows) for side, rows in tree["buffered"].items()}
    return TaskReport(**tree)


def _staying(committed: Sequence[str]) -> str:
    more = f" and {len(committed) - _LISTED} more" if len(committed) > _LISTED else ""
    return (
        f"Other slots have committed their part of this batch, and it stays: {', '.join(committed[:_LISTED])}{more}. "
        f"The next run computes the rest"
    )


class PhaseTimes:
    """Milliseconds per phase, summed up."""

    def __init__(self) -> None:
        self._spent: dict[str, float] = {}
        self._inner = 0.0

    @contextmanager
    def measured(self, name: str) -> Iterator[None]:
        """Count the time of the block for this phase, and not for a phase around it."""
        began, outer = time.perf_counter(), self._inner
        self._inner = 0.0
        try:
            yield
        finally:
            whole = (time.perf_counter() - began) * 1000
            self.add({name: whole - self._inner})
            self._inner = outer + whole

    def add(self, spent: Mapping[str, float]) -> None:
        """Add times that were measured elsewhere."""
        for name, milliseconds in spent.items():
            self._spent[name] = self._spent.get(name, 0.0) + milliseconds

    def taken(self) -> dict[str, float]:
        """Return the times since the last call."""
        spent, self._spent = self._spent, {}
        return spent


TableChanges = Sequence[tuple[bytes, bytes | None]]


@dataclass(slots=True)
class TurnNote:
    """What is known of a task's turn so far."""

    report: TaskReport
    decided: bool = False
    """An earlier try has written the delta of this turn, so nothing is computed."""
    failure: Failure | None = None
    changes: dict[str, TableChanges] = field(default_factory=dict)
    """State table -> the changes that steps made in it."""
    clocks: Mapping[str, StepClock] = field(default_factory=dict)
    """Step -> its event time in this turn."""
    unfired: dict[str, int] = field(default_factory=dict)
    """Step -> the event time from which on what is due of it follows with the next batches, in milliseconds."""
    pending_messages: PendingMessages | None = None
    """The messages that follow the rows, before it is known which timers have not fired."""
    control_messages: Sequence[tuple[str, tuple[int, ...], bytes]] = ()
    """Control messages to write: stream, partitions, message."""
    letters: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)
    """Dead letter stream -> the dead letters of this turn."""
    phases: dict[str, float] = field(default_factory=dict)
    generations: Mapping[str, int] = field(default_factory=dict)
    """Table with side inputs -> its generation."""
    dataset_ends: Mapping[StreamPartition, Sequence[DatasetEnd]] = field(default_factory=dict)
    """Partition of a side input -> the ends of data sets in it."""
    quiet: bool = False
    """Whether only tables are fed from side inputs, and no other step runs."""
    now: int = 0
    """The batch clock."""
    latest: dict[str, int] = field(default_factory=dict)
    """Step that gave rows their event times -> the latest that is believed, in milliseconds, rounded down."""

    def add_letters(self, stream: str, letters: pa.RecordBatch) -> None:
        """Add dead letters of this turn to those of a stream."""
        self.letters.setdefault(stream, []).append(letters)

    def put_aside(self, step: str, stream: str, letters: pa.RecordBatch) -> None:
        """Add dead letters of rows on which a step failed, and count them."""
        self.add_letters(stream, letters)
        self.report.failed[step] = self.report.failed.get(step, 0) + letters.num_rows

    def packed(self) -> bytes:
        """Return the note as bytes."""
        return pickle.dumps(self, protocol=5)

    @classmethod
    def unpacked(cls, notes: Sequence[bytes]) -> "TurnNote":
        """Return the one note that came with a task's rows."""
        (only,) = notes
        note = pickle.loads(only)  # noqa: S301 - from the process before this one in the same Spark task
        assert isinstance(note, cls)  # noqa: S101
        return note
