"""The wiring of an app, from its spec to a running query: the only module that puts the parts together.

    plan -> tasks -> placement -> slots -> job -> loop

What differs between a laptop and a cluster is a value, `Site`; where Spark computes nothing, a laptop needs none. Must
not decide anything that the parts can decide.
"""

import gc
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import SparkSession

from holdfast.planning.plan import Plan
from holdfast.spec.app import StreamApp
from holdfast.spec.kept_state import row_tables
from holdfast.spec.kept_streams import StreamNames
from holdfast.spec.values import millis
from holdfast.spec.verbs import KEYED_VERBS
from holdfast_runtime.checkpoint.offset_log import SparkPlanLog, read_offset_log
from holdfast_runtime.checkpoint.offsets import DueJump, JumpFile, Offsets
from holdfast_runtime.checkpoint.query_copy import Query, query_of
from holdfast_runtime.checkpoint.query_log import QueryLog
from holdfast_runtime.clocks import steady
from holdfast_runtime.driver.attempt import Attempt, Growth
from holdfast_runtime.driver.file_tables import FileTables
from holdfast_runtime.driver.patience import StartPatience
from holdfast_runtime.driver.periodic_work import PositionChore, Positions
from holdfast_runtime.driver.replanning import AllWrittenError, BatchRollback, PlanLog
from holdfast_runtime.driver.slot_memory import bytes_per_slot
from holdfast_runtime.driver.slot_placement import (
    MoveActions,
    MovingJob,
    Site,
    SlotPlacement,
    first_slot_placement,
)
from holdfast_runtime.inspection.spark_need import computes_in_spark, foreseen_columns
from holdfast_runtime.job import Job
from holdfast_runtime.loop.batches import LoopParts
from holdfast_runtime.loop.direct import run_direct
from holdfast_runtime.loop.next_batch import AttemptInputs
from holdfast_runtime.loop.query import run_query
from holdfast_runtime.loop.source import serve_offsets
from holdfast_runtime.loop.stopping import StopCondition, Totals
from holdfast_runtime.progress import (
    AttemptStarted,
    BatchWaiting,
    EndCause,
    Event,
    Listener,
    Progress,
    RunEnded,
    event_under,
)
from holdfast_runtime.segments.catalyst import select_schema
from holdfast_runtime.segments.compiling import compile_graph
from holdfast_runtime.segments.graph import CompiledGraph
from holdfast_runtime.segments.spark_expressions import SparkExpression
from holdfast_runtime.slot.batch_plan import BatchPlan
from holdfast_runtime.spark.located import by_processor, registered
from holdfast_runtime.spark.resident_job import ResidentJob
from holdfast_runtime.spark.session import HostTooBusyError, check_jvm, open_session, started_in_time, stopped_after
from holdfast_runtime.spark.settings import SessionRequest
from holdfast_runtime.spark.slot_job import PreparingJob, SlotJob
from holdfast_runtime.stints.packed_program import PackedProgram
from holdfast_runtime.stints.staying_slot import StayingSlot
from holdfast_runtime.streams.kafka.admin.existing_topics import kafka_counts
from holdfast_runtime.streams.user_functions import require_functions

_LOG = logging.getLogger("holdfast")
_OBJECTS_BETWEEN_COLLECTIONS = 50_000


def collect_seldom() -> None:
    """Let this process search for garbage in circles seldom.

    A batch of ten thousand tasks makes hundreds of thousands of objects, and most are gone when it is over. At Python's
    default, searching them takes as long as making them.
    """
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)


def run_at(site: Site, app: StreamApp, until: StopCondition, listen: Listener, drain: threading.Event) -> RunEnded:
    """Run an app at this site until it ends or is asked to drain; raise what went wrong."""
    patience = StartPatience()
    collect_seldom()
    names = StreamNames.of(app.spec)

    def tell(event: Event) -> None:
        if isinstance(event, Progress):
            patience.healthy()
        event = event_under(names, event)
        site.coordinator.listen(event)
        if site.traces is not None:
            site.traces.listen(event)
        listen(event)

    # Starting a JVM takes seconds, so problems that need none are reported first.
    require_functions(app.spec, site.beside)
    outside, topics = _Outside(until, tell, drain), dict[str, int | None]()
    attempt = Attempt(app, site.paths, site.coordinator, steady, beside=site.beside)
    with names.explaining(), _session(attempt.app, attempt.plan, site) as spark:
        while True:
            try:
                with started_in_time():
                    expressions: dict[SparkExpression, None] = {}
                    columns = foreseen_columns if spark is None else select_schema(spark)
                    compiled = compile_graph(attempt.app.spec, attempt.plan, columns, expressions.setdefault)
                    wiring = _Wiring(attempt.app, site, attempt, spark, compiled, tuple(map(str, expressions)))
                    ended = _run_attempt(wiring, outside)
            except HostTooBusyError as error:
                seconds, why = patience.wait(error)
                tell(BatchWaiting(why))
                if drain.wait(seconds):
                    return outside.drained()
            else:
                if ended.ending is not EndCause.GROWN:
                    return ended
                topics = kafka_counts(app.spec, site.paths.secrets)
            attempt = Attempt(app, site.paths, site.coordinator, steady, topics, site.beside)


def _run_attempt(wiring: "_Wiring", outside: "_Outside") -> RunEnded:
    site, attempt = wiring.site, wiring.attempt
    spark = wiring.spark
    with serve_offsets(spark) if spark is not None and wiring.compiled.has_sql else nullcontext() as questions:
        # Brokers and object stores are slow, so this is done while executors come up.
        number = attempt.shut_out(site.shape.slots)
        query = query_of(site.paths, number)
        logged = read_offset_log(query.directory)
        attempt.take_up(number, logged)
        if logged is not None and logged.planned is not None:
            wiring.take_back(number, logged.done, logged.planned, SparkPlanLog(query.directory))
        slot_placement = first_slot_placement(wiring.spark, site, list(attempt.tasks), outside.drain)
        if slot_placement is None:
            return outside.drained()
        runtime = attempt.app.spec.runtime
        slot_bytes = bytes_per_slot(site.shape.executors, site.shape.cores, runtime.executors.memory)
        reading = attempt.begin(slot_placement.placement, wiring.compiled, slot_bytes)

        def processed(positions: Positions) -> None:
            # Done first: a batch not known to be done would be read again, and its records may be deleted below.
            query.done()
            attempt.processed(positions)

        with (
            wiring.job(slot_placement, number) as job,
            PositionChore(processed) as chores,
            FileTables(attempt.file_tables(wiring.compiled), site.paths.state, number, steady) as files,
        ):
            outside.listen(wiring.started(slot_placement, number))
            loop = wiring.loop(number, reading, query, job, _Beside(chores, files), outside)
            if questions is None:
                return run_direct(QueryLog(query.directory), loop)
            return run_query(questions, wiring.app.name, query.directory, loop)


@contextmanager
def _session(app: StreamApp, plan: Plan, site: Site) -> Iterator[SparkSession | None]:
    if site.processes is not None:
        yield None
        return
    runtime = app.spec.runtime
    request = SessionRequest(
        app.name,
        site.master,
        ui=site.ui,
        conf=runtime.spark_conf,
        memory=runtime.driver.memory,
        given=site.spark,
        rows_in_spark=computes_in_spark(app.spec, plan),
    )
    spark = open_session(request, site.prints)
    with stopped_after(spark, site.prints):
        yield spark


@dataclass(frozen=True, slots=True)
class _Outside:
    """What all attempts of a run share: when to stop, who listens, the request to drain, counts."""

    until: StopCondition
    listen: Listener
    drain: threading.Event
    totals: Totals = field(default_factory=Totals)

    def drained(self) -> RunEnded:
        """Return the end of a run that was to end while no query ran."""
        return RunEnded(EndCause.DRAINED, self.totals.batches, self.totals.rows_in, self.totals.rows_out, 0.0)


@dataclass(frozen=True, slots=True)
class _Beside:
    """What runs in threads beside the batches of an attempt."""

    chores: PositionChore
    files: FileTables


@dataclass(frozen=True, slots=True)
class _Wiring:
    """The values from which the parts of an attempt are made."""

    app: StreamApp
    site: Site
    attempt: Attempt
    spark: SparkSession | None
    """None: slots are processes of the site."""
    compiled: CompiledGraph
    spark_sql: tuple[str, ...]

    def job(self, slot_placement: SlotPlacement, number: int) -> MovingJob:
        """Return the job of the batches, which follows tasks when they move."""
        program = PackedProgram.of(self.attempt.program(self.compiled))

        def build(target: SlotPlacement) -> Job:
            spark = self.spark
            if spark is None:
                assert self.site.processes is not None  # noqa: S101 - or there would be a session
                begin = partial(StayingSlot, program.content, tuple(target.slots.values()))
                return self.site.processes.job(tuple(target.slots.values()), begin)
            if self.compiled.has_sql:
                return SlotJob(spark, program, target.slots, target.slot_executors)
            room = partial(self._has_room, spark, target)
            return ResidentJob(spark, program, target.slots, target.slot_executors, room, self.site.host)

        nothing = BatchPlan(batch=0, epoch=number, now=0, first=True, turns={})
        first = PreparingJob(lambda: build(slot_placement), nothing)
        moves = None
        if self.site.moving and self.spark is not None:
            moves = MoveActions(
                partial(self._look, self.spark), build, self.attempt.move, self.site.coordinator.applied
            )
        return MovingJob(first, slot_placement, moves)

    def take_back(self, number: int, done: Offsets, planned: Offsets, log: PlanLog) -> None:
        """Replan the batch that is planned but not done, if the spec names it."""
        if planned.batch != self.app.spec.runtime.replan:
            _LOG.info("batch %d is planned and not done: it is run first, as it was planned", planned.batch)
            return
        taking = BatchRollback(self.attempt, number, self.site.paths, (self.app.name, self.app.spec.run_id))
        try:
            decided = taking.decide(done, planned)
        except AllWrittenError:
            return
        taking.do(planned, decided, log)
        _LOG.warning("batch %d is replanned for %s (runtime.replan)", planned.batch, ", ".join(decided.taken_back))

    def started(self, slot_placement: SlotPlacement, number: int) -> AttemptStarted:
        """Return the event that is sent before the first batch."""
        return AttemptStarted(
            self.app.name,
            self.app.spec.run_id,
            number,
            len(self.attempt.tasks),
            len(slot_placement.slots),
            self.site.shown,
            self.spark.sparkContext.uiWebUrl if self.spark is not None and self.site.ui else None,
            tuple("sql" if level % 2 else "python" for level in range(self.compiled.last + 1)),
            tuple(
                name
                for step in self.app.spec.steps
                if step.verb in KEYED_VERBS
                for name in (row_tables(step) or (step.name,))
            ),
            self.attempt.given_up,
            self.spark_sql,
        )

    def loop(
        self,
        number: int,
        reading: AttemptInputs,
        query: Query,
        job: MovingJob,
        beside: "_Beside",
        outside: _Outside,
    ) -> LoopParts:
        """Return the parts of the batch loop."""
        growth = Growth(self.app, self.attempt.plan, self.site.coordinator.record, outside.listen)
        live = not self.site.moving or self.app.spec.on_partition_growth == "Live"
        traces = self.site.traces
        return LoopParts(
            interval=millis(self.app.spec.runtime.trigger.interval),
            epoch=number,
            reading=reading,
            bounds=self.attempt.bounds,
            written=self.attempt.written,
            assumed_bytes=self.attempt.assumed_bytes,
            # On a cluster the operator ends an attempt whose inputs have grown, unless the spec says Live.
            grown=growth.taken if live else lambda _: False,
            ids=self.attempt.ids,
            cut=self.attempt.cut,
            jump=DueJump(JumpFile(self.site.paths.shared)),
            data_sets=beside.files.look,
            job=lambda: query.recorded(job.between()),
            slots=lambda: job.slots,
            processed=beside.chores.processed,
            end=job.end,
            check=self._check,
            until=outside.until,
            listen=outside.listen,
            drain=outside.drain,
            totals=outside.totals,
            reported=None if traces is None else lambda reports: traces.reported(job.locations, reports),
        )

    def _check(self) -> None:
        if self.spark is not None:
            check_jvm()
        self.site.coordinator.check()

    def _has_room(self, spark: SparkSession, slot_placement: SlotPlacement) -> bool:
        """Return whether all slots can run at once."""
        if not self.site.shape.executors:
            return True
        return len(by_processor(registered(spark))) * slot_placement.cores >= len(slot_placement.slots)

    def _look(self, spark: SparkSession, now: SlotPlacement) -> SlotPlacement:
        """Return where tasks are to run, and where Spark finds their processors now."""
        executors = by_processor(registered(spark))
        newer = self.site.coordinator.newer(now.placement, list(self.attempt.tasks), executors.keys())
        return now.followed(newer, executors)
