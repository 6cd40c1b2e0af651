"""An app under load, and what every scenario asks of it: does it flow again, is it all there?"""

import time
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from tests.kafka.counted import Counted
from tests.kafka.load import Load, Reader, kept
from tests.kind.windowed import check_windows
from tests.waiting import wait_until

FLOWS = 90.0
_SETTLES = 180.0


class Fed:
    """Rows for a `Counted` app until it is left. What is read is compared at once; windows at the end."""

    def __init__(self, counted: Counted, *, windows: bool = False) -> None:
        """`windows`: whether the app has those of `with_windows`."""
        self.load = Load(counted)
        self._counted, self._windows = counted, windows
        self.reader = Reader(counted)
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._open.enter_context(self.load)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open.__exit__(kind, error, at)

    def flows(self, seconds: float = FLOWS) -> float:
        """Wait for the result of a row that did not exist before; how long it took. Raises what is wrong meanwhile.

        A batch that was on its way when something died may still be committed; it can't have this row.
        """
        due, began = self.load.count + 12, time.monotonic()  # a row in ten is dropped, one of twelve keys is not

        def there() -> bool:
            self.reader.catch_up()
            return self.reader.newest >= due

        wait_until(there, seconds, f"row {due} comes out; {self.reader.rows} rows did, {self.load.count} went in")
        return time.monotonic() - began

    def settles(self, seconds: float = _SETTLES) -> int:
        """Feed no more, and wait until everything has come out, once and in order; how many rows went in."""
        count = self.load.end()
        due = kept(count)
        wait_until(lambda: self.reader.catch_up() >= due, seconds, f"{due} rows come out of {count}")
        assert self.reader.rows == due
        if self._windows:
            wait_until(lambda: check_windows(self._counted, count), seconds, f"the windows of {count} rows come out")
        return count
