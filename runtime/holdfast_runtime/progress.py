"""The events of a run: values for a screen, a log, JSON, a metrics endpoint or the operator's report.

They lie below the rest of the runtime, because the loop and the driver send them and coordinators listen. Must not know
who listens.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from holdfast.planning.problems import listed
from holdfast.spec.kept_streams import StreamNames


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """An attempt is ready to run batches."""

    app: str
    run: str
    attempt: int
    """1 for the first of the run; a higher number means a restart."""
    tasks: int
    slots: int
    data: str
    spark_ui: str | None
    """Address of Spark's web UI, if it is on."""
    segments: tuple[str, ...]
    """The segments of a slot in order, e.g. `python`, `sql`, `python`."""
    stateful: tuple[str, ...] = ()
    """The steps that keep state by key, and the sides of joins, `matched.left`. For these a row may be late."""
    given_up: tuple[str, ...] = ()
    """State that the run gave up because the app has changed, one sentence each."""
    spark_sql: tuple[str, ...] = ()
    """What only Spark SQL computes, with its step or table: it makes each batch a Spark job."""

    @property
    def why_jobs(self) -> str | None:
        """Why each batch is a Spark job, in one sentence; None if it is none."""
        return f"each batch is a Spark job, because of {listed(self.spark_sql)}" if self.spark_sql else None


class BufferedRows(NamedTuple):
    """Rows of one side of a join that are kept until no partner can come."""

    rows: int
    bytes: int
    """As they are stored."""
    oldest: int | None
    """About when the oldest of them was, in milliseconds of event time; None if there are none."""

    @classmethod
    def of_all(cls, tasks: Collection["BufferedRows"]) -> "BufferedRows":
        """Return what tasks keep together."""
        rows, sizes, times = zip(*tasks, strict=True)
        return cls(sum(rows), sum(sizes), min((time for time in times if time is not None), default=None))


class Freed(NamedTuple):
    """Local stores that were removed because nothing needs them any more: see `state.leftovers`."""

    stores: int = 0
    bytes: int = 0
    """As they took on the disk."""

    def with_more(self, more: "Freed") -> "Freed":
        """Return the sum of both."""
        return Freed(self.stores + more.stores, self.bytes + more.bytes)


@dataclass(frozen=True, slots=True)
class BatchBegun:
    """A batch is planned and runs; for who measures it, as views show what is done."""

    batch: int
    at: int
    """When, milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Progress:
    """One batch is done."""

    batch: int
    at: int
    """When it ended, milliseconds since 1970."""
    attempt: int
    tasks: int
    """How many tasks took part."""
    rows_in: int
    rows_out: int
    """Written to streams."""
    bytes_out: int
    lag: int
    """Records that existed when the batch was planned and are still unread."""
    seconds: float
    """From its plan to its commit."""
    lags: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The same by stream: of each of its partitions, from 0 on."""
    unread_from: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Stream -> partition with unread records -> its watermark, milliseconds of event time, if it has one."""
    phases: Mapping[str, float] = field(default_factory=dict)
    """Phase -> milliseconds: `plan`, `spark`, `open`, `fetch`, `steps`, `write`, `commit`. Those of slots are from the
    slowest slot."""
    watermark: int | None = None
    """The lowest watermark of all tasks, milliseconds of event time; None if there is none yet."""
    watermarks: Mapping[str, int] = field(default_factory=dict)
    """Stream -> its lowest watermark of all tasks, if it has one."""
    held_back: str | None = None
    """What holds the watermark back, one sentence."""
    held_by: str | None = None
    """The other app that is waited for, if it is one."""
    state_bytes: int = 0
    """Size of all local stores."""
    buffered: Mapping[str, BufferedRows] = field(default_factory=dict)
    """Step and side, `matched.left` -> the rows of all tasks that wait there for a partner."""
    loading: Mapping[str, int] = field(default_factory=dict)
    """Table that the app's inputs wait for -> records of its side inputs that are still to be read."""
    incomplete: tuple[str, ...] = ()
    """Tables that lack rows which were read before, or were gone before they could be."""
    unkeyed: Mapping[str, int] = field(default_factory=dict)
    """Side input, or table -> records and rows without a key, which no table keeps."""
    late: Mapping[str, int] = field(default_factory=dict)
    """Step -> rows that were late for it, or lacked the event time it needs."""
    ahead: int = 0
    """Records and watermarks whose event time is farther ahead of the clock than `maxAhead`."""
    first_ahead: str | None = None
    """The first of them, in one sentence."""
    undecoded: int = 0
    """Records that could not be decoded and were skipped or became dead letters."""
    unwritable: int = 0
    """Rows that became dead letters because their records are larger than their stream takes."""
    expired: Mapping[str, int] = field(default_factory=dict)
    """Output stream -> rows with an event time that is older than its topic keeps records."""
    tombstones: int = 0
    """Records whose value is null; they were skipped."""
    failed: Mapping[str, int] = field(default_factory=dict)
    """Step -> rows on which it failed and that became dead letters."""
    misplaced: Mapping[str, int] = field(default_factory=dict)
    """Input stream -> records that a producer put where their key was before the stream grew: order is not certain."""
    restored: tuple[str, ...] = ()
    """Tasks whose state was rebuilt in this batch, with the reason."""
    freed: Freed = field(default_factory=Freed)
    """Local stores that were removed after this batch, because nothing needs them any more."""
    read: Mapping[str, int] = field(default_factory=dict)
    """Stream -> rows read in this batch."""
    streams: Mapping[str, int] = field(default_factory=dict)
    """Output stream -> rows written in this batch."""

    @property
    def farthest_behind(self) -> str | None:
        """The stream partition with the most unread records and how many, `clicks/3: 12`; None if nothing is unread."""
        unread, stream, partition = max(
            ((unread, stream, i) for stream, each in self.lags.items() for i, unread in enumerate(each)),
            default=(0, "", 0),
        )
        return f"{stream}/{partition}: {unread:,}" if unread else None


class EndCause(StrEnum):
    """Why a run ended well."""

    DRAINED = "drained"
    """The run was asked to stop."""
    COMPLETED = "completed"
    """All inputs have ended."""
    IDLE = "idle"
    """Nothing is left to read, and the run was to end then."""
    GROWN = "grown"
    """Inputs have more partitions, which the next attempt reads."""
    ENOUGH = "enough"
    """The given number of batches or seconds is reached."""


@dataclass(frozen=True, slots=True)
class BatchWaiting:
    """An outside system does not answer; the current or next batch waits for it."""

    why: str


@dataclass(frozen=True, slots=True)
class TablesLoading:
    """Tables of files are being loaded beside the batches, or could not be."""

    left: Mapping[str, int]
    """Table that the app's inputs wait for -> about how many records are left to load."""
    problems: Mapping[str, str]
    """Table -> why its files can't be loaded."""


@dataclass(frozen=True, slots=True)
class GrowthRefused:
    """Inputs have more partitions than are read, but the app can't read the new ones."""

    why: str


@dataclass(frozen=True, slots=True)
class ClockJumped:
    """The host's clock was set; the app continues by the time that has really passed."""

    why: str


@dataclass(frozen=True, slots=True)
class RunDraining:
    """The run is to end after the current batch."""


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The run is over; everything is committed."""

    ending: EndCause
    batches: int
    rows_in: int
    rows_out: int
    seconds: float


Event = (
    AttemptStarted
    | BatchBegun
    | Progress
    | BatchWaiting
    | TablesLoading
    | GrowthRefused
    | ClockJumped
    | RunDraining
    | RunEnded
)
Listener = Callable[[Event], None]


def event_under(names: StreamNames, event: Event) -> Event:
    """Return the event of a run by the names that people know streams by."""
    match event:
        case Progress():
            return replace(
                event,
                lags=names.shown(event.lags),
                unread_from=names.shown(event.unread_from),
                watermarks=names.shown(event.watermarks),
                read=names.shown(event.read),
                streams=names.shown(event.streams),
                unkeyed=names.shown(event.unkeyed),
                misplaced=names.shown(event.misplaced),
                held_back=None if event.held_back is None else names.explained(event.held_back),
                first_ahead=None if event.first_ahead is None else names.explained(event.first_ahead),
            )
        case BatchWaiting() | GrowthRefused():
            return replace(event, why=names.explained(event.why))
        case _:
            return event
