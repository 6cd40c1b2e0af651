"""The two tables of a `process` step: one row per key, and an index of the instants at which something is due.

State, last touch and timers of a key share one row, so that one read gets all. The row is a MessagePack list of state,
touched (or 0), event-time timers, processing-time timers; empty values at the end are left out. `holdfast state` reads
it too. The index is derived from the rows alone, so both always change together. Keys are loaded and saved many at a
time. Must not call user functions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from struct import Struct
from typing import Any, NamedTuple, NoReturn

from holdfast_runtime.state.errors import parsing_state
from holdfast_runtime.steps.context import StepClock, TaskTables
from holdfast_runtime.steps.keyed.key_state import (
    LATEST,
    BatchMoment,
    DueInstant,
    KeyState,
    TimerKind,
    Timers,
    all_waiting,
    due,
    earliest,
    index_key,
    key_states,
)
from holdfast_runtime.steps.keyed.state_values import (
    UnsupportedValue,
    all_plain,
    pack,
    same_values,
    supported,
    unpack,
    unsupported,
)

_NULL, _THERE = b"\x00", b"\x01"
_LIST = Struct(">BI")
_LIST_CODE = 0xDD


class KeyRow(NamedTuple):
    """The stored row of a key."""

    values: dict[Any, Any]
    touched: int
    """When the function was last called for it, rounded up; 0 if it has no ttl."""
    timers: Timers | None


def row_key(key: bytes | None) -> bytes:
    """Return the key in the table. Null is a valid key, and the prefix makes no key empty."""
    return _NULL if key is None else _THERE + key


def key_of(row: bytes) -> bytes | None:
    """Return what `row_key` was given."""
    return None if row[:1] == _NULL else row[1:]


def write_row(values: dict[Any, Any], touched: int, timers: Timers | None) -> bytes:
    """Return the row of a key as bytes."""
    if timers is None:
        return pack([values, touched] if touched else [values])
    # Ordered by name, otherwise timers set in another order would look changed.
    return pack([values, touched, *(dict(sorted(named.items())) if len(named) > 1 else named for named in timers)])


def read_rows(contents: Sequence[bytes | None]) -> list[KeyRow | None]:
    """Parse many rows that `write_row` made."""
    present = [content for content in contents if content is not None]
    with parsing_state("the state of some keys"):
        # Concatenated behind a list header they form one value, so that one call reads all of them.
        parsed = unpack(_LIST.pack(_LIST_CODE, len(present)) + b"".join(present))
        new = tuple.__new__  # half the time of KeyRow(...)
        rows = [new(KeyRow, (fields[0], 0, None)) if len(fields) == 1 else _row(*fields) for fields in parsed]
    if len(rows) == len(contents):
        return rows  # type: ignore[return-value] # a list of rows is one of rows or None
    rest = iter(rows)
    return [None if content is None else next(rest) for content in contents]


def _row(values: dict[Any, Any], touched: int, *timers: dict[str, int]) -> KeyRow:
    return KeyRow(values, touched, (timers[0], timers[1]) if timers else None)


TIMERS_SUFFIX = ".timers"
_SHARES = 32
_FINEST = 1_000
_EXPIRED_AT_ONCE = 10_000
_NONE = KeyRow({}, 0, None)

Refuse = Callable[[bytes, UnsupportedValue | None], NoReturn]
"""Called with the row key of a key whose state holds an unsupported value; raises."""


@dataclass(frozen=True, slots=True)
class Ttl:
    """How long an untouched key is kept, in milliseconds of processing time."""

    length: int

    @property
    def granule(self) -> int:
        """Touches within this time count as one, so that a busy key does not move in the index with each batch."""
        return max(self.length // _SHARES, _FINEST)

    def touch(self, now: int) -> int:
        """Return the end of the granule, so that nothing is dropped early. It is never 0, which means no touch."""
        return (now // self.granule + 1) * self.granule


@dataclass(frozen=True, slots=True)
class LoadedKeys:
    """Keys of a batch as parallel sequences: the stored rows, and the states that functions work on."""

    keys: Sequence[bytes]
    """The keys in the table."""
    contents: Sequence[bytes | None]
    before: Sequence[KeyRow | None]
    states: list[KeyState]


class KeyTable:
    """The keys of one step in one task, for one batch."""

    def __init__(self, name: str, tables: TaskTables, moment: BatchMoment) -> None:
        """`name` is the name under which the step keeps its state."""
        self._rows = tables.table(name)
        self.index = tables.table(name + TIMERS_SUFFIX)
        self._moment = moment
        self._ttl = None if moment.ttl is None else Ttl(moment.ttl)
        self._touched = self._ttl.touch(moment.clock.now) if self._ttl else 0

    def load(self, keys: Sequence[bytes]) -> LoadedKeys:
        """Load these keys; an expired one looks as if it never existed."""
        contents = self._rows.get_many(keys)
        before = read_rows(contents)
        alive = [_NONE if stored is None or self.expired(stored.touched) else stored for stored in before]
        states = key_states([row.values for row in alive], [row.timers for row in alive], self._moment)
        return LoadedKeys(keys, contents, before, states)

    def load_again(self, loaded: LoadedKeys, index: int, moment: BatchMoment) -> KeyState:
        """Return the state of one of the keys as it was loaded, whatever functions have done to it since."""
        (stored,) = read_rows([loaded.contents[index]])
        alive = _NONE if stored is None or self.expired(stored.touched) else stored
        (state,) = key_states([alive.values], [alive.timers], moment)
        return state

    def expired(self, touched: int) -> bool:
        """Whether a key last touched then has expired. Never without a ttl, or if touched when there was none."""
        return touched != 0 and self._ttl is not None and self._moment.clock.now >= touched + self._ttl.length

    def save(self, loaded: LoadedKeys, refuse: Refuse) -> None:
        """Write what has changed; an empty state without timers gets no row. `refuse` raises."""
        if self._is_plain(loaded):
            written = [pack([dict(state)]) if state else None for state in loaded.states]
            changed = [index for index, was in enumerate(loaded.contents) if written[index] != was]
            self._rows.put_many([loaded.keys[index] for index in changed], [written[index] for index in changed])
        else:
            self._save_each(loaded, refuse)

    def _is_plain(self, loaded: LoadedKeys) -> bool:
        """Whether no key has timers, a ttl or a value that takes a second look, as in most batches."""
        timed = self._touched or any(map(all_waiting, loaded.states))
        timed = timed or any(before is not None and (before.touched or before.timers) for before in loaded.before)
        return not timed and all_plain(loaded.states)

    def _save_each(self, loaded: LoadedKeys, refuse: Refuse) -> None:
        keys: list[bytes] = []
        contents: list[bytes | None] = []
        index: dict[bytes, bytes | None] = {}
        for key, was, before, state in zip(loaded.keys, loaded.contents, loaded.before, loaded.states, strict=True):
            timers = all_waiting(state)
            touched = max(self._touched, before.touched) if self._touched and before else self._touched
            if (
                before
                and touched == before.touched
                and not (timers or before.timers)
                and same_values(state, before.values)
            ):
                continue
            if not state and not timers:
                content, touched = None, 0
            else:
                # A copy that is a plain dict, because packing looks at the exact type.
                values = dict(state)
                if not supported(values):
                    refuse(key, unsupported(values))
                content = write_row(values, touched, timers)
            if content != was:
                keys.append(key)
                contents.append(content)
                _move(index, key, before, timers, touched)
        if keys:
            self._rows.put_many(keys, contents)
        if index:
            self.index.put_many(list(index), list(index.values()))

    @property
    def clock(self) -> StepClock:
        """The clock of the batch."""
        return self._moment.clock

    def due(self, kind: TimerKind, until: int, after: bytes, most: int) -> list[DueInstant]:
        """Return the first due instants, in order."""
        return list(islice(due(self.index, kind, until, after), most))

    def expire(self) -> None:
        """Drop expired keys, up to a limit: `load` already hides the rest, which goes in later batches."""
        if self._ttl is None:
            return
        over = self.due(TimerKind.TOUCHED, self._moment.clock.now - self._ttl.length, b"", _EXPIRED_AT_ONCE)
        if not over:
            return
        keys = [instant.key for instant in over]
        index: dict[bytes, bytes | None] = {}
        for key, before in zip(keys, read_rows(self._rows.get_many(keys)), strict=True):
            _move(index, key, before, None, 0)
        self._rows.put_many(keys, [None] * len(keys))
        self.index.put_many(list(index), list(index.values()))

    def wake(self, clock: StepClock) -> int | None:
        """Return when the step has to run even if no row comes, or None."""
        if clock.ended:
            return clock.now if self.due(TimerKind.EVENT, LATEST, b"", 1) else None
        times = [earliest(self.index, TimerKind.PROCESSING)]
        if self._ttl is not None:
            touched = earliest(self.index, TimerKind.TOUCHED)
            times.append(None if touched is None else touched + self._ttl.length)
        if clock.watermark is not None and self.due(TimerKind.EVENT, clock.watermark, b"", 1):
            times.append(clock.now)
        return min((time for time in times if time is not None), default=None)


def _move(
    index: dict[bytes, bytes | None], key: bytes, before: KeyRow | None, timers: Timers | None, touched: int
) -> None:
    """Change the index from the instants of the old row to those of the new one."""
    was = before.touched if before else 0
    if was != touched:
        if was:
            index[index_key(TimerKind.TOUCHED, was, key)] = None
        if touched:
            index[index_key(TimerKind.TOUCHED, touched, key)] = b""
    had = before.timers if before else None
    if had is None and timers is None:
        return
    for kind in (TimerKind.EVENT, TimerKind.PROCESSING):
        old, new = had[kind] if had else {}, timers[kind] if timers else {}
        if old != new:
            # Several names may have the same time and then share its instant.
            old_times, new_times = set(old.values()), set(new.values())
            index.update((index_key(kind, time, key), None) for time in old_times - new_times)
            index.update((index_key(kind, time, key), b"") for time in new_times - old_times)
