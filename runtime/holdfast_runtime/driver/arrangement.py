"""The arrangement of an attempt's tasks in slots: the first one, and the job that follows tasks while the app runs.

An attempt begins when executors are up and its tasks have processors. Later tasks may move and executors come back
elsewhere; no batch waits for it or runs under two arrangements:

    in a thread:       look -> build the new job -> remember where tasks will run
    between batches:   take it

What can't be looked at or remembered now is tried again, and tasks stay where they are. Must not decide which
processor a task goes to.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from holdfast.errors import RetrySoonError, WorldChangeError
from holdfast_runtime.coordination.coordinator import Placement
from holdfast_runtime.coordination.placements import tasks_by_slot
from holdfast_runtime.driver.site import Site
from holdfast_runtime.job import Job
from holdfast_runtime.spark.located import by_processor, registered


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Which slots there are, and where Spark finds them."""

    placement: Placement
    where: Mapping[str, str | None]
    """Processor -> its executor, as Spark names it; None: the driver itself."""
    cores: int
    """Of each processor."""

    @property
    def slots(self) -> dict[str, tuple[str, ...]]:
        """Slot -> its tasks."""
        return tasks_by_slot(self.placement.assignment, self.cores)

    @property
    def places(self) -> dict[str, str | None]:
        """Slot -> where it should run."""
        return {slot: self.where.get(slot.rpartition("/")[0]) for slot in self.slots}

    def followed(self, newer: Placement | None, found: Mapping[str, str]) -> "Arrangement":
        """With a newer placement, if there is one, and where processors are found now; itself where nothing changed.

        A processor that is not found stays where it was: its slots run elsewhere until it is back.
        """
        placement = newer or self.placement
        where = {one: found.get(one) or self.where.get(one) for one in placement.assignment.tasks_of}
        if newer is None and where == self.where:
            return self
        return Arrangement(placement, where, self.cores)


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


_HERE = "local"
"""The one processor where all runs in the driver."""


class ExecutorsMissingError(WorldChangeError):
    """The executors that were asked for did not come up."""


def first_arrangement(
    spark: SparkSession, site: Site, tasks: Sequence[str], drain: threading.Event
) -> Arrangement | None:
    """The slots to begin with; None: the app is to end before it has begun."""
    deadline = time.monotonic() + site.executors_within
    wanted = site.shape.executors
    while True:
        found: dict[str, str | None] = {**by_processor(registered(spark))} if wanted else {_HERE: None}
        placement = site.coordinator.placement(tasks, found.keys(), wanted)
        if placement is not None:
            return Arrangement(placement, {one: found[one] for one in placement.assignment.tasks_of}, site.shape.cores)
        if time.monotonic() > deadline:
            message = (
                f"{len(found)} of {wanted} executors came up in {site.executors_within:.0f} s; "
                f"see Spark's log for the others"
            )
            raise ExecutorsMissingError(message)
        if drain.wait(site.look_every):
            return None
        site.coordinator.check()
