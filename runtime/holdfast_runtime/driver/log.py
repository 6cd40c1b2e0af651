"""The log of a driver in a pod, written from a run's events: few lines, each worth reading.

Must not log secrets, nor every batch: that is in the report and in the metrics.
"""

import logging
from collections import Counter
from collections.abc import Callable

from holdfast_runtime.progress import (
    AttemptStarted,
    BatchWaiting,
    ClockJumped,
    Event,
    GrowthRefused,
    Progress,
    RunDraining,
    RunEnded,
)

_LOG = logging.getLogger("holdfast")
_APART = 60_000
_SHOWN = 10


class DriverLog:
    """Logs a run's events."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._said = 0
        self._rows_in = self._rows_out = self._batches = 0
        self._misplaced, self._failed = Counter[str](), Counter[str]()
        self._ahead = 0
        self._first_ahead: str | None = None

    def listen(self, event: Event) -> None:
        """Log the event if it is worth a line."""
        match event:
            case AttemptStarted():
                _LOG.info(
                    "%s run %s attempt %d: %d tasks in %d slots, data %s",
                    event.app,
                    event.run,
                    event.attempt,
                    event.tasks,
                    event.slots,
                    event.data,
                )
                for one in event.given_up:
                    _LOG.warning("%s", one)
            case Progress():
                self._progress(event)
            case BatchWaiting():
                _LOG.warning("waiting: %s", event.why)
            case GrowthRefused() | ClockJumped():
                _LOG.warning("%s", event.why)
            case RunDraining():
                _LOG.info("draining: the batch at hand is finished")
            case RunEnded():
                _LOG.info(
                    "%s: %d batches, %d rows in, %d out", event.ending, event.batches, event.rows_in, event.rows_out
                )

    def _progress(self, event: Progress) -> None:
        self._batches += 1
        self._rows_in += event.rows_in
        self._rows_out += event.rows_out
        self._misplaced.update(event.misplaced)
        self._failed.update(event.failed)
        self._first_ahead = event.first_ahead if not self._ahead else self._first_ahead
        self._ahead += event.ahead
        for task in event.restored[:_SHOWN]:
            _LOG.info("restored %s", task)
        if len(event.restored) > _SHOWN:
            _LOG.info("restored %d more tasks", len(event.restored) - _SHOWN)
        if self._clock() - self._said >= _APART:
            held = "" if event.held_back is None else f", watermark held back: {event.held_back}"
            counts = self._batches, self._rows_in, self._rows_out
            _LOG.info(
                "batch %d (%d since the last line, %d rows in, %d out), lag %d%s", event.batch, *counts, event.lag, held
            )
            for stream, records in self._misplaced.items():
                _LOG.warning("%d records of %s misplaced: a producer has not seen it grow", records, stream)
            for step, rows in self._failed.items():
                _LOG.warning("%d rows on which step %s failed became dead letters", rows, step)
            if self._ahead:
                _LOG.warning("%d rows from the future since the last line, as %s", self._ahead, self._first_ahead)
            self._misplaced.clear()
            self._failed.clear()
            self._ahead = 0
            self._said, self._batches, self._rows_in, self._rows_out = self._clock(), 0, 0, 0
