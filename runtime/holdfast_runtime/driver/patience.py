"""Patience with a busy host: after how long, and how often, an attempt starts again by itself.

Spark waits ten seconds for a Python process, which can't be set. On a busy host that is too short for now, and some
seconds later it is enough. What an attempt that ended so has begun is taken up by the next one, as after any death.
Must not wait itself: whoever drains the run has to be heard meanwhile.
"""

from collections.abc import Sequence

from holdfast_runtime.spark.session import HostTooBusyError

WAITS = (1, 2, 4, 8, 16, 32)
"""Seconds before each further start in a row."""


class StartPatience:
    """Counts starts in a row that came to nothing."""

    def __init__(self, waits: Sequence[float] = WAITS) -> None:
        self._waits = waits
        self._failed = 0

    def healthy(self) -> None:
        """Note that a batch is done: the host is no longer too busy."""
        self._failed = 0

    def wait(self, error: HostTooBusyError) -> tuple[float, str]:
        """Return the seconds to wait before the next start, and what to say; raise `HostTooBusyError` in the end."""
        starts = len(self._waits)
        if self._failed == starts:
            message = (
                f"{error}, {starts + 1} times in a row over more than {sum(self._waits):g} s. Nothing is lost: give "
                f"the driver more CPU, or run less on this host, and start again"
            )
            raise HostTooBusyError(message) from error
        seconds = self._waits[self._failed]
        self._failed += 1
        return seconds, f"{error}. It starts again by itself in {seconds:g} s ({self._failed} of {starts})"
