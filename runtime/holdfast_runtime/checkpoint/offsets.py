"""The offsets of a run after a batch, as Spark's offset log keeps them, and the jumps that users set.

Offsets are all that a batch may depend on. They are durable before the batch that leads to them starts, and describe it
completely: a replayed batch reads the same records, has the same clock and the same tasks. They know no attempts:
another attempt may replay the batch. A jump sets positions (`holdfast offsets --set`). The command writes a file beside
the checkpoint; the first batch of the next attempt makes the jump and records it in its offsets, so that a replay makes
the same jump. It is made once: the offsets hold the id of the last one. Must not read streams.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Self

from holdfast.errors import UserActionError
from holdfast.tasks.partitions import StreamPartition, parse_partition
from holdfast_runtime.clocks import BatchTime
from holdfast_runtime.sealed_json import sealed, unsealed
from holdfast_runtime.state.durable.storage import DirectoryStorage, Storage, obsolete_may_stay


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
    tables: Mapping[str, int] = field(default_factory=dict)
    """Table with side inputs -> the batch in which it was started (anew)."""
    incomplete: tuple[str, ...] = ()
    """Those that lack rows."""
    table_inputs: Mapping[StreamPartition, int] = field(default_factory=dict)
    """Partition that each location reads for itself -> where it was first read for its tables as they are now."""
    quiet: bool = False
    """Whether the batch only loaded tables that inputs wait for: event time stood still, and no timer fired."""
    epochs: Mapping[StreamPartition, int] = field(default_factory=dict)
    """Partition -> the leader epoch under which the records before its position were there, where it is known."""

    @property
    def time(self) -> BatchTime:
        """The batch clock with its skew."""
        return BatchTime(self.now, self.skew)

    def under(self, names: Mapping[str, str]) -> "Offsets":
        """Return what is shown of the offsets, with these names of streams."""
        return replace(
            self,
            positions=_under(names, self.positions),
            ends=_under(names, self.ends),
            epochs=_under(names, self.epochs),
            ids={names.get(stream, stream): id_ for stream, id_ in self.ids.items()},
        )

    def text(self) -> str:
        """Return the offsets as JSON; equal offsets give equal texts, because Spark compares texts."""
        tree = {
            "format": FORMAT,
            "batch": self.batch,
            "now": self.now,
            "positions": _tree(self.positions),
            "turns": _sorted(self.turns),
            "ends": _tree(self.ends),
            "starts": _tree(self.starts),
            "takingPart": list(self.taking_part),
            "ids": dict(sorted(self.ids.items())),
        }
        # Left out if empty: to Spark, a text with an added entry would mean new offsets.
        if self.jump or self.jumped:
            tree |= {"jumped": _tree(self.jumped), "jump": self.jump}
        if self.noticed:
            tree["noticed"] = {
                str(child): [str(new_partition.parent), new_partition.at, new_partition.end]
                for child, new_partition in sorted(self.noticed.items())
            }
        if self.skew:
            tree["skew"] = self.skew
        if self.record_bytes:
            tree["recordBytes"] = dict(sorted(self.record_bytes.items()))
        if self.tables:
            tree |= {
                "tables": dict(sorted(self.tables.items())),
                "incomplete": list(self.incomplete),
                "tableInputs": _tree(self.table_inputs),
            }
        if self.quiet:
            tree["quiet"] = True
        if self.epochs:
            tree["epochs"] = _tree(self.epochs)
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
                    parse_partition(parent), int(noticed_at), None if end is None else int(end)
                )
                for child, (parent, noticed_at, end) in tree.get("noticed", {}).items()
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
                tables={str(table): int(batch) for table, batch in tree.get("tables", {}).items()},
                incomplete=tuple(map(str, tree.get("incomplete", ()))),
                table_inputs=_read(tree.get("tableInputs", {})),
                quiet=bool(tree.get("quiet", False)),
                epochs=_read(tree.get("epochs", {})),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            message = (
                f"the offset log holds {text[:200]!r}, which Holdfast did not write like this ({error}); put the "
                "checkpoint back, or start under a new spec.runId"
            )
            raise OffsetsUnreadableError(message) from error


_name = lru_cache(maxsize=1 << 18)(str)
"""Partition -> its name: the names of all that an app reads are written with each batch."""


def _tree(offsets: Mapping[StreamPartition, int]) -> dict[str, int]:
    partitions = sorted(offsets)
    return dict(zip(map(_name, partitions), map(offsets.__getitem__, partitions), strict=True))


def _sorted(numbers: Mapping[str, int]) -> dict[str, int]:
    return {name: numbers[name] for name in sorted(numbers)}


def _under(names: Mapping[str, str], offsets: Mapping[StreamPartition, int]) -> dict[StreamPartition, int]:
    return {
        partition._replace(stream=names.get(partition.stream, partition.stream)): offset
        for partition, offset in offsets.items()
    }


def _read(tree: Mapping[str, int]) -> dict[StreamPartition, int]:
    return {parse_partition(name): int(offset) for name, offset in tree.items()}


_FORMAT = 2


@dataclass(frozen=True, slots=True)
class Jump:
    """New positions that a user has set."""

    id: str
    """Unique among all jumps."""
    found: Mapping[StreamPartition, int]
    """Partition -> its position when the jump was asked for."""
    to: Mapping[StreamPartition, int]
    """Partition -> the offset to read next."""
    ids: Mapping[str, str] = field(default_factory=dict)
    """Stream -> the id of its new topic, for topics that were created again: from now on that one is read."""

    def under(self, names: Mapping[str, str]) -> "Jump":
        """Return the jump with these names of streams."""
        ids = {names.get(stream, stream): id_ for stream, id_ in self.ids.items()}
        return Jump(self.id, _under(names, self.found), _under(names, self.to), ids)

    def text(self) -> str:
        """Return the jump as JSON."""
        partitions = {str(partition): [self.found[partition], to] for partition, to in sorted(self.to.items())}
        return sealed({"format": _FORMAT, "id": self.id, "partitions": partitions, "ids": dict(self.ids)})

    @classmethod
    def parse(cls, text: str) -> "Jump":
        """Return the jump from its text; raise `JumpUnreadableError`."""
        try:
            tree = json.loads(text)
            if tree["format"] == _FORMAT:
                unsealed(text)
                moves = {
                    parse_partition(name): (int(position), int(to))
                    for name, (position, to) in tree["partitions"].items()
                }
                positions, to = (
                    {partition: position for partition, (position, _) in moves.items()},
                    {partition: to for partition, (_, to) in moves.items()},
                )
                return cls(
                    str(tree["id"]), positions, to, {str(name): str(topic_id) for name, topic_id in tree["ids"].items()}
                )
            why = f"it is in format {tree['format']}, and this release of Holdfast reads {_FORMAT}"
        except (ValueError, KeyError, TypeError, AttributeError, UserActionError) as error:
            why = f"{text[:200]!r} is nothing that Holdfast wrote ({type(error).__name__}: {error})"
        message = f"positions were set that can't be read: {why}; set them once more with `holdfast offsets`"
        raise UserActionError(message, code="JumpUnreadableError")


def jumped(before: Offsets, jump: Jump, read: Collection[StreamPartition]) -> Offsets:
    """Return the offsets with the positions of the jump; raise `JumpStaleError` if positions have changed."""
    for partition, offset in jump.found.items():
        current = before.positions.get(partition)
        if partition not in read or current != offset:
            now = "is not read any more" if partition not in read else f"stands at {current} now"
            message = (
                f"positions were set with `holdfast offsets --set` while {partition} stood at {offset}, but it {now}: "
                "nothing was changed. Look again with `holdfast offsets`, and set them again"
            )
            raise UserActionError(message, code="JumpStaleError")
    # The end of the old topic does not hold for a new one.
    ends = {
        partition: end
        for partition, end in before.ends.items()
        if partition not in jump.to or partition.stream not in jump.ids
    }
    epochs = {partition: epoch for partition, epoch in before.epochs.items() if partition not in jump.to}
    positions, ids = {**before.positions, **jump.to}, {**before.ids, **jump.ids}
    return replace(before, positions=positions, ends=ends, ids=ids, epochs=epochs)


_NAME = "jump.json"


class JumpFile:
    """The file with the pending jump of one run."""

    def __init__(self, shared: Storage) -> None:
        """`shared`: the storage of the run's shared files."""
        self.storage = shared

    @classmethod
    def beside(cls, query: Path) -> Self:
        """Return the file of a run on this host; `query`: Spark's checkpoint of the run."""
        return cls(DirectoryStorage(query.parent))

    def read(self) -> Jump | None:
        """Return the pending jump; None if there is none. Raise `JumpUnreadableError`."""
        content = self.storage.read(_NAME)
        return None if content is None else Jump.parse(content.decode(errors="replace"))

    def write(self, jump: Jump) -> None:
        """Make this the pending jump, in place of any other."""
        self.storage.write(_NAME, [jump.text().encode()], replace=True)

    def remove(self) -> None:
        """Remove the pending jump. If a power cut brings it back, its id shows that it was made."""
        for _ in self.storage.delete([_NAME]):
            pass


class DueJump:
    """The jump that an attempt has to make, if there is one."""

    def __init__(self, file: JumpFile) -> None:
        self._file = file
        self._settled = False

    def after(self, done: Offsets) -> Jump | None:
        """Return the jump that the next batch has to make; `done`: the offsets of the last committed batch."""
        if self._settled:
            return None
        jump = self._file.read()
        if jump is not None and jump.id != done.jump:
            return jump
        # Removed only now: before its batch is committed, the jump would be lost if that batch never was.
        if jump is not None:
            # If it stays, its id shows that it was made.
            with obsolete_may_stay(self._file.storage):
                self._file.remove()
        self._settled = True
        return None
