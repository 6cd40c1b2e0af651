"""The job that runs all slots of a batch, as the loop knows it, and an early start for what is slow in a new JVM.

It lies below `loop`, `checkpoint` and `spark`, which all run or wrap a job. Must not import Spark: tests without a JVM
run jobs too.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar


class JobFailedError(Exception):
    """A slot could not answer; the text says what is known of it."""


class BatchTexts(Protocol):
    """The plan of a batch, as slots get it."""

    def text(self) -> str:
        """Return the whole plan."""
        ...

    def texts(self, slots: Sequence[Sequence[str]]) -> list[str]:
        """Return the part of each slot, given by its tasks."""
        ...


class Job(Protocol):
    """Runs all slots of a batch."""

    def run(self, batch: BatchTexts) -> list[str]:
        """Run the batch with this plan; return one answer per slot."""
        ...

    def end(self) -> None:
        """Give back what slots keep between batches; a batch that runs fails. No batch is run any more."""
        ...


_Made = TypeVar("_Made")


def start_early(make: Callable[[], _Made]) -> Callable[[], _Made]:
    """Start `make` in a thread; return a function that waits for its result, or raises its error."""
    pool = ThreadPoolExecutor(1, "prepare")
    ready = pool.submit(make)
    pool.shutdown(wait=False)
    return ready.result
