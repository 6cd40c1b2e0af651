"""Batches through a query of Spark's, for apps whose rows pass through Spark SQL: Spark keeps the two logs.

    Spark:  ask -> offsets into its log -> run -> commit log -> ask ...

Spark asks in a process of its own (`source`), and has a batch run by a callback. Must not decide anything.
"""

from collections.abc import Iterator
from pathlib import Path

from py4j.java_gateway import is_instance_of
from pyspark import SparkContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from holdfast.errors import HoldfastError
from holdfast_runtime.checkpoint.offsets import Offsets
from holdfast_runtime.checkpoint.query_log import overtaken
from holdfast_runtime.loop.batches import Batches, LoopParts, shortened
from holdfast_runtime.loop.source import OffsetServer
from holdfast_runtime.loop.stopping import WaitEndedError
from holdfast_runtime.progress import RunEnded
from holdfast_runtime.spark.session import java_causes, too_busy

_ENTRY_IS_THERE = frozenset({"CONCURRENT_STREAM_LOG_UPDATE", "_LEGACY_ERROR_TEMP_2207"})
"""Spark's error conditions for a log entry that another process has written first."""


def run_query(questions: OffsetServer, name: str, checkpoint: Path, loop: LoopParts) -> RunEnded:
    """Run batches until the run ends; raise what went wrong."""
    callbacks = _Callbacks(Batches(loop))
    query = (
        questions.answered_by(callbacks.answer)
        .writeStream.queryName(name)
        .option("checkpointLocation", str(checkpoint))
        .trigger(processingTime=f"{loop.interval} milliseconds")
        .foreachBatch(callbacks.run)
        .start()
    )
    try:
        callbacks.batches.wait(lambda seconds: callbacks.has_ended(query, seconds))
    finally:
        query.stop()
    return callbacks.batches.ended()


class _Callbacks:
    """What Spark calls."""

    def __init__(self, batches: Batches) -> None:
        self.batches = batches
        self._answered: Offsets | None = None
        """The last answer, until its batch is run."""
        self._ran = False
        """Whether Spark has run a batch of this query."""

    def answer(self, before: Offsets) -> Offsets:
        """Return where the next batch ends. Spark asks when the last batch is committed, so a run may end here."""
        try:
            after = self.batches.after(before)
        except Exception as error:  # noqa: BLE001 - it is raised where the run is waited for
            self.batches.fail(error)
            return before
        self._answered = None if after is before else after
        # Spark runs the first batch of a checkpoint even if it is empty: stopping now would interrupt that batch.
        if self.batches.ending is not None and (before.batch or self._ran):
            self.batches.end()
        return after

    def run(self, frame: DataFrame, _: int) -> None:
        """Run one batch; Spark calls this when the batch's offsets are durable."""
        self._ran = True
        try:
            answered, self._answered = self._answered, None
            if answered is not None:
                self.batches.run(answered, replay=False)
            elif rows := frame.collect():
                self.batches.run(Offsets.parse(str(rows[0][0])), replay=True)
        except WaitEndedError:
            raise
        except Exception as error:
            self.batches.fail(error)
            raise

    def has_ended(self, query: StreamingQuery, seconds: float) -> bool:
        """Return whether the query has ended within these seconds; raise why."""
        try:
            return bool(query.awaitTermination(seconds))  # type: ignore[arg-type] # any number
        except StreamingQueryException as error:
            if self.batches.over and self.batches.failure is None:
                return True
            raise self.batches.failure or _why_it_died(error) from error


def _why_it_died(error: StreamingQueryException) -> HoldfastError:
    if (busy := too_busy(error)) is not None:
        return busy
    if _ENTRY_IS_THERE.isdisjoint(_conditions(error)):
        return HoldfastError(shortened(error), code="QueryDiedError")
    return overtaken()


def _conditions(error: StreamingQueryException) -> Iterator[str]:
    for cause in java_causes(error):
        if is_instance_of(SparkContext._gateway, cause, "org.apache.spark.SparkThrowable"):  # noqa: SLF001
            yield str(cause.getCondition())
