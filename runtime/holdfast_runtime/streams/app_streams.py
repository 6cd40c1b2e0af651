"""An app's streams as the heart sees them: by name, whatever system holds them, and what a host gives to open them.

The batch loop and its slots know streams by this protocol alone, so that they import no system. What a topic takes is
asked once per attempt and travels to every slot with the program. Must not know which systems there are, nor ask them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.generator import Pace
from holdfast_runtime.streams.markers import AttemptSlot, Decided, TaskMarkers, WriteHook, Writes
from holdfast_runtime.streams.modules_beside import ModulesBeside
from holdfast_runtime.streams.records import Marker, OffsetRange, RecordLimit
from holdfast_runtime.streams.stream_codecs import SchemaRecords

ANY_TIME = 2**63 - 1
DEFAULT_AHEAD = 3_600_000
"""How far ahead of its clock a broker takes timestamps where nobody has set it otherwise: milliseconds."""
_MARGIN = 300_000
"""How far a broker's clock may be from this one, and how long a transaction may be tried again: milliseconds."""


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """The limits of one topic."""

    record_bytes: int | None = None
    """Limit of a batch of records as sent; None if unknown."""
    ahead: int = DEFAULT_AHEAD
    """Milliseconds that a timestamp may be ahead of the broker's clock."""
    behind: int = ANY_TIME
    """Milliseconds that it may be behind that clock."""
    lifetime: int | None = None
    """Milliseconds from its timestamp until brokers delete a record, if they take older ones too; None: they don't."""

    def timestamps(self, times: pa.Array, now: int) -> pa.Array:
        """Return the nearest timestamps the topic accepts. A row keeps its own time in its column."""
        lowest = max(
            1, now - self.behind + min(_MARGIN, self.behind)
        )  # for Kafka, 0 is "no time", and negative times are invalid
        highest = min(ANY_TIME, now + self.ahead - min(_MARGIN, self.ahead))
        values = times.to_numpy()
        if not len(values) or (values.min() >= lowest and values.max() <= highest):
            return times
        return pa.array(np.clip(values, lowest, highest))


class RecordAccess(Protocol):
    """All streams of an app, as who decodes records reads them."""

    def fetch(self, offset_range: OffsetRange) -> pa.RecordBatch:
        """Exactly the records of a range, as they are stored."""

    def rows(self, offset_range: OffsetRange) -> pa.RecordBatch | None:
        """The rows of a range where a system has rows rather than records; None: fetch and decode them."""


class StreamAccess(RecordAccess, Protocol):
    """All streams of an app, as a slot reads and writes them."""

    def expect(self, ranges: Sequence[OffsetRange]) -> None:
        """Say which ranges are fetched next, where that makes them come sooner."""

    def write(self, sender: AttemptSlot, writes: Writes, at: WriteHook, decided: Decided) -> None:
        """Write what a slot sends; a task's batch that is there already is left as it is. `at` is told each step."""

    def hold(self, system: str, sender: AttemptSlot, *, anew: bool = False) -> TaskMarkers:
        """Hold a slot's name in a Kafka system: if another process takes it, writing fails, and is not tried again.

        With `anew` it is taken, also if it is held. Return what the slot has committed in this attempt.
        """

    def record_limit(self, stream: str) -> RecordLimit | None:
        """How large a record of a stream may be; None: as large as it likes."""

    def lifetime(self, stream: str) -> int | None:
        """Milliseconds from its timestamp until a record of a stream is deleted; None: not for its age."""

    def in_log(self, stream: str) -> bool:
        """Whether the embedded log holds it."""

    def log_marker(self, partition: StreamPartition, owner: str, task: str) -> Marker | None:
        """The last marker of a task in a partition of the embedded log; None too where another system has it."""


@dataclass(frozen=True, slots=True)
class StreamsEnvironment:
    """The host's resources that the systems need."""

    log: Path | None
    """The directory of the embedded log; None on a cluster, which has many hosts."""
    paces: Mapping[str, Pace]
    """Generator system -> how many rows it has made by when."""
    sync: bool = False
    """Whether an append to the log waits for the disk."""
    secrets: Path | None = None
    """A directory with a subdirectory for each Secret and a file for each of its entries."""
    limits: Mapping[str, Mapping[str, TopicLimits]] = field(default_factory=dict)
    """Kafka system -> topic -> its limits, for topics that are written."""
    schemas: Mapping[str, SchemaRecords] = field(default_factory=dict)
    """Stream -> which schemas its records have, where a registry says so."""
    beside: ModulesBeside = field(default_factory=ModulesBeside)
    """The modules beside the app's file."""
    before: Mapping[str, TaskMarkers] = field(default_factory=dict)
    """Kafka system -> what earlier attempts of the run have written into it."""
