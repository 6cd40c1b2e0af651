"""The writing of a batch's deltas, beside what else is done before anybody can see the batch.

On a disk one after the other; in an object store, where each takes some round trips, many at once. Must not know what
is done meanwhile, nor what a delta holds.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from types import TracebackType
from typing import Self

from holdfast_runtime.per_process import PerProcess
from holdfast_runtime.state.durable.copy import DurableCopy

_POOLS = PerProcess[int, ThreadPoolExecutor](lambda at_once: ThreadPoolExecutor(at_once, "deltas"))
"""By how many write at once. They stay: to start a thread in each batch costs as much as a small delta."""


class DeltaWrites:
    """The deltas of one batch of a slot. After a failure no other is begun, and none is under way behind the block."""

    def __init__(self, at: Callable[[str], None]) -> None:
        self._at = at
        self._writes: list[Future[None]] = []
        self._over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over = True
        wait_for(self._writes)

    def begin(self, durable: DurableCopy, write: Callable[[], None]) -> None:
        """Begin to write a delta into this copy, by `write`."""
        self._writes.append(_POOLS.of(durable.storage.at_once).submit(self._write, write))

    def wait(self) -> None:
        """Return when all are written; raise what went wrong."""
        for write in self._writes:
            write.result()

    def _write(self, write: Callable[[], None]) -> None:
        if self._over:
            return
        try:
            write()
            self._at("delta written")
        except BaseException:
            self._over = True
            raise
