"""The events of a run: values for a screen, a log, JSON, a metrics endpoint or the operator's report.

They lie below everything else of the runtime, for the loop and the driver send them and coordinators listen. Must not
know who listens.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """An attempt is ready to run batches."""

    app: str
    run: str
    attempt: int
    """1 for the first of the run; more: it was restarted."""
    tasks: int
    slots: int
    data: str
    spark_ui: str | None
    """Address of Spark's own pages, if they are on."""
    segments: tuple[str, ...]
    """What a slot does, e.g. `python`, `sql`, `python`."""
    given_up: tuple[str, ...] = ()
    """What the run left behind as it went on with a changed app, a sentence for each."""


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
    """Records that were there when the batch was planned and are still unread."""
    seconds: float
    """From its plan to its commit."""
    phases: Mapping[str, float] = field(default_factory=dict)
    """Phase -> milliseconds: `plan`, `spark`, `open`, `fetch`, `steps`, `write`, `commit`; slots' phases of the slowest
    slot."""
    watermark: int | None = None
    """The lowest of all tasks, milliseconds of event time; None: none yet."""
    held_back: str | None = None
    """What keeps the watermark where it is, a sentence."""
    state_bytes: int = 0
    """Of all local stores."""
    late: int = 0
    ahead: int = 0
    """Records and watermarks whose event time is farther ahead of the clock than `maxAhead`."""
    first_ahead: str | None = None
    """The first of them, a sentence."""
    undecoded: int = 0
    """Records that could not be decoded and were skipped or became dead letters."""
    unwritable: int = 0
    """Rows whose records are larger than their stream takes, and became dead letters."""
    tombstones: int = 0
    """Records whose value is null: nothing to a step, so they were skipped."""
    failed: Mapping[str, int] = field(default_factory=dict)
    """Step -> rows it failed on, which became dead letters."""
    misplaced: Mapping[str, int] = field(default_factory=dict)
    """Input stream -> records that a producer put where their key was before the stream grew: their order is open."""
    restored: tuple[str, ...] = ()
    """Tasks whose state was rebuilt in this batch, with the reason."""
    streams: Mapping[str, int] = field(default_factory=dict)
    """Output stream -> rows written in this batch."""


class EndCause(StrEnum):
    """Why a run ended well."""

    DRAINED = "drained"
    """It was asked to stop."""
    COMPLETED = "completed"
    """All inputs have ended."""
    IDLE = "idle"
    """Nothing is left to read, and that is what was waited for."""
    GROWN = "grown"
    """Inputs have more partitions; the next attempt reads them."""
    ENOUGH = "enough"
    """The number of batches or the time it was given is used up."""


@dataclass(frozen=True, slots=True)
class BatchWaiting:
    """Something outside does not answer; the batch at hand, or the next one, waits for it."""

    why: str


@dataclass(frozen=True, slots=True)
class GrowthRefused:
    """Inputs have more partitions than are read, and the app can't go on with them."""

    why: str


@dataclass(frozen=True, slots=True)
class ClockJumped:
    """The host's clock was set; the app goes on by the time that has really passed."""

    why: str


@dataclass(frozen=True, slots=True)
class RunDraining:
    """The batch at hand is finished, then the run ends."""


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The run is over; everything is committed."""

    ending: EndCause
    batches: int
    rows_in: int
    rows_out: int
    seconds: float


Event = AttemptStarted | Progress | BatchWaiting | GrowthRefused | ClockJumped | RunDraining | RunEnded
Listener = Callable[[Event], None]
