"""Batches without a query of Spark's, for apps whose rows pass through Python alone: a thread that keeps the logs.

    log -> the batch that is planned and not done -> (next offsets -> log -> run -> log) ...

Must not decide anything.
"""

import threading
import time

from holdfast_runtime.checkpoint.query_log import QueryLog
from holdfast_runtime.loop.batches import Batches, LoopParts
from holdfast_runtime.loop.stopping import WaitEndedError
from holdfast_runtime.progress import RunEnded

_SHORTEST, _LONGEST = 0.005, 0.02
"""Seconds between two looks for something to read, right behind a batch and after nothing was found for a while."""
_NOTICED_WITHIN = 0.05
_ENDS_WITHIN = 30.0


def run_direct(log: QueryLog, loop: LoopParts) -> RunEnded:
    """Run batches until the run ends; raise what went wrong."""
    batches = Batches(loop)
    thread = threading.Thread(target=_go_on, args=(batches, log, loop), name="batches", daemon=True)

    def has_ended(seconds: float) -> bool:
        thread.join(seconds)
        return not thread.is_alive()

    thread.start()
    try:
        batches.wait(has_ended)
    finally:
        batches.end()
        loop.end()
        thread.join(_ENDS_WITHIN)
    return batches.ended()


def _go_on(batches: Batches, log: QueryLog, loop: LoopParts) -> None:
    try:
        _run(batches, log, loop)
    except WaitEndedError:
        pass
    except Exception as error:  # noqa: BLE001 - it is raised where the run is waited for
        batches.fail(error)


def _run(batches: Batches, log: QueryLog, loop: LoopParts) -> None:
    state = log.begin()
    offsets = state.done
    if state.planned is not None:
        offsets = state.planned
        batches.run(offsets, replay=True)
        log.done()
    pause = _SHORTEST
    while not batches.over:
        began = time.monotonic()
        after = batches.after(offsets)
        if batches.ending is not None:
            batches.end()
        elif after is offsets:
            pause = min(2 * pause, _LONGEST)
        else:
            log.plan(after)
            batches.run(after, replay=False)
            log.done()
            offsets, pause = after, _SHORTEST
        next_look = began + max(loop.interval / 1000, pause)
        while not batches.over and (left := next_look - time.monotonic()) > 0 and not loop.drain.is_set():
            loop.drain.wait(min(left, _NOTICED_WITHIN))
