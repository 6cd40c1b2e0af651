"""Why: when a stream grows, rows of one key lie in two partitions: old ones in the parent, new ones in the child.

The child must not be read before its parent has been processed up to where it ended when the child was first seen, or
an old row would follow a new one. Must not read offsets: they come in as arguments.
"""

from collections.abc import Iterable, Mapping

from holdfast.tasks.expansion_part import ExpansionRules
from holdfast.tasks.partitions import StreamPartition, counts_of
from holdfast.tasks.record import ParentEnd, PlacementRecord


def parents_of_new(
    record: PlacementRecord, partitions: Iterable[StreamPartition], expansion: ExpansionRules
) -> dict[StreamPartition, StreamPartition]:
    """Partition the last run did not have -> the one of the same stream that held its keys."""
    partitions, before = sorted(partitions), record.counts()
    now, parent_of = counts_of(partitions), expansion.mapping()
    return {
        part: StreamPartition(part.stream, parent_of(part.partition, before[part.stream], now[part.stream]))
        for part in partitions
        if 0 < before.get(part.stream, 0) <= part.partition
    }


def child_after(
    record: PlacementRecord, parents: Mapping[StreamPartition, StreamPartition], ends: Mapping[StreamPartition, int]
) -> dict[StreamPartition, ParentEnd]:
    """What the new record says of order: what the last one said, and for each new child where its parent ended.

    `ends` has the end offset of every parent, read after the child was seen: read before, rows could slip in between.
    """
    fresh = {child: ParentEnd(parent, ends[parent]) for child, parent in parents.items()}
    return {**record.child_after, **fresh}


def may_be_read(
    child: StreamPartition, after: Mapping[StreamPartition, ParentEnd], processed: Mapping[StreamPartition, int]
) -> bool:
    """Whether a partition's turn has come; `processed` has the next offset of each partition read so far."""
    first = after.get(child)
    if first is None:
        return True
    # A parent that grew itself and never got a row is processed to its end at once, but its own parent may not be.
    return processed.get(first.parent, 0) >= first.offset and may_be_read(first.parent, after, processed)
