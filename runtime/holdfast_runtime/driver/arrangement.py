"""Why: tasks may move while the app runs, and executors come back elsewhere; no batch waits for it or runs under two.

    in a thread:       look -> build the new job -> remember where tasks will run
    between batches:   take it

So nothing of it is in a batch's path, and a batch runs as a whole under one arrangement. What can't be looked at or
remembered now is tried again, and tasks stay where they are. Must not decide where tasks run.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from holdfast.errors import RetrySoonError, WorldChangeError
from holdfast_runtime.coordination.coordinator import Placement
from holdfast_runtime.driver.arrangement_part import Arrangement
from holdfast_runtime.job import Job

_LOG = logging.getLogger("holdfast")
_EVERY = 3.0


@dataclass(frozen=True, slots=True)
class MoveActions:
    """How a job follows its tasks."""

    look: Callable[[Arrangement], Arrangement]
    """What is to be, after what is; the same: nothing new."""
    build: Callable[[Arrangement], Job]
    remember: Callable[[Placement], None]
    """Before the first batch under it."""
    applied: Callable[[Placement], None]


class MovingJob:
    """The job for where tasks run now. A context manager: its thread looks as long as it is entered."""

    def __init__(self, first: Job, arrangement: Arrangement, moves: MoveActions | None) -> None:
        """Without `moves`, tasks stay where they are."""
        self._job, self._arrangement, self._moves = first, arrangement, moves
        self._coming: tuple[Arrangement, Job] | None = None
        self._handing = threading.Lock()
        self._failure: Exception | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if self._moves is not None:
            self._thread = threading.Thread(target=self._run, args=(self._moves,), name="moves", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join(timeout=10)

    def between(self) -> Job:
        """The job of the next batch; to be asked when none is at work. Raises what has gone wrong for good."""
        if self._failure is not None:
            raise self._failure
        with self._handing:
            coming, self._coming = self._coming, None
            if coming is not None:
                before = self._arrangement.placement
                self._arrangement, self._job = coming
                if self._moves is not None and self._arrangement.placement is not before:
                    self._moves.applied(self._arrangement.placement)
            return self._job

    def _run(self, moves: MoveActions) -> None:
        failing = ""
        while not self._over.wait(_EVERY):
            try:
                self._look(moves)
                failing = ""
            except (RetrySoonError, WorldChangeError, Py4JError, PySparkException) as error:
                if failing != str(error) and not self._over.is_set():
                    _LOG.warning("tasks stay where they are, it is looked at again: %s", error)
                failing = str(error)
            except Exception as error:  # noqa: BLE001 - it is raised where the run is waited for
                self._failure = error
                return

    def _look(self, moves: MoveActions) -> None:
        with self._handing:
            before = self._arrangement if self._coming is None else self._coming[0]
        wanted = moves.look(before)
        if wanted is before:
            return
        job = moves.build(wanted)
        if wanted.placement is not before.placement:
            moves.remember(wanted.placement)
        with self._handing:
            self._coming = wanted, job
        _LOG.info("from the next batch on, tasks run so: %s", _said(wanted))


def _said(arrangement: Arrangement) -> str:
    parts = arrangement.placement.assignment.tasks_of.items()
    return ", ".join(f"{len(tasks)} on {name} at {arrangement.where[name]}" for name, tasks in parts)
