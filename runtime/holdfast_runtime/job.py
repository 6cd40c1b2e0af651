"""The job that runs all slots of a batch, as the loop knows it, and an early start of what is slow in a new JVM.

It lies below loop, `checkpoint` and `spark`, which all run or wrap one. Must not import Spark: tests without a JVM
run jobs too.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar


class Job(Protocol):
    """What runs all slots of a batch."""

    def run(self, batch: str) -> list[str]:
        """One answer for each slot."""
        ...


_Made = TypeVar("_Made")


def start_early(make: Callable[[], _Made]) -> Callable[[], _Made]:
    """Begin in a thread; what is returned waits for the result, or raises what went wrong."""
    pool = ThreadPoolExecutor(1, "prepare")
    ready = pool.submit(make)
    pool.shutdown(wait=False)
    return ready.result
