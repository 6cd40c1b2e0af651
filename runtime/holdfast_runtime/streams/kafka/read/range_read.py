"""One range being read: how far it is, when it is complete, when to stop hoping, and the batch it becomes.

The same for all fetchers. Headers, which few records have, are a column only where some have them. Time comes in
from outside. Must not talk to a broker but by the one question it is given.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from holdfast.errors import RetrySoonError, WorldChangeError
from holdfast_runtime.streams.kafka.client.connection import ConnectionState
from holdfast_runtime.streams.kafka.client.errors import (
    END_OF_PARTITION,
    KafkaForbiddenError,
    is_about_offset,
    is_passing,
    is_unknown,
    trouble,
)
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings
from holdfast_runtime.streams.records import (
    FETCHED,
    OffsetBounds,
    OffsetNotWrittenError,
    OffsetRange,
    StreamMissingError,
    check_range,
    joined,
)

HEADERS = pa.field("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
"""The last column of a batch in which at least one record has headers; null for those that have none."""
WITH_HEADERS = FETCHED.append(HEADERS)
MOST_BYTES = 2**31 - 1
"""What one column of a batch can hold: its ends have 32 bits."""


def alike(parts: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Parts of a range with equal columns: if one has headers, all have that column."""
    if all(part.num_columns == len(FETCHED) for part in parts):
        return parts
    return [
        part
        if part.num_columns > len(FETCHED)
        else pa.RecordBatch.from_arrays([*part.columns, pa.nulls(part.num_rows, HEADERS.type)], schema=WITH_HEADERS)
        for part in parts
    ]


_LOOKS = 0.25
"""Seconds between two questions for the bounds of a partition in doubt."""
_SUSPECT = 1.0
"""Seconds of silence after which a partition is in doubt. The client alone would not say that there is none."""


@dataclass(frozen=True, slots=True)
class FetchPatience:
    """How long to hope, in seconds."""

    silence: float = 30.0
    """Without any progress of a range."""
    doubt: float = 5.0
    """While a partition seems to end too early, or not to be there: brokers learn of a change one after the other."""


class RangeRead:
    """A range and what of it is there."""

    def __init__(
        self,
        settings: KafkaSettings,
        wanted: OffsetRange,
        limits: FetchPatience,
        said: ConnectionState,
        bounds: Callable[[], OffsetBounds],
        now: Callable[[], float],
    ) -> None:
        self.wanted, self.next = wanted, wanted.start
        self.restart = False
        """The client has given the partition up; it must be told again from where to read."""
        self._settings, self._limits, self._said, self._bounds, self._now = settings, limits, said, bounds, now
        self._parts: list[pa.RecordBatch] = []
        self._size = 0
        self._moved = now()
        self._doubted = False
        self._looked: float | None = None
        self._refused: float | None = None

    @property
    def complete(self) -> bool:
        """Whether all records of the range are here."""
        return self.next >= self.wanted.end

    def add(self, records: pa.RecordBatch) -> None:
        """The next records."""
        self._parts.append(records)
        self._size += records.nbytes
        if self._size > MOST_BYTES:
            joined(self._parts, self.wanted)  # refuses, before more is fetched
        self.reached(records.column(0)[-1].as_py() + 1)

    def reached(self, offset: int) -> None:
        """There is nothing more below an offset."""
        if offset > self.next:
            self.next, self._moved = min(offset, self.wanted.end), self._now()
            self._doubted, self._refused = False, None
            self._said.answered()

    def told(self, code: int, text: str, offset: int) -> None:
        """The client said something about the partition; raise where it can't go on by itself."""
        if code == END_OF_PARTITION:
            self._said.answered()
            self.reached(offset)
            if not self.complete:
                self._doubted = True
        elif is_about_offset(code) or is_unknown(code):
            self._doubted = self.restart = True
        elif is_passing(code):
            self._said.heard(code, text)
        else:
            raise trouble(code, self._what(), self._settings.without_values(text))

    def check(self) -> None:
        """Called while nothing comes: look what there is of a partition in doubt; raise when there is no hope."""
        self._said.check()
        now = self._now()
        silent = now - self._moved
        if (self._doubted or silent >= _SUSPECT) and (self._looked is None or now - self._looked >= _LOOKS):
            self._look()
            self._looked = self._now()
        if silent >= self._limits.silence:
            what = f"{self.wanted.partition} from offset {self.next} on"
            raise self._said.silent(what, self._limits.silence)

    def records(self) -> pa.RecordBatch:
        """All of them, as `FETCHED`, with a column of headers if one has some."""
        return joined(alike(self._parts), self.wanted)

    def _look(self) -> None:
        """Raise what is refused for as long as doubt may last; what is gone is gone at once."""
        try:
            check_range(self.wanted._replace(start=self.next), self._bounds())
        except (OffsetNotWrittenError, StreamMissingError, KafkaForbiddenError):
            now = self._now()
            self._refused = now if self._refused is None else self._refused
            if now - self._refused >= self._limits.doubt:
                raise
        except (RetrySoonError, WorldChangeError):
            self._refused = None  # no answer now; the silence has its own limit
        else:
            self._refused = None

    def _what(self) -> str:
        return f"Kafka system {self._settings.system}: {self.wanted} can't be read from offset {self.next} on"
