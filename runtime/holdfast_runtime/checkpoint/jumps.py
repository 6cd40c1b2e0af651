"""Jumps: positions that a user has set (`holdfast offsets --set`), and the file beside the checkpoint that holds them.

The command writes the file; the first batch of the next attempt makes the jump and records it in its offsets, so that a
replay makes the same jump. A jump is made once: the offsets hold the id of the last one. The file is written
atomically, and is on disk when `write` returns. Must not read streams.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from holdfast.errors import UserActionError
from holdfast.tasks.partitions import StreamPartition, parse_partition
from holdfast_runtime.checkpoint.offsets import Offsets
from holdfast_runtime.sealed_json import sealed, unsealed
from holdfast_runtime.state.storage import FolderStorage, Storage

_FORMAT = 2


class JumpStaleError(UserActionError):
    """The app's positions have changed since the jump was asked for."""


class JumpUnreadableError(UserActionError):
    """The file of a jump is not one that this release of Holdfast writes."""


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

    def text(self) -> str:
        """Return the jump as JSON."""
        partitions = {str(one): [self.found[one], to] for one, to in sorted(self.to.items())}
        return sealed({"format": _FORMAT, "id": self.id, "partitions": partitions, "ids": dict(self.ids)})

    @classmethod
    def parse(cls, text: str) -> "Jump":
        """Return the jump from its text; raise `JumpUnreadableError`."""
        try:
            tree = json.loads(text)
            if tree["format"] == _FORMAT:
                unsealed(text)
                both = {parse_partition(name): (int(at), int(to)) for name, (at, to) in tree["partitions"].items()}
                found, to = {one: at for one, (at, _) in both.items()}, {one: to for one, (_, to) in both.items()}
                return cls(str(tree["id"]), found, to, {str(name): str(one) for name, one in tree["ids"].items()})
            why = f"it is in format {tree['format']}, and this release of Holdfast reads {_FORMAT}"
        except (ValueError, KeyError, TypeError, AttributeError, UserActionError) as error:
            why = f"{text[:200]!r} is nothing that Holdfast wrote ({type(error).__name__}: {error})"
        message = f"positions were set that can't be read: {why}; set them once more with `holdfast offsets`"
        raise JumpUnreadableError(message)


def jumped(before: Offsets, jump: Jump, read: Collection[StreamPartition]) -> Offsets:
    """Return the offsets with the positions of the jump; raise `JumpStaleError` if positions have changed."""
    for partition, at in jump.found.items():
        stands = before.positions.get(partition)
        if partition not in read or stands != at:
            now = "is not read any more" if partition not in read else f"stands at {stands} now"
            message = (
                f"positions were set with `holdfast offsets --set` while {partition} stood at {at}, but it {now}: "
                "nothing was changed. Look again with `holdfast offsets`, and set them anew"
            )
            raise JumpStaleError(message)
    # The end of the old topic does not hold for a new one.
    ends = {one: end for one, end in before.ends.items() if one not in jump.to or one.stream not in jump.ids}
    return replace(before, positions={**before.positions, **jump.to}, ends=ends, ids={**before.ids, **jump.ids})


_NAME = "jump.json"


class JumpFile:
    """The file with the pending jump of one run."""

    def __init__(self, shared: Storage) -> None:
        """`shared`: the storage of the run's shared files."""
        self._storage = shared

    @classmethod
    def beside(cls, query: Path) -> Self:
        """Return the file of a run on this host; `query`: Spark's checkpoint of the run."""
        return cls(FolderStorage(query.parent))

    def read(self) -> Jump | None:
        """Return the pending jump; None if there is none. Raise `JumpUnreadableError`."""
        content = self._storage.read(_NAME)
        return None if content is None else Jump.parse(content.decode(errors="replace"))

    def write(self, jump: Jump) -> None:
        """Make this the pending jump, in place of any other."""
        self._storage.write(_NAME, [jump.text().encode()], replace=True)

    def remove(self) -> None:
        """Remove the pending jump. If a power cut brings it back, its id shows that it was made."""
        for _ in self._storage.delete([_NAME]):
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
            self._file.remove()
        self._settled = True
        return None
