"""The stores that a slot keeps open from one batch to its next one, for as long as its process stays.

Opening a store, and asking its durable copy what is there of a batch, cost as much as a small batch itself. A store is
kept only behind a batch that it has committed, and only if no later batch of an earlier attempt can be there: so the
next one need not ask. No other process can have a store meanwhile. Must not be carried across a fork.
"""

from collections.abc import Sequence
from typing import Final

from holdfast_runtime.state.commit import TaskCommit
from holdfast_runtime.state.store.task_store import TaskStore

_MOST: Final = 200
"""Each takes two files of the thousand that a process may have open."""


class KeptStores:
    """Open stores by task."""

    def __init__(self) -> None:
        self._stores: dict[str, TaskStore] = {}

    def take(self, task: str, batch: int, epoch: int) -> TaskStore | None:
        """Return the store of a task, to be closed or kept again by the caller; None if none is at this batch."""
        store = self._stores.pop(task, None)
        if store is not None and (store.head.batch, store.head.epoch) != (batch - 1, epoch):
            store.close()
            return None
        return store

    def keep(self, parts: Sequence[TaskCommit]) -> None:
        """Keep the stores of tasks that have committed their batch, or close them."""
        staying: dict[str, TaskStore] = {}
        for part in parts:
            # The copy may not answer: then none is kept, and the caller closes them all.
            if len(self._stores) + len(staying) < _MOST and (part.goes_on or not part.lies_ahead):
                staying[part.store.task] = part.store
        for part in parts:
            if part.store.task not in staying:
                part.store.close()
        self._stores |= staying

    def close(self) -> None:
        """Close all stores."""
        while self._stores:
            self._stores.popitem()[1].close()
