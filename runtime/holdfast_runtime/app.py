"""Why: from a spec to a running query: the only place that wires the parts.

    plan -> tasks -> assignment -> slots -> job -> loop

Must not decide anything the parts can decide.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from holdfast.spec.app import StreamApp
from holdfast.spec.values import millis
from holdfast_runtime.attempt import Attempt
from holdfast_runtime.batch_plan import BatchPlan
from holdfast_runtime.coordination.local import LocalCoordinator
from holdfast_runtime.data_dir import DataDir
from holdfast_runtime.preparing import PreparingJob
from holdfast_runtime.progress import Ended, Listener, Started
from holdfast_runtime.query import Loop, run_query
from holdfast_runtime.segments.graph import compile_graph
from holdfast_runtime.segments.select_schema import select_schema
from holdfast_runtime.session import open_session
from holdfast_runtime.slot_job import slot_job
from holdfast_runtime.slots import slots_of
from holdfast_runtime.until import Until
from holdfast_runtime.wall_clock import now


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How an app is run on this host."""

    data: DataDir
    until: Until = field(default_factory=Until)
    master: str = "local[2]"
    ui: bool = True


def run_app(app: StreamApp, options: RunOptions, listen: Listener, drain: threading.Event) -> Ended:
    """Run an app until it ends, or until it is asked to drain; raises what went wrong."""
    home = options.data.app(app.name)
    places = home.run(app.spec.run_id)
    with home.taken(), LocalCoordinator(places.metadata, app.name, app.spec.run_id) as coordinator:
        attempt = Attempt(app, options.data, coordinator, now)
        with _session(app, options) as spark:
            return run_query(spark, _Wiring(app, options, coordinator, attempt).loop(spark, listen, drain))


@contextmanager
def _session(app: StreamApp, options: RunOptions) -> Iterator[SparkSession]:
    runtime = app.spec.runtime
    spark = open_session(
        app.name,
        options.master,
        options.data.app(app.name).path,
        ui=options.ui,
        conf=runtime.spark_conf,
        memory=runtime.driver.memory,
    )
    try:
        yield spark
    finally:
        spark.stop()


@dataclass(frozen=True, slots=True)
class _Wiring:
    """What the loop is made of."""

    app: StreamApp
    options: RunOptions
    coordinator: LocalCoordinator
    attempt: Attempt

    def loop(self, spark: SparkSession, listen: Listener, drain: threading.Event) -> Loop:
        """The batch loop, ready to go; from here on, earlier attempts can't write any more."""
        app, options, attempt = self.app, self.options, self.attempt
        compiled = compile_graph(app.spec, attempt.plan, select_schema(spark))
        slots = slots_of(spark, options.master, lambda up: self.coordinator.assign(list(attempt.tasks), up))
        program = attempt.program(compiled, slots.tasks)
        begun = attempt.begin(slots.processors, slots.assignment)
        nothing = BatchPlan(batch=0, epoch=begun.number, now=0, first=True, turns={})
        job = PreparingJob(lambda: slot_job(spark, program, slots.places), nothing.text())
        segments = tuple("sql" if level % 2 else "python" for level in range(compiled.last + 1))
        listen(
            Started(
                app.name,
                app.spec.run_id,
                begun.number,
                len(attempt.tasks),
                len(slots.tasks),
                str(options.data.path),
                spark.sparkContext.uiWebUrl if options.ui else None,
                segments,
            )
        )
        return Loop(
            name=app.name,
            checkpoint=options.data.app(app.name).run(app.spec.run_id).query,
            interval=millis(app.spec.runtime.trigger.interval),
            epoch=begun.number,
            reading=begun.reading,
            bounds=attempt.bounds,
            job=job,
            until=options.until,
            listen=listen,
            drain=drain,
        )
