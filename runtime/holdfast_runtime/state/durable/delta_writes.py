"""The writing of a batch's deltas, beside what else is done before anybody can see the batch.

On a disk one after the other; in an object store, where each takes some round trips, many at once. Must not know what
is done meanwhile, nor what a delta holds.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from holdfast_runtime.state.durable.copy import DurableCopy
from holdfast_runtime.state.store.delta import PackedDelta


class DeltaWrites:
    """The deltas of one batch of a slot. After a failure no other is begun, and none is under way behind the block."""

    def __init__(self, at: Callable[[str], None]) -> None:
        self._at = at
        self._pool: ThreadPoolExecutor | None = None
        self._writes: list[Future[None]] = []
        self._over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over = True
        if self._pool is not None:
            self._pool.shutdown()

    def begin(self, durable: DurableCopy, packed: PackedDelta) -> None:
        """Begin to write a delta."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(durable.storage.at_once, "deltas")
        self._writes.append(self._pool.submit(self._write, durable, packed))

    def wait(self) -> None:
        """Return when all are written; raise what went wrong."""
        for write in self._writes:
            write.result()

    def _write(self, durable: DurableCopy, packed: PackedDelta) -> None:
        if self._over:
            return
        try:
            durable.write_delta(packed)
            self._at("delta written")
        except BaseException:
            self._over = True
            raise
