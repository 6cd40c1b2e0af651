"""The event loop of this process, in a thread of its own: what steps await there, whichever thread they run in.

It lives as long as the process, so that what user functions open in it (sessions, connections) serves all batches. A
forked process gets a loop of its own. Must not know what is awaited.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_loops: dict[int, asyncio.AbstractEventLoop] = {}
_starting = threading.Lock()


def awaited(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return what the coroutine returns, awaited in the loop of this process; raise what it raises."""
    future = asyncio.run_coroutine_threadsafe(coroutine, _loop())
    try:
        return future.result()
    except BaseException:
        # If this thread is interrupted, nobody waits for the calls any more.
        future.cancel()
        raise


def _loop() -> asyncio.AbstractEventLoop:
    with _starting:
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="async-apply", daemon=True).start()
        return loop
