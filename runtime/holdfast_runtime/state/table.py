"""Why: what a step sees of its state during a batch: the last committed rows, under what this batch wrote.

Writes stay in memory until the batch commits, so giving up a batch costs nothing. What was read is remembered until the
end of the batch: a second look is free, and so are the old values the undo needs. Batches of keys are read in key
order, twice as fast as in any other. Must not write to LMDB: the store does, all tables in one transaction.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from holdfast_runtime.state.environment import Environment
from holdfast_runtime.state.keys import LONGEST_PLAIN, any_long, check_keys, fold_key, in_order, unfold

Keys: TypeAlias = "Sequence[bytes] | pa.Array"
Values: TypeAlias = "Sequence[bytes | None] | pa.Array"


class StateTable:
    """Keys to values, as bytes. Reads of many keys give an answer per key asked, in that order."""

    def __init__(self, name: str, environment: Environment) -> None:
        self.name = name
        self.database = b"table." + name.encode()
        self._environment = environment
        self._written: dict[bytes, bytes | None] = {}
        self._seen: dict[bytes, bytes | None] = {}
        self._order: list[bytes] | None = None
        self._changes: list[tuple[bytes, bytes | None]] | None = None

    def get(self, key: bytes) -> bytes | None:
        """The value of one key; for many, `get_many` is several times faster."""
        return self.get_many([key])[0]

    def get_many(self, keys: Keys) -> list[bytes | None]:
        """The values of these keys, None where there is none."""
        wanted = _listed(keys)
        self._look(wanted)
        written, seen = self._written, self._seen
        if not written:
            return [seen[key] for key in wanted]
        return [written[key] if key in written else seen[key] for key in wanted]

    def get_arrow(self, keys: Keys) -> pa.Array:
        """The same as a binary array with nulls."""
        return pa.array(self.get_many(keys), pa.large_binary())

    def put(self, key: bytes, value: bytes) -> None:
        """Write one value."""
        check_keys((key,), self.name)
        self._set(key, value)

    def put_many(self, keys: Keys, values: Values) -> None:
        """Write these values; None (or an Arrow null) deletes; of a key given twice the last counts."""
        wanted = _listed(keys)
        check_keys(set(wanted), self.name)
        self._written.update(zip(wanted, _listed(values), strict=True))
        self._order = self._changes = None

    def delete(self, key: bytes) -> None:
        """Remove one key; that it is not there is fine."""
        self._set(key, None)

    def delete_many(self, keys: Keys) -> None:
        """Remove these keys."""
        self._written.update(dict.fromkeys(_listed(keys)))
        self._order = self._changes = None

    def scan(self, prefix: bytes = b"", start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Rows in key order, from `start` to before `stop`, whose keys begin with `prefix`.

        What is written after the call does not show, so a loop may delete what it meets.
        """
        first = max(prefix, start)
        if self._order is None:
            self._order = sorted(self._written)
        changed: list[tuple[bytes, bytes | None]] = []
        for place in range(bisect_left(self._order, first), len(self._order)):
            key = self._order[place]
            if not key.startswith(prefix) or (stop is not None and key >= stop):
                break
            changed.append((key, self._written[key]))
        stored = self._stored(first, prefix, stop)
        return _merged(stored, changed) if changed else stored

    def changes(self) -> list[tuple[bytes, bytes | None]]:
        """What this batch changed, in key order; writing what was there already changes nothing."""
        if self._changes is None:
            self._look(list(self._written))
            seen, written = self._seen, self._written
            # Sorting keys compares bytes; sorting rows would compare pairs, at twice the time.
            self._changes = [(key, written[key]) for key in sorted(written) if written[key] != seen[key]]
        return self._changes

    def before(self) -> Mapping[bytes, bytes | None]:
        """The values before this batch, of the keys in `changes` among others."""
        return self._seen

    def forget(self) -> None:
        """The batch is over, committed or not."""
        self._written, self._seen, self._order, self._changes = {}, {}, None, None

    def _set(self, key: bytes, value: bytes | None) -> None:
        if self._order is not None and key not in self._written:
            insort(self._order, key)
        self._written[key] = value
        self._changes = None

    def _look(self, keys: list[bytes]) -> None:
        """Read what is not known yet."""
        seen = self._seen
        missing = sorted({key for key in keys if key not in seen} if seen else set(keys))
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
        for row in in_order(self._environment.scan(self.database, first[:LONGEST_PLAIN])):
            key = row[0]
            if key < first:
                continue
            if not key.startswith(prefix) or (stop is not None and key >= stop):
                return
            yield row


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
    """A list, also of an Arrow array: one call into Arrow instead of one per key."""
    return column.to_pylist() if isinstance(column, pa.Array | pa.ChunkedArray) else list(column)
