"""One range being read: its progress, when it is complete, when to give up, and the batch it becomes.

The same for all fetchers. Headers, which few records have, become a column only if some record has them. Time comes in
as an argument. Must not talk to a broker except through the one question it is given.
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
    HEADERS,
    MOST_BYTES,
    BatchTooLargeError,
    OffsetBounds,
    OffsetNotWrittenError,
    OffsetRange,
    StreamMissingError,
    alike,
    check_range,
    joined,
)

WITH_HEADERS = FETCHED.append(HEADERS)


_LOOKS = 0.25
"""Seconds between two questions for the bounds of a partition in doubt."""
_SUSPECT = 1.0
"""Seconds of silence after which a partition is in doubt. The client alone would not report a missing one."""


@dataclass(frozen=True, slots=True)
class FetchPatience:
    """How long to wait, in seconds."""

    silence: float = 30.0
    """Without any progress of a range."""
    doubt: float = 5.0
    """While a partition seems to end too early or to be missing: brokers learn of a change one after the other."""


class RangeRead:
    """A range and the part of it that has been read."""

    def __init__(
        self,
        settings: KafkaSettings,
        offset_range: OffsetRange,
        limits: FetchPatience,
        connection: ConnectionState,
        bounds: Callable[[], OffsetBounds],
        now: Callable[[], float],
    ) -> None:
        self.wanted, self.next = offset_range, offset_range.start
        self.restart = False
        """The client has given the partition up and must be started again."""
        self._settings, self._limits, self._said, self._bounds, self._now = settings, limits, connection, bounds, now
        self._parts: list[pa.RecordBatch] = []
        self._size = 0
        self._moved = now()
        self._doubted = False
        self._looked: float | None = None
        self._refused: float | None = None

    @property
    def complete(self) -> bool:
        """Whether all records of the range have been read."""
        return self.next >= self.wanted.end

    @property
    def left(self) -> OffsetRange:
        """What has not been read."""
        return self.wanted._replace(start=self.next)

    def add(self, records: pa.RecordBatch) -> None:
        """Add the next records."""
        self._parts.append(records)
        self._size += records.nbytes
        if self._size > MOST_BYTES:
            raise BatchTooLargeError.of(str(self.wanted), self._size)
        self.reached(records.column(0)[-1].as_py() + 1)

    def reached(self, offset: int) -> None:
        """Note that nothing more comes below an offset."""
        if offset > self.next:
            self.next, self._moved = min(offset, self.wanted.end), self._now()
            self._doubted, self._refused = False, None
            self._said.answered()

    def told(self, code: int, text: str, offset: int) -> None:
        """Handle a message of the client about the partition; raise if it can't recover by itself."""
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
        """Called while nothing comes: check the bounds of a partition in doubt; raise when waiting is useless."""
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
        """Return all records as `FETCHED`, with a column of headers if any record has some."""
        return joined(alike(self._parts), self.wanted)

    def _look(self) -> None:
        """Check the bounds. Raise aged-out records at once, other refusals only after `doubt` seconds."""
        try:
            check_range(self.left, self._bounds())
        except (OffsetNotWrittenError, StreamMissingError, KafkaForbiddenError):
            now = self._now()
            self._refused = now if self._refused is None else self._refused
            if now - self._refused >= self._limits.doubt:
                raise
        except (RetrySoonError, WorldChangeError):
            self._refused = None  # no answer now; silence has its own limit
        else:
            self._refused = None

    def _what(self) -> str:
        return f"Kafka system {self._settings.system}: {self.wanted} can't be read from offset {self.next} on"
