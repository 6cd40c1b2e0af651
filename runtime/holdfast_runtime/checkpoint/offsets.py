"""The offsets of a run after a batch, as Spark's offset log keeps them: everything that a batch may depend on.

They are durable before the batch that leads to them starts, and describe it completely: a replayed batch reads the same
records, has the same clock and the same tasks. Must not know attempts: another attempt may replay the batch.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.errors import UserActionError
from holdfast.tasks.partitions import StreamPartition, parse_partition
from holdfast_runtime.clocks import BatchTime
from holdfast_runtime.sealed_json import sealed, unsealed


@dataclass(frozen=True, slots=True)
class NewPartition:
    """A new partition of a stream that has grown."""

    parent: StreamPartition
    at: int
    """The batch clock when it was noticed."""
    end: int | None = None
    """Where its parent ended when the grace period was over; None: it is not over."""


FORMAT = 2


class OffsetsUnreadableError(UserActionError):
    """Spark's offset log holds something that this release of Holdfast does not write."""


@dataclass(frozen=True, slots=True)
class Offsets:
    """The state of a run after a batch, and the description of that batch."""

    batch: int = 0
    """The number of the batch; 0 before the first."""
    now: int = 0
    """The batch clock, milliseconds since 1970; never goes back."""
    positions: Mapping[StreamPartition, int] = field(default_factory=dict)
    """Partition -> the next offset to read."""
    turns: Mapping[str, int] = field(default_factory=dict)
    """Task -> in how many batches it took part."""
    ends: Mapping[StreamPartition, int] = field(default_factory=dict)
    """Partition of a bounded stream -> its end."""
    starts: Mapping[StreamPartition, int] = field(default_factory=dict)
    """Partition that the batch read -> where it began."""
    taking_part: tuple[str, ...] = ()
    """The tasks that took part in the batch."""
    ids: Mapping[str, str] = field(default_factory=dict)
    """Stream -> id of its topic, where the system gives one: positions mean nothing in another topic of that name."""
    jumped: Mapping[StreamPartition, int] = field(default_factory=dict)
    """Partition -> its position before the batch's jump, if a user has set one."""
    jump: str = ""
    """The id of the last jump that was made."""
    noticed: Mapping[StreamPartition, NewPartition] = field(default_factory=dict)
    """Partitions that were added during the run."""
    skew: int = 0
    """How far the batch clock is ahead of the host's clock: see `clocks`."""
    record_bytes: Mapping[str, int] = field(default_factory=dict)
    """Stream -> average size of its records: an attempt's first batch must not read more than fits in memory."""

    @property
    def time(self) -> BatchTime:
        """The batch clock with its skew."""
        return BatchTime(self.now, self.skew)

    def text(self) -> str:
        """Return the offsets as JSON; equal offsets give equal texts, because Spark compares texts."""
        tree = {
            "format": FORMAT,
            "batch": self.batch,
            "now": self.now,
            "positions": _tree(self.positions),
            "turns": dict(sorted(self.turns.items())),
            "ends": _tree(self.ends),
            "starts": _tree(self.starts),
            "takingPart": list(self.taking_part),
            "ids": dict(sorted(self.ids.items())),
        }
        # Left out if empty: to Spark, a text with an added entry would mean new offsets.
        if self.jump:
            tree |= {"jumped": _tree(self.jumped), "jump": self.jump}
        if self.noticed:
            tree["noticed"] = {
                str(child): [str(one.parent), one.at, one.end] for child, one in sorted(self.noticed.items())
            }
        if self.skew:
            tree["skew"] = self.skew
        if self.record_bytes:
            tree["recordBytes"] = dict(sorted(self.record_bytes.items()))
        return sealed(tree)

    @classmethod
    def parse(cls, text: str) -> "Offsets":
        """Return the offsets from their text; raise `OffsetsUnreadableError`."""
        try:
            tree = json.loads(text)
            if tree["format"] == FORMAT:
                unsealed(text)
            else:
                message = (
                    f"the offset log was written in format {tree['format']}, this release of Holdfast reads {FORMAT}; "
                    "run it with the release that wrote it, or start under a new spec.runId"
                )
                raise OffsetsUnreadableError(message)
            turns = {str(task): int(turn) for task, turn in tree["turns"].items()}
            positions, ends, starts = (_read(tree[name]) for name in ("positions", "ends", "starts"))
            taking_part = tuple(map(str, tree["takingPart"]))
            ids = {str(stream): str(id_) for stream, id_ in tree.get("ids", {}).items()}
            jumped, jump = _read(tree.get("jumped", {})), str(tree.get("jump", ""))
            noticed = {
                parse_partition(child): NewPartition(
                    parse_partition(parent), int(at), None if end is None else int(end)
                )
                for child, (parent, at, end) in tree.get("noticed", {}).items()
            }
            return cls(
                batch=int(tree["batch"]),
                now=int(tree["now"]),
                positions=positions,
                turns=turns,
                ends=ends,
                starts=starts,
                taking_part=taking_part,
                ids=ids,
                jumped=jumped,
                jump=jump,
                noticed=noticed,
                skew=int(tree.get("skew", 0)),
                record_bytes={str(stream): int(size) for stream, size in tree.get("recordBytes", {}).items()},
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            message = (
                f"the offset log holds {text[:200]!r}, which Holdfast did not write like this ({error}); put the "
                "checkpoint back, or start under a new spec.runId"
            )
            raise OffsetsUnreadableError(message) from error


def _tree(offsets: Mapping[StreamPartition, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(offsets.items())}


def _read(tree: Mapping[str, int]) -> dict[StreamPartition, int]:
    return {parse_partition(name): int(offset) for name, offset in tree.items()}
