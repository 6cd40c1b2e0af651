"""The states of a `process` step with `form: Batch`, in columns and layers: those of many keys are read at once.

Of a key the newest row counts; one that says `deleted` ends it. Without `ttl` all rows are in one bucket. With `ttl`
there is a bucket for each quarter of it, numbered by its end in milliseconds of processing time; a key that is touched
is written to the newest one, and a bucket is dropped when `ttl` has passed since its end. A `ttl` that comes or goes
moves all states to the bucket that is written to, once. Must not call user functions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast_runtime.columns.hashed_rows import HashedRows
from holdfast_runtime.columns.key_columns import KeyColumns, Mask, Words
from holdfast_runtime.columns.sorted_hashes import SortedHashes
from holdfast_runtime.state.sorted.layered_rows import LayeredRows, LayeredTable
from holdfast_runtime.state.sorted.newest_rows import DELETED, FoundRows, alive, find_newest, newest, with_newest
from holdfast_runtime.state.sorted.schema import OWN

_FOR_EVER = 0
"""The bucket of states that do not expire."""
_SHARES = 4
_FINEST = 1_000


@dataclass(frozen=True, slots=True)
class BatchKeys:
    """The distinct keys of a batch, in the order of their hashes."""

    hashes: Words
    columns: Sequence[pa.Array]

    @property
    def count(self) -> int:
        """How many these are."""
        return len(self.hashes)


class KeptStates:
    """The states of one step in one task, for one batch."""

    def __init__(self, table: LayeredTable, key: pa.Schema, values: pa.Schema, ttl: int | None, now: int) -> None:
        """`ttl`, `now`: in milliseconds."""
        state_fields = [field.with_name(f"{OWN}{field.name}") for field in values]
        self._schema = with_newest(pa.schema([*key, *state_fields, pa.field(DELETED, pa.bool_())]))
        self._keys, self._ttl, self._now = len(key), ttl, now
        layered = LayeredRows(table, self._schema, lambda rows: newest(rows.rows, rows.hashes, range(self._keys)))
        # With a ttl, older buckets may hold a key that was deleted.
        self._layered = layered.settling(_alive) if ttl is None else layered
        self._bucket = _FOR_EVER

    def begin(self) -> None:
        """Begin a batch: delete what earlier ones have thrown away, and what has expired."""
        self._layered.purge()
        buckets = list(self._layered.buckets())
        if self._ttl is None:
            if buckets not in ([], [_FOR_EVER]):
                self._gather(buckets)
            return
        for bucket in buckets:
            if bucket != _FOR_EVER and bucket + self._ttl <= self._now:
                self._layered.drop(bucket)
        buckets = list(self._layered.buckets())
        granule = max(self._ttl // _SHARES, _FINEST)
        # After a change of `ttl`, the end of an older bucket may lie behind that of the new one.
        self._bucket = max((self._now // granule + 1) * granule, *buckets, _FOR_EVER)
        if _FOR_EVER in buckets:
            self._gather(buckets)

    def find(self, keys: BatchKeys) -> FoundRows:
        """Return the states of these keys."""
        probe_keys = KeyColumns.of(keys.columns, keys.count)
        sought = SortedHashes(keys.hashes, np.arange(keys.count))
        return find_newest(self._layered, self._layered.buckets(), self._schema, probe_keys, sought)

    def values(self, found_rows: FoundRows) -> list[pa.Array]:
        """Return the columns of found states."""
        return [found_rows.column(number) for number in range(self._keys, len(self._schema) - 1)]

    def put(self, keys: BatchKeys, found_rows: FoundRows, before: list[pa.Array], after: list[pa.Array]) -> None:
        """Write the states of found keys as they are after their rows; one whose values are all null is forgotten."""
        deleted = _all_null(after, keys.count)
        known = found_rows.piece_of >= 0
        changed = ~known
        for old, new in zip(before, after, strict=True):
            changed |= _differing(old, new)
        if self._ttl is not None:
            in_newest = np.array([*(bucket == self._bucket for bucket in found_rows.buckets), False])
            changed |= ~in_newest[found_rows.piece_of]
        indices = pa.array(np.flatnonzero(np.where(deleted, known, changed)))
        if not len(indices):
            return
        columns = [column.take(indices) for column in (*keys.columns, *after, pa.array(deleted))]
        rows = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        self._layered.append(self._bucket, HashedRows(keys.hashes[indices.to_numpy()], rows))
        self._layered.tidy_after([self._bucket], len(indices))

    def wake(self) -> int | None:
        """Return when states expire next."""
        first = None if self._ttl is None else next(self._layered.buckets(), None)
        return None if first is None or self._ttl is None else first + self._ttl

    def _gather(self, buckets: Sequence[int]) -> None:
        """Move all states to the bucket that is written to."""
        chunks = [_alive(chunk) for chunk in self._layered.read(buckets)]
        for bucket in buckets:
            self._layered.drop(bucket)
        for chunk in chunks:
            self._layered.append(self._bucket, chunk)


def _alive(rows: HashedRows) -> HashedRows:
    living = ~rows.rows.column(DELETED).to_numpy(zero_copy_only=False)
    return HashedRows(rows.hashes[living], alive(rows.rows))


def _all_null(columns: Sequence[pa.Array], count: int) -> Mask:
    null = np.ones(count, np.bool_)
    for column in columns:
        if not column.null_count:
            return np.zeros(count, np.bool_)
        null &= column.is_null().to_numpy(zero_copy_only=False)
    return null


_BITS = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}
"""Numbers that compare as equal though they are not the same."""


def _differing(old: pa.Array, new: pa.Array) -> npt.NDArray[np.bool_]:
    """Return where values are not the same; those of nested types are taken as changed where any is."""
    if pa.types.is_nested(new.type):
        return np.full(len(new), not old.equals(new))
    if new.type in _BITS:
        old, new = old.view(_BITS[new.type]), new.view(_BITS[new.type])
    same = pc.or_(pc.equal(old, new).fill_null(False), pc.and_(old.is_null(), new.is_null()))  # noqa: FBT003
    return np.asarray(pc.invert(same).to_numpy(zero_copy_only=False), np.bool_)
