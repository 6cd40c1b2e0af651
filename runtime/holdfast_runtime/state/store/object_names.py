"""The names of the objects in a task's durable copy: what exists, what leads from one state to the next, what may go.

    delta-<batch>-<epoch>             what one batch did; after the first try with `-<try, 6 digits>`
    bundle-<batch>-<epoch>-<after>    what the batches behind `after` up to this one did together
    snapshot-<batch>-<epoch>          the whole state after a batch
    fence-<epoch>                     stops attempts before this one from writing

Batches have 20 digits, epochs 10, so names sort by batch, epoch and try, and a listing is enough to know what exists.
An attempt that finds a batch decided by an earlier one writes the same content under its own number
(`DurableCopy.adopt`), so the number in a name may be another than that of who computed it. Bundles sort before deltas:
each batch asks for names behind its own. Must not read objects.
"""

import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from holdfast.attempt_number import PADDED, padded

_NAME = re.compile(
    rf"(delta|snapshot)-([0-9]{{20}})-({PADDED})(?:-([0-9]{{6}}))?|(fence)-({PADDED})"
    rf"|(bundle)-([0-9]{{20}})-({PADDED})-([0-9]{{20}})"
)


@dataclass(frozen=True, slots=True, order=True)
class ObjectName:
    """An object name, and what is in it."""

    batch: int
    epoch: int
    retry: int
    """How many deltas of this batch the attempt had written in vain."""
    name: str
    after: int | None = None
    """The batch before the first one of a bundle; None: it is none."""


@dataclass(frozen=True, slots=True)
class Listing:
    """All objects of a task, each kind ordered by batch, epoch and try."""

    deltas: tuple[ObjectName, ...]
    snapshots: tuple[ObjectName, ...]
    fences: tuple[ObjectName, ...]
    bundles: tuple[ObjectName, ...] = ()

    def delta(self, batch: int) -> ObjectName | None:
        """Return the delta of this batch; of several, the newest one, because older ones were refused."""
        deltas = [delta for delta in self.deltas if delta.batch == batch]
        return deltas[-1] if deltas else None

    def way(self, batch: int, until: int, unusable: Container[str] = ()) -> Iterator[ObjectName]:
        """Yield what leads from the state after a batch to that after `until`, or as far as there is anything.

        A bundle is taken before the deltas that it has, the longest one first.
        """
        deltas = {delta.batch: delta for delta in self.deltas}
        bundles: dict[int | None, list[ObjectName]] = {}
        for bundle in self.bundles:
            if bundle.batch <= until and bundle.name not in unusable:
                bundles.setdefault(bundle.after, []).append(bundle)
        while batch < until:
            longest = bundles.get(batch)
            named = longest[-1] if longest else deltas.get(batch + 1)
            if named is None:
                return
            yield named
            batch = named.batch

    def leads(self, batch: int, until: int) -> bool:
        """Whether there is a way from the state after a batch to that after `until`."""
        return max((named.batch for named in self.way(batch, until)), default=batch) == until

    def newest_epoch(self, batch: int) -> int | None:
        """Return the newest epoch found in any fence, or in a delta of this batch or a later one."""
        epochs = [named.epoch for named in self.fences] + [named.epoch for named in self.deltas if named.batch >= batch]
        return max(epochs, default=None)


def delta_name(batch: int, epoch: int, retry: int = 0) -> str:
    """Return the name of a batch's delta."""
    return f"delta-{batch:020}-{padded(epoch)}" + (f"-{retry:06}" if retry else "")


def snapshot_name(batch: int, epoch: int) -> str:
    """Return the name of the snapshot taken after this batch."""
    return f"snapshot-{batch:020}-{padded(epoch)}"


def bundle_name(batch: int, epoch: int, after: int) -> str:
    """Return the name of what the batches behind `after` up to this one did."""
    return f"bundle-{batch:020}-{padded(epoch)}-{after:020}"


def fence_name(epoch: int) -> str:
    """Return the name of the fence that shuts out older attempts."""
    return f"fence-{padded(epoch)}"


def listing(names: Iterable[str]) -> Listing:
    """Parse names into a listing, ignoring those that are not Holdfast's."""
    # Names sort like the numbers in them.
    names_by_kind: dict[str, list[ObjectName]] = {"delta": [], "snapshot": [], "fence": [], "bundle": []}
    for name in sorted(names):
        match = _NAME.fullmatch(name)
        if match is not None and match[1]:
            names_by_kind[match[1]].append(ObjectName(int(match[2]), int(match[3]), int(match[4] or 0), name))
        elif match is not None and match[5]:
            names_by_kind["fence"].append(ObjectName(-1, int(match[6]), 0, name))
        elif match is not None:
            names_by_kind["bundle"].append(ObjectName(int(match[8]), int(match[9]), 0, name, int(match[10])))
    return Listing(*map(tuple, names_by_kind.values()))


def shutting_out(names: Iterable[str], batch: int) -> Iterator[str]:
    """Yield the names that `Listing.newest_epoch` of a batch asks for: few, where a listing has hundreds."""
    first = delta_name(batch, 0)
    return (name for name in names if name >= first and not name.startswith("snapshot"))


def obsolete(objects: Listing) -> tuple[str, ...]:
    """Return the names of objects no restore can need, in the order to delete them.

    Everything up to the older of the last two snapshots goes. Two are kept, because the newest may turn out damaged.
    For the same reason the deltas of a bundle stay until another follows it. A snapshot from which no way leads on was
    written late, when its deltas had gone, and counts as none. An attempt with an older view deletes less than this,
    never more.
    """
    newest = max((delta.batch for delta in objects.deltas), default=-1)
    batches = sorted({one.batch for one in objects.snapshots if objects.leads(one.batch, max(newest, one.batch))})
    names: list[str] = [fence.name for fence in objects.fences[:-1]]
    if len(batches) > 1:
        horizon = batches[-2]
        needed = _needed(objects, horizon) | _needed(objects, batches[-1])
        # Delete snapshots first: a snapshot without deltas is harmless, deltas without a snapshot before them are
        # useless.
        names += [snapshot.name for snapshot in objects.snapshots if snapshot.batch < horizon]
        names += [bundle.name for bundle in objects.bundles if bundle.batch <= horizon]
        names += [delta.name for delta in objects.deltas if delta.batch not in needed]
    return tuple(names)


def _needed(objects: Listing, snapshot: int) -> set[int]:
    """Return the batches whose deltas a restore from the snapshot of this batch may read."""
    newest = max((delta.batch for delta in objects.deltas), default=snapshot)
    bundles = [named for named in objects.way(snapshot, newest) if named.after is not None]
    batches = set(range(snapshot + 1, newest + 1))
    for bundle in bundles[:-1]:
        batches.difference_update(range((bundle.after or 0) + 1, bundle.batch + 1))
    return batches
