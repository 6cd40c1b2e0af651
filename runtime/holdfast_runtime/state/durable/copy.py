"""The durable copy of one task: deltas, snapshots and fences, which survive the loss of disk, machine and process.

There is one delta object per batch, and now and then a snapshot of the whole state. Of a large state that changes
little, snapshots are rare: the deltas behind the last one become bundles, which cost what has changed. A restore takes
the newest snapshot, and the bundles and deltas after it. Fencing: an attempt first writes its fence, then looks for a
delta of the batch; a writer first writes its delta, then looks for fences. Whichever comes second sees the other:
either the older attempt is refused before its outputs are committed, or the newer one finds the older one's delta and
takes the batch from it: it writes it once more under its own number, as the delta of a writer that is shut out may come
at any time. Must not commit outputs or the local store: `commit` knows the order.
"""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from urllib.parse import quote
from zlib import crc32

from holdfast.errors import HoldfastError, RetrySoonError
from holdfast_runtime.state.durable.snapshot import snapshot_chunks
from holdfast_runtime.state.durable.storage import Storage, obsolete_may_stay
from holdfast_runtime.state.errors import DeltaDamagedError, EpochFencedError
from holdfast_runtime.state.store.delta import (
    Delta,
    DeltaColumns,
    PackedDelta,
    StoredDelta,
    pack_bundle,
    read_columns,
    read_delta,
)
from holdfast_runtime.state.store.directory import TaskIdentity
from holdfast_runtime.state.store.object_names import (
    Listing,
    ObjectName,
    bundle_name,
    delta_name,
    fence_name,
    listing,
    obsolete,
    shutting_out,
    snapshot_name,
)
from holdfast_runtime.state.store.store_head import StoreHead
from holdfast_runtime.state.store.task_store import TaskStore

CrashHook = Callable[[str], None]
SNAPSHOT_STEPS = ("snapshot begun", "snapshot written", "snapshot noted")
BUNDLE_STEPS = ("bundle begun", "bundle written", "bundle noted")
COLLECT_STEPS = ("listed", "removed", "collected")
READ_AHEAD = 8
"""Deltas that are read at once, where an answer takes longer than a delta."""
_BUNDLE_BYTES = 64 << 20
"""What a bundle has at most of deltas, but for some."""
_LITTLE, _LEAST_WEIGHT = 4, 8
"""Below a fourth of a snapshot, its deltas count for less, down to an eighth."""


def _nothing(_: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class SnapshotPolicy:
    """When a snapshot is due: weighs the deltas a restore would replay against the cost of writing a snapshot.

    Where there are bundles, a change costs twice its delta more at most: in a bundle, and in the snapshot that is due
    when as much has changed as it holds.
    """

    most_deltas: int = 100
    least_deltas: int = 10
    """Minimum between snapshots, so that a small state is not copied after every few bytes of change."""
    latest_deltas: int = 200
    """After so many, weighed alike, a batch waits for its snapshot: those written beside batches have fallen behind."""
    waited: int = 1 << 20
    """Below this size of a store, in bytes, its snapshot on a disk is there sooner than a thread would be."""
    beside: int = 32 << 20
    """From this size on, another process writes it."""
    bundled: int = 8 << 20
    """From this size of a snapshot on, the deltas behind it become bundles."""
    most_bundles: int = 100
    bundle_bytes: int = 16 << 20
    """How many bytes of deltas make a bundle due, which is made in memory."""

    def due(self, head: StoreHead, task: str) -> bool:
        """Whether a snapshot or a bundle is due: after enough deltas, or once they outgrow the last snapshot.

        Each task has its own limit in the upper half of the range; otherwise all tasks would write snapshots in one
        batch.
        """
        limit = self.most_deltas - crc32(task.encode()) % (self.most_deltas // 2 + 1)
        if self.bundles(head):
            return head.deltas >= limit or head.delta_bytes - head.bundled_bytes >= self.bundle_bytes
        much = _outgrown(head) or head.bundles >= self.most_bundles
        return _weight(head) >= limit or (head.deltas >= self.least_deltas and much)

    def overdue(self, head: StoreHead) -> bool:
        """Whether the batch has to wait for it; a large state has more time, as its snapshot takes more."""
        weight = head.deltas / _LEAST_WEIGHT if head.snapshot_bytes >= self.bundled else _weight(head)
        return weight >= self.latest_deltas

    def bundles(self, head: StoreHead) -> bool:
        """Whether what is due is a bundle: a large state has changed by less than a snapshot would cost."""
        large = head.snapshot is not None and head.snapshot_bytes >= self.bundled
        return large and not _outgrown(head) and head.bundles < self.most_bundles


def _outgrown(head: StoreHead) -> bool:
    return head.delta_bytes > max(head.snapshot_bytes, 1 << 20)


def _weight(head: StoreHead) -> float:
    """Return how many deltas there are, of which those of a large state that changes little count for less."""
    changed = 1.0 if head.snapshot_bytes == 0 else _LITTLE * head.delta_bytes / head.snapshot_bytes
    return head.deltas * min(1.0, max(changed, 1 / _LEAST_WEIGHT))


class DurableCopy:
    """The durable copy of one task, below `<root>/<app>/<run>/<task>/`."""

    def __init__(self, root: Storage, identity: TaskIdentity, *, at: CrashHook = _nothing) -> None:
        self.identity = identity
        parts = (quote(part, safe="") for part in (identity.app, identity.run, identity.task))
        self.root, self.storage = root, root.below(*parts)
        self.at = at
        """Called at each step, so that tests can kill a process there."""

    def listing(self) -> Listing:
        """Return the objects that exist now."""
        return listing(self.storage.names())

    def fence(self, epoch: int) -> None:
        """Shut out older attempts. Must be called before the attempt's first `find_delta`."""
        self._check_epoch(self.listing(), epoch, batch=1 << 63)
        self.storage.write(fence_name(epoch), [b"%d\n" % epoch], replace=True)
        self._check_epoch(self.listing(), epoch, batch=1 << 63)

    def find_delta(self, batch: int, epoch: int | None = None) -> StoredDelta | None:
        """Return the stored delta of this batch; raise `DeltaDamagedError` rather than let it be computed again.

        If `epoch`, the caller's attempt, is given, raises `EpochFencedError` when a newer attempt is at work.
        """
        objects = self.listing()
        if epoch is not None:
            self._check_epoch(objects, epoch, batch)
        delta_object = objects.delta(batch)
        return None if delta_object is None else StoredDelta(delta_object, self.read_delta(delta_object))

    def has_after(self, batch: int) -> bool:
        """Return whether there is a delta of a later batch."""
        return any(named.batch > batch for named in self.listing().deltas)

    def read_delta(self, named: ObjectName, *, outputs: bool = True) -> Delta:
        """Return the delta of this object; without `outputs`, the part that a restore needs."""
        try:
            delta = self._read_delta(named.name, outputs=outputs)
        except DeltaDamagedError:
            # It may have been damaged on its way.
            delta = self._read_delta(named.name, outputs=outputs)
        self._check_name(named, delta)
        return delta

    def _read_delta(self, name: str, *, outputs: bool) -> Delta:
        with self.storage.reading(name) as read:
            return read_delta(self.storage.path(name), read, outputs=outputs)

    def _check_name(self, named: ObjectName, delta: Delta) -> None:
        """Raise `DeltaDamagedError` if what an object of this name says is of another one."""
        named_so = (delta.identity, delta.batch, delta.after) == (self.identity, named.batch, named.after)
        if not named_so or delta.epoch > named.epoch:
            says = (
                delta_name(delta.batch, delta.epoch)
                if delta.after is None
                else bundle_name(delta.batch, delta.epoch, delta.after)
            )
            message = (
                f"delta {self.storage.path(named.name)} says it is {says} of "
                f"{delta.identity}: it was copied to a name that is not its own; put the right object there, or start "
                f"under a new spec.runId"
            )
            raise DeltaDamagedError(message)

    def write_delta(self, packed: PackedDelta, retry: int = 0) -> None:
        """Store a batch's delta. Outputs may be committed only after this returns.

        Raises `EpochFencedError` if a newer attempt is at work, `DeltaExistsError` if the batch is already written.
        Threads may write deltas of several tasks at once.
        """
        delta = packed.delta
        if delta.identity != self.identity:
            message = f"a delta of {delta.identity} was given to the durable copy of {self.identity}"
            raise HoldfastError(message, code="StoreMisuseError")
        self._create(delta_name(delta.batch, delta.epoch, retry), packed.chunks, delta.batch, delta.epoch)

    def adopt(self, stored: StoredDelta, epoch: int) -> None:
        """Store the delta of an earlier attempt under the number of this one, unchanged.

        Two processes of an attempt may have looked at different times, and one that was shut out may have written in
        between. The one that finds its delta and the one that does not are then after the same name.
        """
        content, path = self.storage.read(stored.object.name) or b"", self.storage.path(stored.object.name)
        # What is damaged on its way must not become what a restore finds first.
        if read_delta(path, BytesIO(content).read).digest != stored.delta.digest:
            message = f"{path} is not what it was a moment ago"
            raise RetrySoonError(message)
        self._create(delta_name(stored.object.batch, epoch), [content], stored.object.batch, epoch)

    def _create(self, name: str, chunks: Sequence[bytes], batch: int, epoch: int) -> None:
        size = self.storage.write(name, chunks)
        # Check after writing: a newer attempt that writes its fence after this check will find the delta.
        # It can't be asked for at once with the write: both could miss the other.
        names = shutting_out(self.storage.names_behind(delta_name(batch, 0)), batch)
        self._check_epoch(listing(names), epoch, batch)
        if size is None:
            message = f"batch {batch} of {self.identity} was written meanwhile; it is replayed from what is there"
            raise RetrySoonError(message, code="DeltaExistsError")

    def snapshot(self, store: TaskStore) -> int:
        """Write a snapshot of the state after the store's last commit, and return its size in bytes."""
        head = store.head
        self.at("snapshot begun")
        with store.frozen() as state:
            size = self.write_snapshot(head, snapshot_chunks(store.directory.identity, head, state.copy_to))
        self.at("snapshot written")
        store.noted_snapshot(head.batch, size, head.delta_bytes)
        self.at("snapshot noted")
        return size

    def write_snapshot(self, head: StoreHead, chunks: Generator[bytes], epoch: int | None = None) -> int:
        """Store the snapshot of the state at this head, and return its size in bytes.

        If `epoch`, the caller's attempt, is given, nothing is stored when a newer attempt is at work: raises
        `EpochFencedError`.
        """
        if head.epoch is None:
            message = f"there is nothing of {self.identity} to make a snapshot of"
            raise HoldfastError(message, code="StoreMisuseError")
        with closing(chunks):
            content = chunks if epoch is None else self._unfenced(chunks, head, epoch)
            return self.storage.write(snapshot_name(head.batch, head.epoch), content, replace=True) or 0

    def _unfenced(self, chunks: Generator[bytes], head: StoreHead, epoch: int) -> Generator[bytes]:
        yield from chunks
        # The last look before the object gets its name: an attempt that was shut out must not leave anything new.
        self._check_epoch(self.listing(), epoch, head.batch)

    def bundle(self, store: TaskStore) -> bool:
        """Write a bundle of the deltas up to the store's last commit; return whether they could be put into one."""
        head = store.head
        self.at("bundle begun")
        if (written := self.write_bundle(head)) is None:
            return False
        self.at("bundle written")
        store.noted_bundle(*written)
        self.at("bundle noted")
        return True

    def write_bundle(self, head: StoreHead, epoch: int | None = None) -> tuple[int, int] | None:
        """Store a bundle of the deltas up to this head, or of the first ones if they are many.

        Return its batch, and how many bytes of deltas it has; None if they can't be put into one. `epoch`: as in
        `write_snapshot`.
        """
        way = [] if head.snapshot is None else [*self.listing().way(head.snapshot, head.batch)]
        bundled = max((at for at, named in enumerate(way, start=1) if named.after is not None), default=0)
        after = way[bundled - 1].batch if bundled else head.snapshot
        if after is None or after == head.batch or way[-1].batch != head.batch:
            return None
        try:
            parts = self._columns(way[bundled:])
        except DeltaDamagedError:
            return None
        packed = pack_bundle(parts, after)
        delta = packed.delta
        broken = any(later.delta.base != earlier.delta.epoch for earlier, later in pairwise(parts))
        if broken or (delta.batch == head.batch and delta.epoch != head.epoch):
            return None
        if epoch is not None:
            self._check_epoch(self.listing(), epoch, head.batch)
        self.storage.write(bundle_name(delta.batch, delta.epoch, after), packed.chunks, replace=True)
        return delta.batch, sum(part.delta.size for part in parts)

    def _columns(self, deltas: Sequence[ObjectName]) -> list[DeltaColumns]:
        """Return what these deltas changed, or the first ones of them, as they are in memory together.

        They are read side by side where an answer takes longer than a delta.
        """
        parts: list[DeltaColumns] = []
        with ThreadPoolExecutor(min(self.storage.at_once, READ_AHEAD), "bundle") as pool:
            for start in range(0, len(deltas), READ_AHEAD):
                parts += pool.map(self._read_columns, deltas[start : start + READ_AHEAD])
                if sum(part.delta.size for part in parts) > _BUNDLE_BYTES:
                    break
        return parts

    def _read_columns(self, named: ObjectName) -> DeltaColumns:
        with self.storage.reading(named.name) as read:
            columns = read_columns(self.storage.path(named.name), read)
        self._check_name(named, columns.delta)
        return columns

    def collect(self) -> int:
        """Delete what no restore can need, and return how many objects went. Safe to kill, and to run beside others."""
        objects = self.listing()
        obsolete_names = list(obsolete(objects))
        if objects.snapshots and obsolete_names:
            horizon = max(snapshot.batch for snapshot in objects.snapshots if snapshot.name not in obsolete_names)
            epoch = max((fence.epoch for fence in objects.fences), default=0)
            for temporary, meant in self.storage.unfinished().items():
                # Unfinished objects of older batches have no living writer: a living one writes batches after the last
                # snapshot. The writer of an older fence is shut out.
                named = listing([meant])
                batches = [one.batch for one in (*named.deltas, *named.snapshots, *named.bundles)]
                older = any(batch < horizon for batch in batches)
                if older or any(fence.epoch < epoch for fence in named.fences):
                    obsolete_names.append(temporary)
        self.at("listed")
        removed = 0
        with obsolete_may_stay(self.storage):
            for _ in self.storage.delete(obsolete_names):
                removed += 1
                self.at("removed")
        self.at("collected")
        return removed

    def _check_epoch(self, objects: Listing, epoch: int, batch: int) -> None:
        newest = objects.newest_epoch(batch)
        if newest is not None and newest > epoch:
            message = (
                f"attempt {epoch} may not write the state of {self.identity}: attempt {newest} works on it; this "
                f"process belongs to an older attempt and must end"
            )
            raise EpochFencedError(message)
