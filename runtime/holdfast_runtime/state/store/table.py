"""One state table during a batch: committed rows below the batch's own writes, and keys in the form LMDB stores.

Writes stay in memory until the batch commits, so giving up a batch costs nothing. Values that were read are remembered
until its end: reading again is free, and the undo gets the old values for free. Keys are read in key order, which is
twice as fast as any other. `StateView` gives the tables to a step in the middle of a batch that another process
commits. LMDB takes keys of 1 to 511 bytes. A key of up to 479 bytes is stored as it is; a longer one as its first 479
bytes and the sha256 of the whole key (so it never has a short key's length), with the whole key in front of its value.
Long keys with a common beginning are adjacent, so a scan sorts only within such a group. Deltas carry keys as users
wrote them. Must not write to LMDB: the store writes all tables in one transaction.
"""

import hashlib
from bisect import bisect_left, insort
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from struct import Struct
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from holdfast.errors import UserActionError
from holdfast_runtime.state.store.directory import StoreDirectory
from holdfast_runtime.state.store.environment import Environment

LONGEST_PLAIN = 479
FOLDED_LENGTH = 511
_LENGTH = Struct(">I")


def check_keys(keys: Iterable[bytes], table: str) -> None:
    """Raise `StateKeyError` if one of the keys is empty."""
    if b"" in keys:
        message = f"table {table} was given an empty key, which a store can't hold: give the key's columns a prefix"
        raise UserActionError(message, code="StateKeyError")


def fold_key(key: bytes) -> bytes:
    """Return the key as LMDB stores it."""
    return key if len(key) <= LONGEST_PLAIN else key[:LONGEST_PLAIN] + hashlib.sha256(key).digest()


def fold_value(key: bytes, value: bytes) -> bytes:
    """Return the value as LMDB stores it."""
    return value if len(key) <= LONGEST_PLAIN else _LENGTH.pack(len(key)) + key + value


def unfold(stored_key: bytes, stored_value: bytes) -> tuple[bytes, bytes]:
    """Return key and value as users see them."""
    if len(stored_key) < FOLDED_LENGTH:
        return stored_key, stored_value
    (length,) = _LENGTH.unpack_from(stored_value)
    end = _LENGTH.size + length
    return stored_value[_LENGTH.size : end], stored_value[end:]


def any_long(keys: Iterable[bytes]) -> bool:
    """Whether one of the keys is stored folded. Asked per batch, so that the usual short keys cost nothing each."""
    return max(map(len, keys), default=0) > LONGEST_PLAIN


def in_order(rows: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    """Yield stored rows as users see them, ordered by the users' keys."""
    group: list[tuple[bytes, bytes]] = []
    for stored_key, stored_value in rows:
        row = unfold(stored_key, stored_value)
        if group and group[0][0][:LONGEST_PLAIN] != stored_key[:LONGEST_PLAIN]:
            yield from sorted(group)
            group = []
        if len(stored_key) == FOLDED_LENGTH:
            group.append(row)
        else:
            yield row
    yield from sorted(group)


def selected(
    rows: Iterable[tuple[bytes, bytes]], first: bytes, prefix: bytes, stop: bytes | None
) -> Iterator[tuple[bytes, bytes]]:
    """Yield of stored rows, as users see them, those from `first` to before `stop` whose keys begin with `prefix`."""
    for row in in_order(rows):
        key = row[0]
        if key < first:
            continue
        if not key.startswith(prefix) or (stop is not None and key >= stop):
            return
        yield row


_T = TypeVar("_T")
Keys: TypeAlias = "Sequence[bytes] | pa.Array"
Values: TypeAlias = "Sequence[bytes | None] | pa.Array"


class StateTable:
    """A map of keys to values, as bytes. Reads of many keys return one answer per key, in the order asked."""

    def __init__(self, name: str, environment: Environment) -> None:
        self.name = name
        self.database = b"table." + name.encode()
        self._environment = environment
        self._written: dict[bytes, bytes | None] = {}
        self._seen: dict[bytes, bytes | None] = {}
        self.purged: set[bytes] = set()
        """Keys that this batch deletes without undo."""
        self._order: list[bytes] | None = None
        self._changes: list[tuple[bytes, bytes | None]] | None = None

    def get(self, key: bytes) -> bytes | None:
        """Return the value of one key; for many keys, `get_many` is several times faster."""
        return self.get_many([key])[0]

    def get_many(self, keys: Keys) -> list[bytes | None]:
        """Return the values of these keys, None for missing ones."""
        key_list = _listed(keys)
        self._look(key_list)
        written, stored = self._written, self._seen
        if not written:
            return [stored[key] for key in key_list]
        return [written[key] if key in written else stored[key] for key in key_list]

    def view_many(self, keys: Sequence[bytes], view: Callable[[Sequence[Any]], _T]) -> _T:
        """Return what `view` makes of the values of these short keys, which are there.

        Values are not remembered, and may end with the call: nothing that refers to one may be returned.
        """
        known = ChainMap(self._written, self._seen)
        stored = sorted(key for key in keys if key not in known)
        views = self._environment.views(self.database, stored) if stored else {}
        return view([views[key] if key in views else known[key] for key in keys])

    def get_arrow(self, keys: Keys) -> pa.Array:
        """Return the values of these keys as a binary array with nulls."""
        return pa.array(self.get_many(keys), pa.large_binary())

    def put(self, key: bytes, value: bytes) -> None:
        """Write one value."""
        check_keys((key,), self.name)
        self._set(key, value)

    def put_many(self, keys: Keys, values: Values) -> None:
        """Write these values. None or an Arrow null deletes; if a key is given twice, the last value counts."""
        key_list = _listed(keys)
        check_keys(set(key_list), self.name)
        self._written.update(zip(key_list, _listed(values), strict=True))
        self.purged.difference_update(key_list)
        self._order = self._changes = None

    def delete(self, key: bytes) -> None:
        """Remove one key; a missing one is ignored."""
        self._set(key, None)

    def delete_many(self, keys: Keys) -> None:
        """Remove these keys."""
        self._written.update(dict.fromkeys(_listed(keys)))
        self._order = self._changes = None

    def purge(self, keys: Sequence[bytes]) -> None:
        """Remove keys that nothing refers to: their values are not read, and going back does not return them."""
        self.delete_many(keys)
        self.purged.update(keys)

    def scan(self, prefix: bytes = b"", start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Return the rows in key order from `start` to before `stop` whose keys begin with `prefix`.

        Writes after the call are not visible, so a loop may delete what it meets.
        """
        first = max(prefix, start)
        if self._order is None:
            self._order = sorted(self._written)
        changed: list[tuple[bytes, bytes | None]] = []
        for index in range(bisect_left(self._order, first), len(self._order)):
            key = self._order[index]
            if not key.startswith(prefix) or (stop is not None and key >= stop):
                break
            changed.append((key, self._written[key]))
        stored = self._stored(first, prefix, stop)
        return _merged(stored, changed) if changed else stored

    def changes(self) -> list[tuple[bytes, bytes | None]]:
        """Return what this batch changed, in key order. Writing an unchanged value is no change."""
        if self._changes is None:
            purged, written = self.purged, self._written
            self._look([key for key in written if key not in purged] if purged else list(written))
            stored = self._seen
            # Sorting keys compares bytes; sorting rows would compare pairs and take twice the time.
            self._changes = [
                (key, written[key]) for key in sorted(written) if key in purged or written[key] != stored[key]
            ]
        return self._changes

    def before(self) -> Mapping[bytes, bytes | None]:
        """Return the values before this batch, at least of the keys in `changes`."""
        return self._seen

    def forget(self) -> None:
        """Drop everything remembered, because the batch is over, committed or not."""
        self._written, self._seen, self._order, self._changes = {}, {}, None, None
        self.purged = set()

    def _set(self, key: bytes, value: bytes | None) -> None:
        if self._order is not None and key not in self._written:
            insort(self._order, key)
        self._written[key] = value
        self.purged.discard(key)
        self._changes = None

    def _look(self, keys: list[bytes]) -> None:
        """Read those keys that were not read yet."""
        stored = self._seen
        missing = sorted({key for key in keys if key not in stored} if stored else set(keys))
        if not missing:
            return
        if missing[0] == b"":
            self._seen[missing.pop(0)] = None
        self._seen.update(dict.fromkeys(missing))
        if any_long(missing):
            folded = self._environment.get(self.database, sorted(map(fold_key, missing)))
            self._seen.update(unfold(key, value) for key, value in folded.items())
        else:
            self._seen.update(self._environment.get(self.database, missing))

    def _stored(self, first: bytes, prefix: bytes, stop: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        return selected(self._environment.scan(self.database, first[:LONGEST_PLAIN]), first, prefix, stop)


def _merged(
    stored: Iterable[tuple[bytes, bytes]], changed: list[tuple[bytes, bytes | None]]
) -> Iterator[tuple[bytes, bytes]]:
    position = 0
    for row in stored:
        while position < len(changed) and changed[position][0] < row[0]:
            key, value = changed[position]
            position += 1
            if value is not None:
                yield key, value
        if position == len(changed) or changed[position][0] != row[0]:
            yield row
    for key, value in changed[position:]:
        if value is not None:
            yield key, value


def _listed(column: Any) -> list[Any]:
    """Return a list; an Arrow array is converted in one call instead of one per key."""
    return column.to_pylist() if isinstance(column, pa.Array | pa.ChunkedArray) else list(column)


class StateView:
    """The tables of one task for a reader; writes stay in memory."""

    def __init__(self, environment: Environment, changes: Mapping[str, Sequence[tuple[bytes, bytes | None]]]) -> None:
        self._environment = environment
        self._tables: dict[str, StateTable] = {}
        for name, rows in changes.items():
            self.table(name).put_many([key for key, _ in rows], [value for _, value in rows])

    def table(self, name: str) -> StateTable:
        """Return a table by name."""
        if name not in self._tables:
            self._tables[name] = StateTable(name, self._environment)
        return self._tables[name]

    def changes(self) -> dict[str, Sequence[tuple[bytes, bytes | None]]]:
        """Return everything that differs from the committed state."""
        return {name: rows for name, table in self._tables.items() if (rows := table.changes())}


@contextmanager
def state_view(
    directory: StoreDirectory, changes: Mapping[str, Sequence[tuple[bytes, bytes | None]]]
) -> Iterator[StateView]:
    """Open the state of a task for the length of the block. The caller knows that it exists and can be trusted."""
    environment = Environment(directory)
    try:
        yield StateView(environment, changes)
    finally:
        environment.close()
