"""The request to drain, which comes as a signal.

`threading.Event` holds a lock in some moments of a wait. Python runs a signal's handler in the main thread, between any
two of its instructions: if that thread waits for the event that the handler sets, both wait for ever. A queue's `get`
is no better: interrupted, it may forget its timeout. Must not know what is drained.
"""

import threading
from multiprocessing import Pipe


class DrainRequest(threading.Event):
    """An event that the handler of a signal may set, whatever its thread does."""

    def __init__(self) -> None:
        super().__init__()
        self._made = False
        self._told, self._tell = Pipe(duplex=False)

    def is_set(self) -> bool:
        """Whether it was made."""
        return self._made

    def set(self) -> None:
        """Make it; it is never taken back."""
        if not self._made:
            self._made = True
            self._tell.send_bytes(b"!")  # which nobody takes out, so that all who wait see it

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for it for so many seconds; return whether it was made."""
        if not self._made:
            self._told.poll(timeout)
        return self._made
