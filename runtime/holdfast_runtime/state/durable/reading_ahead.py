"""Reading several things at once, where each answer takes its time, and giving them in their order.

Must not know what is read.
"""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

_Item = TypeVar("_Item")
_Read = TypeVar("_Read")


def read_ahead(items: Sequence[_Item], read: Callable[[_Item], _Read], many: int) -> Generator[_Read]:
    """Yield what `read` returns of each item. So many are being read, or wait to be yielded, at a time."""
    if min(many, len(items)) <= 1:
        yield from map(read, items)
        return
    with ThreadPoolExecutor(min(many, len(items)), "ahead") as pool:
        left, reading = deque(items), deque[Future[_Read]]()
        while left or reading:
            while left and len(reading) < many:
                reading.append(pool.submit(read, left.popleft()))
            yield reading.popleft().result()
