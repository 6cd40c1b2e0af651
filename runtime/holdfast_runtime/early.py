"""Why: in a new JVM many things take seconds the first time; what is certain to be wanted is begun before it is.

Must not know what is made.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Made = TypeVar("_Made")


def start_early(make: Callable[[], _Made]) -> Callable[[], _Made]:
    """Begin in a thread; what is returned waits for the result, or raises what went wrong."""
    pool = ThreadPoolExecutor(1, "prepare")
    ready = pool.submit(make)
    pool.shutdown(wait=False)
    return ready.result
