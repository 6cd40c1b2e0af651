"""Where a task's store stands: its head, and how it is stored in the store's file.

Must not write to a file but in the transaction it is given.
"""

import json
from dataclasses import dataclass

import lmdb

from holdfast_runtime.state.store.environment import WriteTransaction

HEAD = b"head"
"""The name of the database that holds the head, and its key there."""


@dataclass(frozen=True, slots=True)
class StoreHead:
    """The position of a store. Before the first commit it stands at the batch before the task's first."""

    batch: int
    start: int
    """The batch before the task's first."""
    epoch: int | None = None
    """The attempt that computed this state; None if nothing was committed."""
    undo: bool = False
    undo_epoch: int | None = None
    snapshot: int | None = None
    """The last batch with a snapshot in the durable copy."""
    snapshot_bytes: int = 0
    delta_bytes: int = 0
    """Total size of the deltas since that snapshot, without outputs."""
    bundle: int | None = None
    """The last batch that is in a bundle since that snapshot."""
    bundles: int = 0
    """How many bundles there are since that snapshot."""
    bundled_bytes: int = 0
    """What of `delta_bytes` is in them."""

    @property
    def deltas(self) -> int:
        """How many deltas there are since that snapshot and its bundles."""
        return self.batch - max(batch for batch in (self.start, self.snapshot, self.bundle) if batch is not None)


def head_of(stored: bytes | None) -> StoreHead:
    """Return what is stored as a head; raise `ValueError` if that is none."""
    try:
        return StoreHead(**json.loads(stored or b""))
    except (TypeError, ValueError) as error:
        message = f"it has no readable head ({error})"
        raise ValueError(message) from error


def stored_head(env: lmdb.Environment, txn: "lmdb.Transaction[bytes]") -> StoreHead:
    """Return the head of a store that is read from outside; raise `ValueError` or LMDB's errors if there is none."""
    return head_of(txn.get(HEAD, db=env.open_db(HEAD, txn, create=False)))


def put_head(txn: WriteTransaction, head: StoreHead) -> None:
    """Write a head."""
    content = {name: getattr(head, name) for name in StoreHead.__slots__}
    txn.put(HEAD, [(HEAD, json.dumps(content).encode())])
