"""The placement of an attempt's slots at its site: the first one, and the job that follows moved tasks.

The site, a laptop or a cluster, is everything that depends on where the app runs, as one value. An attempt begins when
executors are up and its tasks have processors. Later, tasks may move and executors may come back elsewhere. No batch
waits for that, and none runs under two placements:

    in a thread:       look -> build the new job -> record where tasks will run
    between batches:   switch to it

If looking or recording fails, it is tried again, and tasks stay where they are. Must not decide which processor a task
goes to.
"""

import logging
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from holdfast.errors import RetrySoonError, WorldChangeError
from holdfast_runtime.checkpoint.directories import RunPaths
from holdfast_runtime.coordination.coordinator import Coordinator, Placement, tasks_by_slot
from holdfast_runtime.driver.traces import BatchTraces
from holdfast_runtime.job import Job
from holdfast_runtime.spark.located import by_processor, registered
from holdfast_runtime.stints.slot_processes import SlotProcesses
from holdfast_runtime.streams.modules_beside import ModulesBeside


@dataclass(frozen=True, slots=True)
class ProcessorShape:
    """The number of executors and their cores."""

    executors: int
    """0 if everything runs in the driver."""
    cores: int
    """Cores per executor, or of the driver."""

    @property
    def slots(self) -> int:
        """The largest number of Spark tasks that run at once."""
        return max(1, self.executors) * self.cores


@dataclass(frozen=True, slots=True)
class Site:
    """Where an app runs."""

    master: str
    """Of Spark."""
    shape: ProcessorShape
    paths: RunPaths
    coordinator: Coordinator
    shown: str
    """Where data is kept, as shown to people."""
    ui: bool = True
    spark: Mapping[str, str] = field(default_factory=dict)
    """Spark settings that come with the site; users can't choose them."""
    host: str | None = None
    """Where executors on other hosts find the driver; None: all run on its own."""
    prints: Path | None = None
    """Directory for Spark's output; None: it goes where this process prints."""
    moving: bool = False
    """Whether tasks may move, and executors come back elsewhere, while the app runs."""
    executors_within: float = 120.0
    """Seconds that executors have to come up."""
    look_every: float = 0.1
    """Seconds between checks for executors."""
    processes: SlotProcesses | None = None
    """The processes of slots without Spark; None: Spark has them."""
    beside: ModulesBeside = field(default_factory=ModulesBeside)
    """The modules beside the app's file; on a cluster there are none."""
    traces: BatchTraces | None = None
    """None: nobody sees traces of batches."""


def shape_of(master: str) -> ProcessorShape | None:
    """Return the shape that Spark's master URL gives; None if the cluster decides."""
    cluster = re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]", master)
    if cluster is not None:
        return ProcessorShape(int(cluster[1]), int(cluster[2]))
    if not master.startswith("local"):
        return None
    local = re.fullmatch(r"local\[(\d+)\]", master)
    return ProcessorShape(0, 1 if local is None else int(local[1]))


@dataclass(frozen=True, slots=True)
class SlotPlacement:
    """The slots of an attempt, and where Spark finds their processors."""

    placement: Placement
    executor_of: Mapping[str, str | None]
    """Processor -> its executor, as Spark names it; None: the driver itself."""
    cores: int
    """Cores per processor."""

    @property
    def slots(self) -> dict[str, tuple[str, ...]]:
        """Slot -> its tasks."""
        return tasks_by_slot(self.placement.assignment, self.cores)

    @property
    def slot_locations(self) -> dict[str, str]:
        """Slot -> its location."""
        return {slot: self.placement.locations[slot.rpartition("/")[0]] for slot in self.slots}

    @property
    def slot_executors(self) -> dict[str, str | None]:
        """Slot -> executor that it should run on; None: the driver, or anywhere."""
        return {slot: self.executor_of.get(slot.rpartition("/")[0]) for slot in self.slots}

    def followed(self, newer: Placement | None, executors: Mapping[str, str]) -> "SlotPlacement":
        """Return the slots with the newer placement, if any, and the executors found; itself if nothing changed.

        A processor that is not found keeps its last executor: until it is back, Spark runs its slots elsewhere.
        """
        placement = newer or self.placement
        executor_of = {
            processor: executors.get(processor) or self.executor_of.get(processor)
            for processor in placement.assignment.tasks_of
        }
        if newer is None and executor_of == self.executor_of:
            return self
        return SlotPlacement(placement, executor_of, self.cores)


_LOG = logging.getLogger("holdfast")
_EVERY = 3.0


@dataclass(frozen=True, slots=True)
class MoveActions:
    """The actions by which a job follows tasks that move."""

    look: Callable[[SlotPlacement], SlotPlacement]
    """Returns the slot placement to go to from the current one; the same object if nothing changed."""
    build: Callable[[SlotPlacement], Job]
    remember: Callable[[Placement], None]
    """Called before the first batch that runs under a placement."""
    applied: Callable[[Placement], None]


class MovingJob:
    """The job of an attempt, rebuilt when tasks move. A context manager: inside it, a thread looks for moves."""

    def __init__(self, first: Job, slot_placement: SlotPlacement, moves: MoveActions | None) -> None:
        """Without `moves`, tasks stay where they are."""
        self._job, self._slot_placement, self._moves = first, slot_placement, moves
        self.slots = tuple(slot_placement.slots.values())
        """The tasks of each slot of the next batch; the same object until tasks move."""
        self.locations = slot_placement.slot_locations
        """Each of these slots -> its location."""
        self._coming: tuple[SlotPlacement, Job] | None = None
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
        self.end()

    def end(self) -> None:
        """End the job, also one that runs, and the one that was to follow."""
        with self._handing:
            coming, self._coming = self._coming, None
        self._job.end()
        if coming is not None:
            coming[1].end()

    def between(self) -> Job:
        """Return the job of the next batch; raise what has failed for good. Call it only between batches."""
        if self._failure is not None:
            raise self._failure
        with self._handing:
            coming, self._coming = self._coming, None
            if coming is not None:
                before = self._slot_placement.placement
                # Its slots hold the cores on which those of the next one are to run.
                self._job.end()
                self._slot_placement, self._job = coming
                self.slots = tuple(self._slot_placement.slots.values())
                self.locations = self._slot_placement.slot_locations
                if self._moves is not None and self._slot_placement.placement is not before:
                    self._moves.applied(self._slot_placement.placement)
            return self._job

    def _run(self, moves: MoveActions) -> None:
        failing = ""
        while not self._over.wait(_EVERY):
            try:
                self._look(moves)
                failing = ""
            except (RetrySoonError, WorldChangeError, Py4JError, PySparkException) as error:
                if failing != str(error) and not self._over.is_set():
                    _LOG.warning("tasks stay where they are until this succeeds; it is tried again: %s", error)
                failing = str(error)
            except Exception as error:  # noqa: BLE001 - it is raised where the run is waited for
                self._failure = error
                return

    def _look(self, moves: MoveActions) -> None:
        with self._handing:
            before = self._slot_placement if self._coming is None else self._coming[0]
        target = moves.look(before)
        if target is before:
            return
        job = moves.build(target)
        if target.placement is not before.placement:
            moves.remember(target.placement)
        with self._handing:
            overtaken, self._coming = self._coming, (target, job)
        if overtaken is not None:
            overtaken[1].end()
        _LOG.info("from the next batch on, tasks run as follows: %s", _said(target))


def _said(slot_placement: SlotPlacement) -> str:
    parts = slot_placement.placement.assignment.tasks_of.items()
    return ", ".join(f"{len(tasks)} on {name} at {slot_placement.executor_of[name]}" for name, tasks in parts)


_HERE = "local"
"""The name of the one processor if everything runs in the driver."""


def first_slot_placement(
    spark: SparkSession | None, site: Site, tasks: Sequence[str], drain: threading.Event
) -> SlotPlacement | None:
    """Wait for executors and return the first slot placement; None if the app is asked to drain meanwhile."""
    deadline = time.monotonic() + site.executors_within
    expected = site.shape.executors
    while True:
        executors: dict[str, str | None] = (
            {**by_processor(registered(spark))} if expected and spark is not None else {_HERE: None}
        )
        placement = site.coordinator.placement(tasks, executors.keys(), expected)
        if placement is not None:
            return SlotPlacement(
                placement,
                {processor: executors[processor] for processor in placement.assignment.tasks_of},
                site.shape.cores,
            )
        if time.monotonic() > deadline:
            message = (
                f"{len(executors)} of {expected} executors came up in {site.executors_within:.0f} s; "
                f"see Spark's log for the others"
            )
            raise WorldChangeError(message, code="ExecutorsMissingError")
        if drain.wait(site.look_every):
            return None
        site.coordinator.check()
