"""Which records of dead letters are put back at the end of their streams, once what made them fail is corrected.

A letter tells where its record is, and may tell which key and timestamp it has. Pure: `put_back_records` does it.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.inspection.dead_letters import DeadLetter
from holdfast_runtime.streams.records import OffsetBounds


class PutBackObstacle(Enum):
    """Why a letter is left out; the value says it to people."""

    NO_RECORD = "a step made the row, and the letter names no record that it was read from"
    NOT_AN_INPUT = "it is no stream that the app reads from outside"
    GENERATED = "a generator makes its rows, and nothing can be written to it"
    BOUNDED = "it is bounded, and a run reads nothing behind its end; a new spec.runId reads all of it again"
    CREATED_AGAIN = "it was created again since, and has other records"
    GONE = "the record is no longer there"
    DONE = "put back before; --again puts them back once more"
    SAME_RECORD = "another letter is about the same record, which is put back once"


@dataclass(frozen=True, slots=True)
class PutBackStream:
    """What decides whether records can be put back into a stream of the app."""

    topic: str
    obstacle: PutBackObstacle | None = None
    """Why none of its records can be."""
    created: int | None = 0
    """When, in milliseconds since 1970; None: its system does not say."""
    bounds: Mapping[int, OffsetBounds] = field(default_factory=dict)


_NOT_AN_INPUT = PutBackStream("", PutBackObstacle.NOT_AN_INPUT)


@dataclass(frozen=True, slots=True)
class PutBackRecord:
    """A record that is put back."""

    time: int
    """For which time."""
    key: bytes | None = None
    timestamp: int | None = None
    """What the letter says of the record, in microseconds since 1970; None: neither this nor the key."""

    def is_of(self, key: bytes | None, timestamp: int) -> bool:
        """Whether the letter is about a record with this key and timestamp, in milliseconds since 1970."""
        return self.timestamp is None or (self.key, self.timestamp) == (key, timestamp * 1000)


@dataclass(frozen=True, slots=True)
class PutBackPlan:
    """The records that are put back, and the letters that are left out."""

    records: Mapping[StreamPartition, Mapping[int, PutBackRecord]]
    """By partition and offset."""
    left_out: Mapping[tuple[PutBackObstacle, str], int]
    """Why, and of which stream, topic or step -> how many letters."""
    of_steps: int
    """Of how many records a step failed, so that other steps may have had them."""
    by_offset: int
    """How many records only their offset tells apart from those of a stream that was created again."""

    @property
    def count(self) -> int:
        """How many records are put back."""
        return sum(map(len, self.records.values()))


def decide_put_back(letters: Iterable[DeadLetter], streams: Mapping[str, PutBackStream], *, again: bool) -> PutBackPlan:
    """Return which records of these letters are put back; `again`: also those that were before."""
    records: dict[StreamPartition, dict[int, PutBackRecord]] = {}
    left_out: Counter[tuple[PutBackObstacle, str]] = Counter()
    of_steps = by_offset = 0
    for letter in letters:
        obstacle = _obstacle(letter, streams, records, again=again)
        if obstacle is not None:
            left_out[obstacle, _source(letter, obstacle)] += 1
        elif letter.origin.record is not None:
            partition, offset = letter.origin.record
            key = None if letter.timestamp is None else letter.key
            records.setdefault(partition, {})[offset] = PutBackRecord(letter.put_back + 1, key, letter.timestamp)
            of_steps += letter.origin.step is not None
            by_offset += letter.timestamp is None and streams[partition.stream].created is None
    return PutBackPlan(records, left_out, of_steps, by_offset)


def _obstacle(
    letter: DeadLetter,
    streams: Mapping[str, PutBackStream],
    chosen: Mapping[StreamPartition, Collection[int]],
    *,
    again: bool,
) -> PutBackObstacle | None:
    """Return the first that stands in the way, or None."""
    if letter.origin.record is None:
        return PutBackObstacle.NO_RECORD
    partition, offset = letter.origin.record
    stream = streams.get(partition.stream, _NOT_AN_INPUT)
    if stream.obstacle is not None:
        return stream.obstacle
    if stream.created is not None and letter.written < stream.created:
        return PutBackObstacle.CREATED_AGAIN
    bounds = stream.bounds.get(partition.partition)
    if bounds is None or not bounds.oldest <= offset < bounds.end:
        return PutBackObstacle.GONE
    if letter.put_back and not again:
        return PutBackObstacle.DONE
    return PutBackObstacle.SAME_RECORD if offset in chosen.get(partition, {}) else None


def _source(letter: DeadLetter, obstacle: PutBackObstacle) -> str:
    origin = letter.origin
    if obstacle is PutBackObstacle.NO_RECORD or origin.stream is None:
        return f"step {origin.step}" if origin.step else str(letter.partition)
    return f"stream {origin.stream}"
