"""The commit of a batch: first deltas, then outputs with their marker, then local stores.

    compute -> deltas, beside them outputs that nobody can see yet -> outputs -> local stores

With this order, dying at any point neither loses nor duplicates anything. What decides a batch is its delta, or one
transaction that has all its outputs (`OutputTransaction`). A replay of a decided batch takes state and outputs as they
were decided and computes nothing, so functions that return something different each time are exactly-once too. Outputs
are committed before the local store, because a replay looks at the store last. `outputs` must be idempotent by (task,
batch, digest): it sees a batch again whenever a process died after writing deltas. It begins while they are written,
and calls what it is given before anybody can see an output. Must not know streams: outputs are bytes by name.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Protocol

from holdfast.errors import UserActionError
from holdfast_runtime.state.durable.copy import DurableCopy
from holdfast_runtime.state.durable.delta_writes import DeltaWrites
from holdfast_runtime.state.store.delta import Delta, StoredDelta, pack_delta
from holdfast_runtime.state.store.task_store import BatchWork, CommittedBatch, TaskStore

COMMIT_STEPS = ("computed", "delta written", "outputs committed", "state committed")

Outputs = Mapping[str, bytes]
Compute = Callable[[Sequence[TaskStore]], Mapping[str, Outputs]]
"""Runs a batch over the tables of these stores and returns the outputs by task. A replay may leave some stores out."""


class OutputTransaction(Protocol):
    """The transactions that a slot's outputs are in. Where they have all of them, deltas need none, and they decide.

    A slot's process has them under a name that one process holds at a time. A delta without its outputs is written only
    while its process holds the name, which has to last until the commit. So whoever finds such a delta, and takes the
    name after that, knows what has become of it.
    """

    @property
    def decides(self) -> str | None:
        """What has all outputs, by name; None: they go into deltas."""

    def hold(self) -> None:
        """Hold the name until the commit, or fail to commit."""

    def take(self) -> None:
        """Take the name from any other process, and learn what has been committed under it."""

    def has(self, delta: Delta) -> bool:
        """Whether the outputs of a delta without them have been committed, as far as was learnt."""


@dataclass(frozen=True, slots=True)
class TaskCommit:
    """One task of a slot."""

    store: TaskStore
    durable: DurableCopy
    batch: int
    """The number of the task's own batch. A task without work skips a batch of the app, so the two numbers differ."""
    sent: int | None = None
    """The task's last batch whose outputs existed when the attempt began; None if there were none."""
    goes_on: bool = False
    """Whether this process has committed the batch before, and nothing of this one or a later one was there."""

    @property
    def lies_ahead(self) -> bool:
        """Whether an earlier attempt has come further than this batch, so that more of it may be found."""
        return (self.sent or 0) > self.batch or self.durable.has_after(self.batch)


def is_decided(delta: Delta, transaction: OutputTransaction) -> bool:
    """Return whether a batch has to stay as this delta has it."""
    return delta.withheld is None or transaction.has(delta)


def commit(
    parts: Sequence[TaskCommit],
    epoch: int,
    compute: Compute,
    outputs: Callable[[Sequence[Delta], Callable[[], None]], None],
    transaction: OutputTransaction,
    at: Callable[[str], None] = lambda _: None,
) -> list[Delta]:
    """Commit a batch of the slot's tasks to durable copies, outputs and stores; `at` is called after each step.

    `outputs` is also given what returns when all deltas are durable.
    """
    former = _former_deltas(parts, epoch, transaction)
    fresh = [part for part in parts if former[part.store.task].decided is None]
    for part in fresh:
        part.store.begin(part.batch, epoch)
    results = compute([part.store for part in fresh]) if fresh else {}
    at("computed")
    if transaction.decides is not None and any(results.values()):
        transaction.hold()
    deltas = list[Delta]()
    with DeltaWrites(at) as writes:
        for part in parts:
            before, durable = former[part.store.task], part.durable
            if (decided := before.decided) is not None:
                deltas.append(decided.delta)
                if decided.object.epoch < epoch:
                    writes.begin(durable, partial(durable.adopt, decided, epoch))
                else:
                    at("delta written")
            else:
                packed = pack_delta(part.store.delta(results.get(part.store.task), transaction.decides))
                deltas.append(packed.delta)
                writes.begin(durable, partial(durable.write_delta, packed, before.retry))
        try:
            outputs(deltas, writes.wait)
        except UserActionError:
            # Outputs that can't be ours are another process's, if it has written the delta.
            writes.wait()
            raise
        writes.wait()
    at("outputs committed")
    for part, delta in zip(parts, deltas, strict=True):
        part.store.commit(delta.size)
        at("state committed")
    return deltas


@dataclass(frozen=True, slots=True)
class _Former:
    """What earlier tries of a batch have left of a task."""

    decided: StoredDelta | None = None
    retry: int = 0
    """How many deltas of this attempt were in vain."""


def _former_deltas(parts: Sequence[TaskCommit], epoch: int, transaction: OutputTransaction) -> dict[str, _Former]:
    """Return what earlier tries left of each task, with the store begun and loaded from a delta that is decided."""
    former = {part.store.task: _Former() for part in parts}
    sought = [part for part in parts if not part.goes_on]
    if not sought:
        return former
    with ThreadPoolExecutor(sought[0].durable.storage.at_once) as pool:
        pairs = zip(sought, pool.map(_former_delta, sought, repeat(epoch)), strict=True)
        stored_deltas = [(part, stored) for part, stored in pairs if stored is not None]
    undecided = list[tuple[TaskCommit, StoredDelta]]()
    for part, stored in stored_deltas:
        if is_decided(stored.delta, transaction):
            former[part.store.task] = _Former(stored)
        elif stored.object.epoch == epoch:
            undecided.append((part, stored))
    # The writers of earlier attempts were shut out before this one began. Those of this attempt may still be at work.
    if undecided:
        transaction.take()
        former |= {part.store.task: _settled(part, stored, transaction) for part, stored in undecided}
    for part in sought:
        if (decided := former[part.store.task].decided) is not None:
            _take_up(part, decided.delta, epoch)
    return former


def _settled(part: TaskCommit, stored: StoredDelta, transaction: OutputTransaction) -> _Former:
    """Return what has become of this attempt's delta, whose writer can't commit any more."""
    newest = part.durable.find_delta(part.batch, stored.object.epoch)
    if newest is not None and is_decided(newest.delta, transaction):
        return _Former(newest)
    # If a newer one is there, whoever wrote it may commit: the name is taken, and this try ends.
    return _Former(retry=stored.object.retry + 1)


def _former_delta(part: TaskCommit, epoch: int) -> StoredDelta | None:
    """Return the delta that an earlier try left; None if there is none."""
    store, batch = part.store, part.batch
    if store.head.epoch is None or store.head.epoch < epoch:
        # Fence before searching: an older attempt whose delta this search misses sees the fence and stops before
        # outputs.
        part.durable.fence(epoch)
    stored = part.durable.find_delta(batch, epoch)
    if stored is None:
        if store.head.batch == batch:
            message = (
                f"batch {batch} of {store.directory.identity} was committed here, but its delta is gone from "
                f"{part.durable.storage.directory}: its outputs can't be repeated as they were. Put the checkpoint "
                f"back, or start under a new spec.runId"
            )
            raise UserActionError(message, code="DeltaMissingError")
        if part.sent is not None and part.sent >= batch:
            # Computed again, the outputs could differ, while some partitions already have the first rows.
            message = (
                f"outputs of batch {batch} of {store.directory.identity} are written, but its delta is gone from "
                f"{part.durable.storage.directory}: they can't be repeated as they were. Bring back the checkpoint "
                f"that they were written with, or start under a new spec.runId"
            )
            raise UserActionError(message, code="DeltaMissingError")
    return stored


def _take_up(part: TaskCommit, delta: Delta, epoch: int) -> None:
    """Begin the batch with what a former delta did, unless the store has committed that."""
    store, batch = part.store, part.batch
    same = store.head.batch == batch and store.head.epoch == delta.epoch
    if store.begin(batch, epoch, CommittedBatch.KEEP if same else CommittedBatch.UNDO) is BatchWork.RUN:
        store.load(delta)
