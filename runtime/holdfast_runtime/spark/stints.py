"""Slots that stay from batch to batch: a stint is one long Spark job whose tasks answer batch after batch.

    Spark starts the slots -> each connects to the driver -> (batch -> answer) ... -> the driver leaves -> they end

A stint ends when a slot is lost or raises, or when no batch is to follow. What was asked is then asked once more, of
the slots of a new stint. Must not know what slots do, nor decide what becomes of a batch.
"""

import logging
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Protocol

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from holdfast_runtime.job import JobFailedError
from holdfast_runtime.spark.located import LocatedJob, Segment, SlotLocation, batch_plan_text
from holdfast_runtime.spark.slot_connections import DriverAddress, SlotConnections


class SlotWork(Protocol):
    """What a slot does, in its process."""

    def answer(self, batch: str) -> str:
        """Return the answer to a batch."""

    def let_go(self) -> None:
        """Give back what is kept for the next batch: none has come for a while."""

    def end(self) -> None:
        """Give back everything: no batch will come."""


Begin = Callable[[int], SlotWork]
"""Takes the number of a slot; called in the slot's process."""
_LOG = logging.getLogger("holdfast")
_TRIES = 2
"""How often a batch is tried, as Spark would (`spark.task.maxFailures`)."""
_BEGINS_WITHIN = 30.0
_ENDS_WITHIN = 5.0
_KEEPS_FOR = 2.0
"""Seconds without a batch after which a slot lets go: its driver may hang, and another attempt have begun."""
_LOOK_EVERY = 1.0
_ANSWER, _RAISED = b"=", b"!"


class Stints:
    """The slots of an assignment, one stint after the other."""

    def __init__(
        self, spark: SparkSession, slots: Sequence[SlotLocation], begin: Begin, host: str | None = None
    ) -> None:
        """`host`: where executors on other hosts find the driver; None: all are on its own."""
        self._context, self._slots = spark.sparkContext, len(slots)
        self._connections = SlotConnections(host)
        stay = _staying(self._connections.address, begin)
        self._job = LocatedJob(spark, slots, lambda frame: frame.mapInArrow(stay, "left STRING"))
        self._stint: _Stint | None = None
        self._number, self._not_before = 0, 0.0
        self._ended = False

    @property
    def present(self) -> bool:
        """Whether slots are there to be asked."""
        return self._stint is not None

    def ask(self, batch: str) -> list[str] | None:
        """Return the answers of all slots; None if not all can start at once.

        Raise `JobFailedError` if one can't answer, and Spark's error if it can't start them.
        """
        lost = "the slots were ended"
        for left in reversed(range(_TRIES)):
            if self._ended:
                break
            try:
                self._stint = self._stint or self._begin()
                return None if self._stint is None else self._stint.ask(batch)
            except (PySparkException, Py4JError):
                if not left:
                    raise
            except _StintBrokenError as error:
                lost = str(error)
                self._leave()
        raise JobFailedError(lost)

    def end(self) -> None:
        """End the slots, also such as are at work; nothing is asked any more."""
        self._ended = True
        self._leave()
        self._connections.close()

    def _begin(self) -> "_Stint | None":
        if time.monotonic() < self._not_before:
            return None
        self._number += 1
        self._connections.expect(self._number)
        job = _StintJob(self._context, self._job, self._number)
        connections = self._connections.gathered(self._slots, lambda: self._ended or job.over, _BEGINS_WITHIN)
        if connections is not None:
            return _Stint(job, connections)
        self._connections.leave()
        job.end()
        if job.failure is not None:
            raise job.failure
        if not self._ended:
            self._not_before = time.monotonic() + _BEGINS_WITHIN
            _LOG.warning("not all slots could start at once: until they can, each batch is a Spark job of its own")
        return None

    def _leave(self) -> None:
        stint, self._stint = self._stint, None
        self._connections.leave()
        if stint is not None:
            stint.job.end()


class _StintBrokenError(Exception):
    """A slot of the stint is lost, or has raised; the text says what is known."""


class _StintJob:
    """The Spark job of a stint, in a thread."""

    def __init__(self, context: SparkContext, job: LocatedJob, number: int) -> None:
        self._context, self._group = context, f"holdfast-stint-{id(job)}-{number}"
        self.failure: Exception | None = None
        """Why the job has ended, unless because its slots did."""
        self._thread = threading.Thread(target=self._run, args=(job, number), name="stint", daemon=True)
        self._thread.start()

    @property
    def over(self) -> bool:
        """Whether the job has ended."""
        return not self._thread.is_alive()

    def end(self) -> None:
        """Wait for the end of slots that are left; cancel those that take too long."""
        self._thread.join(_ENDS_WITHIN)
        if not self.over:
            self._context.cancelJobGroup(self._group)
            self._thread.join(_ENDS_WITHIN)

    def _run(self, job: LocatedJob, number: int) -> None:
        try:
            self._context.setJobGroup(self._group, "slots", interruptOnCancel=True)
            job.run(str(number))
        except Exception as error:  # noqa: BLE001 - it is raised where a batch waits
            self.failure = error


class _Stint:
    """A Spark job, and the connections to its slots."""

    def __init__(self, job: _StintJob, connections: Sequence[Connection]) -> None:
        self.job, self._connections = job, connections

    def ask(self, batch: str) -> list[str]:
        """Return the answers of all slots; raise `_StintBrokenError` if one does not come."""
        question, answers, left = batch.encode(), dict[Connection, str](), set(self._connections)
        try:
            for connection in self._connections:
                connection.send_bytes(question)
            while left:
                for ready in wait(left, _LOOK_EVERY):
                    assert isinstance(ready, Connection)  # noqa: S101 - nothing else was waited for
                    answers[ready] = _answer_in(ready.recv_bytes())
                    left.remove(ready)
                if self.job.over:
                    raise _StintBrokenError(self._why())
        except (OSError, EOFError) as error:
            raise _StintBrokenError(self._why()) from error
        return [answers[connection] for connection in self._connections]

    def _why(self) -> str:
        return str(self.job.failure or "a slot's process has ended")


def _answer_in(message: bytes) -> str:
    kind, text = message[:1], message[1:].decode()
    if kind == _RAISED:
        raise _StintBrokenError(text)
    return text


def _staying(driver: DriverAddress, begin: Begin) -> Segment:
    """Return what each Spark task of a stint does."""

    def stay(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext  # noqa: PLC0415 - only inside a Spark task

        for _ in batches:
            pass
        context = TaskContext.get()
        assert context is not None  # noqa: S101 - only Spark calls this
        slot = context.partitionId()
        with driver.connect(int(batch_plan_text()), slot) as connection:
            _answer_all(connection, begin(slot))
        yield pa.RecordBatch.from_pydict({"left": [str(slot)]})

    return stay


def _answer_all(connection: Connection, work: SlotWork) -> None:
    """Answer batch after batch until the driver leaves."""
    try:
        while True:
            if not connection.poll(_KEEPS_FOR):
                work.let_go()
            batch = connection.recv_bytes().decode()
            try:
                message = _ANSWER + work.answer(batch).encode()
            except Exception:  # noqa: BLE001 - the driver says it
                message = _RAISED + traceback.format_exc().encode()
            connection.send_bytes(message)
    except (OSError, EOFError):
        return
    finally:
        work.end()
