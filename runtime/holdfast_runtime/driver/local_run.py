"""An app run on this host, in a data directory that its runs share: what is checked before, and the run.

Beside `pod`, which runs an app in the driver's pod of a cluster. Must not put parts together: `app.run_at` does.
"""

import os
import threading
from dataclasses import dataclass
from pathlib import Path

from holdfast.planning.plan import plan
from holdfast.spec.app import StreamApp
from holdfast_runtime.checkpoint.directories import DataDir, disk_refusals
from holdfast_runtime.coordination.local import LocalCoordinator
from holdfast_runtime.driver.app import run_at
from holdfast_runtime.driver.jumps import OffsetsCommand, with_offsets_command
from holdfast_runtime.driver.slot_placement import ProcessorShape, Site, shape_of
from holdfast_runtime.driver.traces import batch_traces
from holdfast_runtime.loop.lost_positions import PositionLostError
from holdfast_runtime.loop.stopping import StopCondition
from holdfast_runtime.progress import Listener, RunEnded
from holdfast_runtime.spark.session import require_java, spark_log
from holdfast_runtime.stints.slot_processes import SlotProcesses
from holdfast_runtime.streams.kafka.admin.existing_topics import kafka_counts
from holdfast_runtime.streams.modules_beside import modules_beside


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run an app on this host. Without an end it goes on until it is asked to stop."""

    data: Path
    """The data directory."""
    idle: bool = False
    """End when nothing is left to read."""
    batches: int | None = None
    """End after so many."""
    seconds: float | None = None
    """End after so long."""
    master: str = "local[2]"
    ui: bool = True
    processes: SlotProcesses | None = None
    """Where slots run without Spark; the app must not need it. `master` says how many."""
    folder: Path | None = None
    """The directory of the app's file, where its functions are looked for first; None: it is from no file."""
    offsets_command: OffsetsCommand | None = None
    """For the error of an app that can't read on."""


def require_this_java() -> None:
    """Raise `JavaMissingError` if this host has no Java that Spark runs on."""
    require_java(os.environ)


def output_file(app: StreamApp, data: Path, *, in_spark: bool) -> Path:
    """Return the file with what the functions of steps print, and Spark if the app runs there."""
    directory = DataDir(data).app(app.name)
    return spark_log(directory.path) if in_spark else directory.functions_log


def run_app(app: StreamApp, options: RunOptions, listen: Listener, drain: threading.Event) -> RunEnded:
    """Run an app on this host until it ends or is asked to drain; raise what went wrong."""
    data, run = DataDir(options.data), app.spec.run_id
    beside = modules_beside(app.spec, options.folder)
    app_directory, topics = data.app(app.name), kafka_counts(app.spec, data.secrets)
    with (
        batch_traces(app.name) as traces,
        disk_refusals(data.path),
        app_directory.taken(),
        LocalCoordinator(app_directory.run(run).metadata, app.name, run, topics) as coordinator,
    ):
        if options.processes is not None:
            options.processes.print_into(app_directory.functions_log)
        site = Site(
            master=options.master,
            shape=shape_of(options.master) or ProcessorShape(0, 1),
            paths=data.paths(app.name, run),
            coordinator=coordinator,
            shown=str(data.path),
            ui=options.ui,
            processes=options.processes,
            prints=app_directory.path,
            beside=beside,
            traces=traces,
        )
        try:
            return run_at(site, app, StopCondition(options.idle, options.batches, options.seconds), listen, drain)
        except PositionLostError as error:
            if options.offsets_command is None:
                raise
            own_streams = {stream.name for stream in plan(app).streams if stream.role == "intermediate"}
            raise with_offsets_command(error, options.offsets_command, own_streams) from error
