"""The notes in an app's marker topic, so that no attempt repeats what another has written.

    partition 0        who owns the name, and which attempt writes now               outside of transactions
    partition 1        what was written before it began                              outside of transactions
    partition 2 + s    slot s: the task markers of its last transaction              inside that transaction

Each slot has a partition of its own: a reader of committed records sees nothing behind an open transaction in a
partition, so a marker there would be missed while somebody else's transaction is open. Must not read or write topics.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from holdfast.errors import HoldfastError, UserActionError
from holdfast_runtime.streams.markers import AttemptId, TaskMarkers, newest
from holdfast_runtime.streams.records import Marker

ATTEMPTS, BEFORE = 0, 1
_OWNER = "owner"
NoteRecord = tuple[bytes, bytes | None]
"""Key and value of a record; a value of None takes the note back."""


def slot_partition(slot: int) -> int:
    """Return the partition of a slot's markers."""
    return 2 + slot


def attempt_note(who: AttemptId, slots: int) -> NoteRecord:
    """Return the note that an attempt begins, with the most slots it will have."""
    return _key("attempt", who), _value({"slots": slots})


def owner_note(owner: str) -> NoteRecord:
    """Return the note that the app belongs to an owner."""
    return json.dumps([_OWNER, owner], ensure_ascii=False).encode(), _value({})


def slot_note(who: AttemptId, slot: int, turns: TaskMarkers) -> NoteRecord:
    """Return the note of the batches that its transaction holds."""
    return _key("slot", who, slot), _value(_turns(turns))


def before_note(who: AttemptId, turns: TaskMarkers) -> NoteRecord:
    """Return the note of what earlier attempts of the run had written when this one began."""
    return _key("before", who), _value(_turns(turns))


def check_newest(who: AttemptId, newest: AttemptId | None) -> None:
    """Refuse to write if another attempt may."""
    if newest != who:
        other = "nobody" if newest is None else f"attempt {newest.number} of run {newest.run}"
        message = (
            f"attempt {who.number} of run {who.run} of {who.app} may not write any more: {other} does. If none such "
            f"is at work, the number of the last attempt was lost or put back to an older one: bring it back (with "
            f"the data directory, on a laptop), start until it is passed, or start under a new spec.runId"
        )
        raise HoldfastError(message, code="FencedError")


def partition_of(key: bytes) -> tuple[int, bool]:
    """Return the partition of a note with this key, and whether it notes the beginning of an attempt."""
    kind, _, _, *slot = json.loads(key)
    is_attempt = kind == "attempt"
    return slot_partition(slot[0]) if slot else ATTEMPTS if is_attempt else BEFORE, is_attempt


def taken_back(key: bytes) -> NoteRecord:
    """Return the record that takes a note back."""
    return key, None


@dataclass(slots=True)
class Notes:
    """What the notes of an app say together."""

    app: str
    owners: list[str] = field(default_factory=list)
    """Owners that claim the name, in order of their notes."""
    last: str | None = None
    """The run of the attempt that noted itself last."""
    slots: dict[AttemptId, int] = field(default_factory=dict)
    """Attempts not shut out yet -> the most slots they have."""
    turns: dict[AttemptId, TaskMarkers] = field(default_factory=dict)
    """Attempt -> what it, or an earlier one, has written."""
    keys: dict[bytes, AttemptId] = field(default_factory=dict)
    """Existing notes -> the attempt that wrote them."""

    def add(self, notes: Iterable[NoteRecord]) -> "Notes":
        """Add notes in the order of their partition, and return self."""
        for key, value in notes:
            if (owner := _read_owner(key)) is not None:
                self._own(owner, stands=value is not None)
                continue
            kind, who = self._read_key(key)
            if kind == "attempt" and value is not None:
                self.last = who.run
                self.slots[who] = _number(_tree(key, value), "slots", key)
            elif kind == "attempt":
                self.slots.pop(who, None)
            elif value is not None:
                self._merge(who, _tree(key, value).get("turns"), key)
            if value is None:
                self.keys.pop(key, None)
            else:
                self.keys[key] = who
        return self

    @property
    def owner(self) -> str | None:
        """The owner of the name, or None if nobody has it yet."""
        return self.owners[0] if self.owners else None

    @property
    def newest(self) -> AttemptId | None:
        """The attempt that may write: the highest of the run that began last, even if an older one notes itself."""
        return max((who for who in self.slots if who.run == self.last), default=None)

    def of_run(self, run: str) -> TaskMarkers:
        """Return what the attempts of a run have written."""
        return newest(marker for who, turns in self.turns.items() if who.run == run for marker in turns.values())

    def _own(self, owner: str, *, stands: bool) -> None:
        if stands and owner not in self.owners:
            self.owners.append(owner)
        elif not stands and owner in self.owners:
            self.owners.remove(owner)

    def _merge(self, who: AttemptId, turns: object, key: bytes) -> None:
        if not isinstance(turns, dict):
            raise _unreadable(key)
        try:
            markers = [
                Marker(who.owner, task, int(batch), int(epoch), str(life), str(digest))
                for task, (batch, epoch, life, digest) in turns.items()
            ]
        except (TypeError, ValueError) as error:
            raise _unreadable(key) from error
        self.turns[who] = newest([*self.turns.get(who, {}).values(), *markers])

    def _read_key(self, key: bytes) -> tuple[str, AttemptId]:
        try:
            kind, run, number, *_ = json.loads(key)
            return str(kind), AttemptId(self.app, str(run), int(number))
        except (ValueError, TypeError) as error:
            raise _unreadable(key) from error


def _read_owner(key: bytes) -> str | None:
    """Return the owner in an owner note, or None for any other note."""
    try:
        match json.loads(key):
            case [str(kind), str(owner)] if kind == _OWNER:
                return owner
    except ValueError:
        pass
    return None


def _key(kind: str, who: AttemptId, *more: int) -> bytes:
    return json.dumps([kind, who.run, who.number, *more], separators=(",", ":")).encode()


def _turns(turns: TaskMarkers) -> dict[str, object]:
    return {"turns": {task: [marker.batch, marker.epoch, marker.life, marker.digest] for task, marker in turns.items()}}


def _value(tree: Mapping[str, object]) -> bytes:
    return json.dumps(tree, separators=(",", ":"), ensure_ascii=False).encode()


def _tree(key: bytes, value: bytes) -> dict[str, object]:
    try:
        tree = json.loads(value)
    except ValueError as error:
        raise _unreadable(key) from error
    if not isinstance(tree, dict):
        raise _unreadable(key)
    return tree


def _number(tree: Mapping[str, object], name: str, key: bytes) -> int:
    value = tree.get(name)
    if not isinstance(value, int):
        raise _unreadable(key)
    return value


def _unreadable(key: bytes) -> UserActionError:
    return UserActionError(
        f"the marker topic holds a record with the key {key[:200]!r} that this release of Holdfast did not write; run "
        "the release that wrote it, or delete the topic if no batch of the app is half written",
        code="MarkerUnreadableError",
    )
