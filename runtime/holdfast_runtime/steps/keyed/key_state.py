"""The `state` that a user function gets: a dict of one key with its timers; and the index of due timers.

The function never sees tables: its changes are collected after all calls. The index has one row per key and instant in
an ordered table, so whatever is due is at the front, however many keys wait behind it. A row is a kind, the time in
eight bytes that sort by time, and the key; names and the rest are in the row of the key. Times of last touches are
here too, as a kind of their own, because state expires by them. Must not write tables.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from struct import Struct
from typing import Any

from holdfast.times import event_moment, exact_span
from holdfast_runtime.functions import State, Tables, Timer, When
from holdfast_runtime.state.errors import parsing_state
from holdfast_runtime.steps.context import UNKNOWN, KeyValueTable, StepClock

_BIAS = 1 << 63
_FRONT = Struct(">BQ")
_KEY_AT = _FRONT.size
LATEST = _BIAS - 1


class TimerKind(IntEnum):
    """What an instant stands for: a timer of one kind, or the last touch of a key."""

    EVENT = 0
    PROCESSING = 1
    TOUCHED = 2


@dataclass(frozen=True, slots=True, order=True)
class DueInstant:
    """An instant and its key, in the order in which they are served."""

    time: int
    key: bytes


def index_key(kind: TimerKind, time: int, key: bytes) -> bytes:
    """Return the index row of this instant."""
    return _FRONT.pack(kind, time + _BIAS) + key


def parse_index_key(row: bytes) -> tuple[TimerKind, int, bytes]:
    """Return what `index_key` was given."""
    kind, time = _FRONT.unpack_from(row)
    return TimerKind(kind), time - _BIAS, row[_KEY_AT:]


def due(index: KeyValueTable, kind: TimerKind, until: int, after: bytes = b"") -> Iterator[DueInstant]:
    """Yield the instants up to `until`, by time and key; with `after`, only those behind that index row."""
    prefix = bytes((kind,))
    stop = index_key(kind, until + 1, b"") if until < LATEST else None
    start = after + b"\x00" if after else b""
    with parsing_state("a timer"):
        for row, _ in index.scan(prefix, start, stop):
            _, time = _FRONT.unpack_from(row)
            yield DueInstant(time - _BIAS, row[_KEY_AT:])


def earliest(index: KeyValueTable, kind: TimerKind) -> int | None:
    """Return the earliest time of this kind, or None."""
    first = next(due(index, kind, LATEST), None)
    return None if first is None else first.time


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_FARTHEST = 1 << 62


@dataclass(slots=True)
class BatchMoment:
    """What all keys of a batch share."""

    clock: StepClock
    ttl: int | None
    tables: Tables = field(default_factory=Tables)
    """The tables in which functions look rows up."""
    firing: bool = False
    """Whether timers are being served rather than rows."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    """All rows that functions are given now."""
    late: frozenset[int] = frozenset()
    """The `id()` of each late row."""
    marks: Sequence[int] = ()
    """Where the watermark stands at each row of the batch."""
    row: int = 0
    """The first row of the call that is made, or that its timers come before."""
    earliest_set: int = LATEST
    """The earliest event time to which a timer was set since this was `LATEST`."""
    _here: frozenset[int] | None = None

    def give(self, rows: list[dict[str, Any]], late: Iterable[int]) -> None:
        """Set the rows that functions get from now on; `late` holds the indices of the late ones."""
        self.rows, self.late, self._here = rows, frozenset(id(rows[index]) for index in late), None

    def is_late(self, row: object) -> bool:
        """Whether this very dict is a late row; raises `ValueError` if it is not a row of the batch."""
        if self._here is None:
            self._here = frozenset(map(id, self.rows))
        if id(row) not in self._here:
            message = f"is_late wants one of the rows that the call was given, itself and no copy: {row!r:.80} is none"
            raise ValueError(message)
        return id(row) in self.late


Timers = tuple[dict[str, int], dict[str, int]]
"""Name -> time, for event time and for processing time, in the order of `TimerKind`."""


class KeyState(State):
    """The state of one key, with what all keys of its batch share."""

    __slots__ = ("_moment", "_timers", "fired")

    _moment: BatchMoment
    _timers: Timers | None
    fired: tuple[Timer, ...]

    @property
    def now(self) -> int:
        return self._moment.clock.wall

    @property
    def watermark(self) -> int | None:
        moment = self._moment
        if moment.firing:
            return moment.clock.watermark
        mark = moment.marks[moment.row]
        return None if mark == UNKNOWN else mark

    @property
    def ended(self) -> bool:
        return self._moment.firing and self._moment.clock.ended

    @property
    def tables(self) -> Tables:
        return self._moment.tables

    def is_late(self, row: Mapping[str, Any]) -> bool:
        return self._moment.is_late(row)

    @property
    def timers(self) -> tuple[Timer, ...]:
        kinds = (TimerKind.EVENT, TimerKind.PROCESSING)
        clock = self._moment.clock
        return tuple(
            sorted(timer(kind, name, time, clock) for kind in kinds for name, time in waiting(self, kind).items())
        )

    def at_event_time(self, when: When, name: str = "") -> None:
        if not (self._moment.clock.ended and self._moment.firing):
            # At the end of the streams, a timer that always sets the next one would go on for ever.
            self._set(TimerKind.EVENT, milliseconds(when), name)

    def at_time(self, when: When, name: str = "") -> None:
        clock, ttl, time = self._moment.clock, self._moment.ttl, milliseconds(when)
        if ttl is not None and time >= clock.wall + ttl:
            message = (
                f"a timer at {event_moment(time)} would never fire: by then the key has been untouched for the "
                f"ttl of {exact_span(ttl)} and is dropped with its timers; raise the ttl of the step"
            )
            raise ValueError(message)
        self._set(TimerKind.PROCESSING, time + clock.skew, name)

    def cancel_event_time(self, name: str = "") -> None:
        self._cancel(TimerKind.EVENT, name)

    def cancel_time(self, name: str = "") -> None:
        self._cancel(TimerKind.PROCESSING, name)

    def _set(self, kind: TimerKind, time: int, name: str) -> None:
        if type(name) is not str:
            message = f"the name of a timer is a str, not {name!r}"
            raise TypeError(message)
        if self._timers is None:
            self._timers = {}, {}
        self._timers[kind][name] = time
        if kind is TimerKind.EVENT and time < self._moment.earliest_set:
            self._moment.earliest_set = time

    def _cancel(self, kind: TimerKind, name: str) -> None:
        if self._timers:
            self._timers[kind].pop(name, None)


def key_states(
    values: Iterable[Mapping[Any, Any]], timers: Iterable[Timers | None], moment: BatchMoment
) -> list[KeyState]:
    """Build the states of many keys from copies of their values and timers, in half the time of a constructor."""
    states = list(map(KeyState, values))
    for state, waiting_for in zip(states, timers, strict=True):
        state._moment = moment  # noqa: SLF001 - hidden from users, not from steps
        state._timers = waiting_for and (dict(waiting_for[0]), dict(waiting_for[1]))  # noqa: SLF001
        state.fired = ()
    return states


def all_waiting(state: KeyState) -> Timers | None:
    """Return the timers of a key, or None if it has none."""
    timers = state._timers  # noqa: SLF001
    return timers if timers and (timers[0] or timers[1]) else None


def waiting(state: KeyState, kind: TimerKind) -> dict[str, int]:
    """Return the timers of one kind; changing the dict changes the key's timers."""
    timers = state._timers  # noqa: SLF001
    return timers[kind] if timers else {}


def timer(kind: TimerKind, name: str, time: int, clock: StepClock) -> Timer:
    """Return a timer as users see it, by the host's clock."""
    return Timer(kind.name.lower(), name, time - clock.skew if kind is TimerKind.PROCESSING else time)


def milliseconds(when: When) -> int:
    """Convert to milliseconds, rounding up so that a timer is never early; a datetime without a zone is in UTC."""
    if isinstance(when, datetime):
        moment = when if when.tzinfo else when.replace(tzinfo=UTC)
        return -((_EPOCH - moment) // _MILLISECOND)
    if type(when) is not int:
        message = f"a time is a datetime or milliseconds since 1970, not {when!r}"
        raise TypeError(message)
    if not -_FARTHEST < when < _FARTHEST:
        message = f"{when} is no time: milliseconds since 1970 are wanted"
        raise ValueError(message)
    return when
