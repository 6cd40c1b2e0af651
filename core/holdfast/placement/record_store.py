"""The placement record in a metadata store, of any size: a reader sees either the old record or the new one.

`save` writes the shards beside the current record, then replaces the head, which switches to the new record, then
removes shards that the head no longer names. A crash at any point leaves the old or the new record, and leftovers that
the next save removes.

Removing is safe while others save. A saver can only replace the head it has seen, and it writes every shard it adds
after seeing that head. Leftovers are listed before the switch and removed after it, by the version in that list. So a
removed shard was last written by a saver that can no longer switch. This is why a first save claims the run with an
empty head: after a `forget` a key is absent again, but no version is ever used twice. Must not decide anything from a
record, and must not overwrite content it could not read.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.errors import RetrySoonError
from holdfast.placement.metadata_store import (
    DEFAULT_BUDGET,
    MetadataStore,
    Version,
    VersionConflictError,
    Versioned,
    check_size,
)
from holdfast.placement.record_format import (
    MOST_BYTES,
    RecordAddress,
    RecordHead,
    RecordKeys,
    cut,
    digest_of,
    head_bytes,
    join,
    read_head,
    unreadable_shard,
)
from holdfast.tasks.record import PlacementRecord

_READS = 10


class RecordChangingError(RetrySoonError):
    """The record was replaced during every attempt to read it."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """The head that this saver saw last, the only one it may replace; without version: there was none."""

    version: Version | None = None
    generation: int = 0
    shards: frozenset[str] = frozenset()
    """Keys of the shards that the head names."""


class RecordStore:
    """The placement records of one app, one per run; no run ever sees another's.

    An instance is one saver: `save` replaces only the record that this instance loaded or saved last, and raises
    `VersionConflictError` if another saver was faster, until it loads that record. Make one instance per thread (they
    are cheap) and share none.
    """

    def __init__(self, store: MetadataStore, app: str, budget: int = DEFAULT_BUDGET) -> None:
        self._store = store
        self._app = app
        self._keys = RecordKeys(app)
        self._budget = min(budget, store.budget)
        self._seen: dict[str, _Seen] = {}

    def load(self, run_id: str) -> PlacementRecord | None:
        """Return the record of this run, in the newest format; None if nothing was saved."""
        place = self._place(run_id)
        for _ in range(_READS):
            stored = self._store.get(place.key)
            if stored is None:
                self._seen[run_id] = _Seen()
                return None
            head = read_head(place, stored.value)
            shards = self._shards(place, head, stored.version)
            if shards is None:
                continue
            record = join(place, head, shards) if head.has_record else None
            keys = frozenset(self._keys.shard(run_id, digest) for digest in head.shards)
            self._seen[run_id] = _Seen(stored.version, head.generation, keys)
            return record
        message = f"{place.key} was replaced {_READS} times while it was read; read it again"
        raise RecordChangingError(message)

    def save(self, record: PlacementRecord) -> None:
        """Make this the record of its run. A saver that has not loaded a record loads it first, then replaces it."""
        place = self._place(record.run_id)
        if record.run_id not in self._seen:
            self.load(record.run_id)
        generation = self._seen[record.run_id].generation + 1
        shards = cut(record, self._budget)
        digests = tuple(digest_of(shard) for shard in shards)
        head = head_bytes(self._app, record.run_id, generation, digests)
        check_size(place.key, head, self._budget)
        seen = self._claimed(place)
        present = self._store.list(self._keys.of_run(record.run_id))
        added = {self._keys.shard(record.run_id, digest): shard for digest, shard in zip(digests, shards, strict=True)}
        for key, shard in added.items():
            if key not in seen.shards or key not in present:
                self._write_shard(key, shard)
        version = self._store.put(place.key, head, seen.version)
        self._seen[record.run_id] = _Seen(version, generation, frozenset(added))
        self._remove({key: present[key] for key in present.keys() - added.keys()})

    def runs(self) -> tuple[str, ...]:
        """Return the runs that have anything stored, including leftovers of a crash."""
        return tuple(sorted({run for key in self._store.list(self._keys.prefix) if (run := self._keys.run_of(key))}))

    def forget(self, run_id: str) -> None:
        """Remove everything stored for this run; refuse if the head is not that of its record."""
        place = self._place(run_id)
        # List first: shards written after this get other versions and are kept, for a save that begins anew.
        present = self._store.list(self._keys.of_run(run_id))
        stored = self._store.get(place.key)
        if stored is not None:
            read_head(place, stored.value)
            self._store.delete(place.key, stored.version)
        self._seen.pop(run_id, None)
        self._remove(present)

    def _place(self, run_id: str) -> RecordAddress:
        return RecordAddress(self._keys.head(run_id), self._app, run_id)

    def _shards(self, place: RecordAddress, head: RecordHead, version: Version) -> tuple[bytes, ...] | None:
        """All shards of this head, checked; None if another head has replaced it meanwhile."""
        shards: list[bytes] = []
        size = 0
        for digest in head.shards:
            key = self._keys.shard(place.run_id, digest)
            stored = self._store.get(key)
            if stored is None:
                if _version_of(self._store.get(place.key)) != version:
                    return None
                raise unreadable_shard(key, f"it is missing, and {place.key} names it")
            if digest_of(stored.value) != digest:
                raise unreadable_shard(key, f"its bytes are not those {place.key} names")
            size += len(stored.value)
            if size > MOST_BYTES:
                raise unreadable_shard(place.key, f"its record has more than {MOST_BYTES} bytes")
            shards.append(stored.value)
        return tuple(shards)

    def _claimed(self, place: RecordAddress) -> _Seen:
        seen = self._seen[place.run_id]
        if seen.version is None:
            version = self._store.put(place.key, head_bytes(self._app, place.run_id, 0, ()), None)
            seen = self._seen[place.run_id] = _Seen(version)
        return seen

    def _write_shard(self, key: str, shard: bytes) -> None:
        stored = self._store.get(key)
        if stored is not None and stored.value != shard:
            raise unreadable_shard(key, "other bytes stand there than its name says")
        # Write even if the bytes are equal: the new version keeps another saver from removing it as a leftover.
        self._store.put(key, shard, _version_of(stored))

    def _remove(self, leftovers: Mapping[str, Version]) -> None:
        for key in sorted(filter(self._keys.is_shard, leftovers)):
            try:
                self._store.delete(key, leftovers[key])
            except VersionConflictError:
                continue  # another saver uses it again, or has removed it


def _version_of(stored: Versioned | None) -> Version | None:
    return None if stored is None else stored.version
