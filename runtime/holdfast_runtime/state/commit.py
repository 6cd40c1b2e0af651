"""The commit of a batch: first deltas, then outputs with their marker, then local stores.

    compute -> deltas, beside them outputs that nobody can see yet -> outputs -> local stores

With this order, dying at any point neither loses nor duplicates anything. Once its delta is written, a batch is
decided: a replay takes state and outputs from the delta and computes nothing, so functions that return something
different each time are exactly-once too. Outputs are committed before the local store, because a replay looks at the
store last. `outputs` must be idempotent by (task, batch, digest): it sees a batch again whenever a process died after
writing deltas. It begins while they are written, and calls what it is given before anybody can see an output. Must not
know streams: outputs are bytes by name.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat

from holdfast.errors import UserActionError
from holdfast_runtime.state.durable.copy import DurableCopy
from holdfast_runtime.state.durable.delta_writes import DeltaWrites
from holdfast_runtime.state.store.delta import Delta, pack_delta
from holdfast_runtime.state.store.task_store import BatchWork, CommittedBatch, TaskStore

COMMIT_STEPS = ("computed", "delta written", "outputs committed", "state committed")

Outputs = Mapping[str, bytes]
Compute = Callable[[Sequence[TaskStore]], Mapping[str, Outputs]]
"""Runs a batch over the tables of these stores and returns the outputs by task. A replay may leave some stores out."""


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


def commit(
    parts: Sequence[TaskCommit],
    epoch: int,
    compute: Compute,
    outputs: Callable[[Sequence[Delta], Callable[[], None]], None],
    at: Callable[[str], None] = lambda _: None,
) -> list[Delta]:
    """Commit a batch of the slot's tasks to durable copies, outputs and stores; `at` is called after each step.

    `outputs` is also given what returns when all deltas are durable.
    """
    former_deltas = _former_deltas(parts, epoch)
    fresh = [part for part in parts if former_deltas[part.store.task] is None]
    for part in fresh:
        part.store.begin(part.batch, epoch)
    results = compute([part.store for part in fresh]) if fresh else {}
    at("computed")
    deltas, sizes = list[Delta](), list[int]()
    with DeltaWrites(at) as writes:
        for part in parts:
            delta, size = former_deltas[part.store.task], 0
            if delta is None:
                packed = pack_delta(part.store.delta(dict(results.get(part.store.task, {}))))
                writes.begin(part.durable, packed)
                delta, size = packed.delta, len(packed.state)
            else:
                at("delta written")
            deltas.append(delta)
            sizes.append(size)
        outputs(deltas, writes.wait)
        writes.wait()
    at("outputs committed")
    for part, size in zip(parts, sizes, strict=True):
        part.store.commit(size)
        at("state committed")
    return deltas


def _former_deltas(parts: Sequence[TaskCommit], epoch: int) -> dict[str, Delta | None]:
    """Return for each task the delta that an earlier try left, with the store begun and loaded from it."""
    deltas: dict[str, Delta | None] = {part.store.task: None for part in parts}
    sought = [part for part in parts if not part.goes_on]
    if sought:
        with ThreadPoolExecutor(sought[0].durable.storage.at_once) as pool:
            former_deltas = list(pool.map(_former_delta, sought, repeat(epoch)))
        for part, delta in zip(sought, former_deltas, strict=True):
            if delta is not None:
                _take_up(part, delta, epoch)
                deltas[part.store.task] = delta
    return deltas


def _former_delta(part: TaskCommit, epoch: int) -> Delta | None:
    """Return the delta that an earlier try left; None if there is none."""
    store, batch = part.store, part.batch
    if store.head.epoch is None or store.head.epoch < epoch:
        # Fence before searching: an older attempt whose delta this search misses sees the fence and stops before
        # outputs.
        part.durable.fence(epoch)
    delta = part.durable.find_delta(batch, epoch)
    if delta is None:
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
    return delta


def _take_up(part: TaskCommit, delta: Delta, epoch: int) -> None:
    """Begin the batch with what a former delta did, unless the store has committed that."""
    store, batch = part.store, part.batch
    same = store.head.batch == batch and store.head.epoch == delta.epoch
    if store.begin(batch, epoch, CommittedBatch.KEEP if same else CommittedBatch.UNDO) is BatchWork.RUN:
        store.load(delta)
