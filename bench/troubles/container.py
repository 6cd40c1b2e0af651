"""An operator that is started again when it ends, as a kubelet does it. Must not end it by itself."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from tests.forked import ForkedProcess
from tests.waiting import patience

_FIRST_WAIT, _LONGEST_WAIT = 10.0, 300.0
_EVERY = 0.1


@dataclass(slots=True)
class Container:
    """The operator's process of now, and how those before have ended."""

    exits: list[int] = field(default_factory=list)
    process: ForkedProcess | None = None
    _stop: threading.Event = field(default_factory=threading.Event)

    @property
    def pid(self) -> int | None:
        """The number of its process; None: it waits to be started."""
        return None if self.process is None else self.process.pid

    def run(self, started: Callable[[], AbstractContextManager[ForkedProcess]]) -> None:
        """Until `stop`."""
        wait = 0.0
        while not self._stop.wait(wait):
            with started() as self.process:
                while (code := self.process.poll()) is None and not self._stop.wait(_EVERY):
                    pass
            if code is not None:
                self.exits.append(code)
            self.process = None
            wait = min(max(2 * wait, _FIRST_WAIT), _LONGEST_WAIT)

    def stop(self) -> None:
        """End it for good."""
        self._stop.set()


@contextmanager
def container(started: Callable[[], AbstractContextManager[ForkedProcess]]) -> Iterator[Container]:
    """An operator that a kubelet keeps running."""
    made = Container()
    keeper = threading.Thread(target=made.run, args=(started,), name="container")
    keeper.start()
    try:
        yield made
    finally:
        made.stop()
        keeper.join(patience(30))
