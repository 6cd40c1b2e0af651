"""The driver's process on a cluster: `python -m holdfast_runtime.driver FOLDER`, as the image starts it.

Reads the directory that the operator has filled, runs the app, and leaves a termination message for the operator.
SIGTERM drains the run. Must not wire the engine: `app` does.
"""

import argparse
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

from holdfast.protocol.metrics import METRICS_PORT_VARIABLE
from holdfast.spec.values import millis
from holdfast_runtime.checkpoint.changelog import begin_changelog, changelog_of
from holdfast_runtime.checkpoint.directories import RunPaths
from holdfast_runtime.checkpoint.run_owner import EVERY, claim_run
from holdfast_runtime.clocks import steady
from holdfast_runtime.coordination.api_config_maps import ApiConfigMaps
from holdfast_runtime.coordination.cluster import PATIENCE, ClusterCoordinator
from holdfast_runtime.coordination.given_up_runs import GivenUpRuns
from holdfast_runtime.coordination.reporter import has_committed
from holdfast_runtime.driver.app import run_at
from holdfast_runtime.driver.drain_request import DrainRequest
from holdfast_runtime.driver.lineage_posts import lineage_posts
from holdfast_runtime.driver.metrics import MeasuredApp, MetricsServer, RunMetrics
from holdfast_runtime.driver.periodic_work import PeriodicChore
from holdfast_runtime.driver.pod import (
    DriverDirectory,
    DriverLog,
    failure_message,
    old_runs_of,
    paths_of,
    read_directory,
    success_message,
    write_termination,
)
from holdfast_runtime.driver.slot_placement import ProcessorShape, Site, shape_of
from holdfast_runtime.driver.traces import BatchTraces, batch_traces
from holdfast_runtime.loop.stopping import StopCondition
from holdfast_runtime.progress import AttemptStarted, Event, RunEnded

_LOG = logging.getLogger("holdfast")
_MASTER = "k8s://https://kubernetes.default.svc"
_STATE, _TERMINATION = Path("/var/lib/holdfast"), Path("/dev/termination-log")
_POD_IP, _ANY_HOST = "HOLDFAST_POD_IP", "0.0.0.0"  # noqa: S104 - a pod without the variable
_EXECUTORS_WITHIN = 600.0
"""Seconds. Nodes may have to be created, and images pulled."""
_EPILOG = """\
FOLDER holds app.json, attempt.json and spark.json, as the operator writes them. The API server is reached as the pod's
service account, or outside of a pod as KUBECONFIG says. SIGTERM finishes the batch at hand, commits it and ends.

Exit codes: 0 drained or completed, 1 failed; why stands in the termination message, as JSON: {"ended": ...} or
{"failed": "user" | "world" | "bug", "message": ...}.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the app of a directory; return the exit code."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    _LOG.setLevel(logging.INFO)
    drain = DrainRequest()

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the protocol of handlers
        drain.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    return _told(lambda: _run(options, drain), options.termination)


def _told(run: Callable[[], RunEnded], termination: Path) -> int:
    """Run, write the termination message, and return the exit code."""
    try:
        ended = run()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the last word
        message = failure_message(error)
        _LOG.exception("the driver ends: %s", message)
        write_termination(message, termination)
        return 1
    write_termination(success_message(ended), termination)
    return 0


def _run(options: argparse.Namespace, drain: threading.Event) -> RunEnded:
    read, log = read_directory(options.directory), DriverLog(steady)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(TemporaryDirectory(prefix="holdfast-driver-")))
        paths = paths_of(read, options.directory, options.state, scratch, options.log)
        # Ends last, so that nobody waits for a server of lineage but the end of the process.
        if (lineage := lineage_posts(read.app, read.orders, paths.secrets)) is not None:
            stack.enter_context(lineage)
        traces = stack.enter_context(batch_traces(read.app.name, read.orders.namespace))
        maps = ApiConfigMaps.connected(read.orders.namespace)
        claim = claim_run(paths.shared, read.orders, committed=has_committed(maps, read.orders))
        _LOG.info("driver of %s run %s attempt %d begins", read.orders.app, read.orders.run, read.orders.attempt)
        interval = millis(read.app.spec.runtime.trigger.interval) / 1000
        coordinator = stack.enter_context(ClusterCoordinator(read.orders, maps, options.patience, interval=interval))
        begin_changelog(paths.shared, changelog_of(read.app, paths.secrets))
        old_runs = old_runs_of(read, options.directory, claim, GivenUpRuns(maps, read.orders).forget)
        rounds = stack.enter_context(PeriodicChore(old_runs.collect, EVERY))
        metrics = RunMetrics(MeasuredApp.of(read.app.spec, on_cluster=True))
        serve_metrics(metrics, stack)

        def listen(event: Event) -> None:
            log.listen(event)
            metrics.note(event)
            if lineage is not None:
                lineage.listen(event)
            if isinstance(event, AttemptStarted):
                rounds.begin()

        site = _site(options, read, paths, coordinator, traces)
        ended = run_at(site, read.app, StopCondition(), listen, drain)
        log.listen(ended)
        if lineage is not None:
            lineage.listen(ended)
    return ended


def serve_metrics(metrics: RunMetrics, stack: ExitStack) -> None:
    """Serve metrics where the operator's variable says; an app runs all the same if that port is not free."""
    port = os.environ.get(METRICS_PORT_VARIABLE)
    if not port:
        return
    try:
        server = MetricsServer(metrics, os.environ.get(_POD_IP) or _ANY_HOST, int(port))
    except (OSError, ValueError, OverflowError) as error:
        _LOG.warning("metrics can't be served on port %s: %s", port, error)
    else:
        stack.callback(server.close)


def _site(
    options: argparse.Namespace,
    read: DriverDirectory,
    paths: RunPaths,
    coordinator: ClusterCoordinator,
    traces: BatchTraces | None,
) -> Site:
    runtime = read.app.spec.runtime
    return Site(
        master=options.master,
        shape=shape_of(options.master) or ProcessorShape(runtime.executors.count, runtime.executors.cores),
        paths=paths,
        coordinator=coordinator,
        shown=paths.shared.directory,
        ui=runtime.spark_conf.get("spark.ui.enabled", "true").strip().casefold() == "true",
        spark={**read.spark, **_address()},
        moving=True,
        host=None if options.master.startswith("local") else os.environ.get(_POD_IP),
        executors_within=_EXECUTORS_WITHIN,
        look_every=0.3,
        traces=traces,
    )


def _address() -> dict[str, str]:
    """Return the settings by which executors find the driver: its pod's IP address, as its name does not resolve."""
    address = os.environ.get(_POD_IP)
    return {} if not address else {"spark.driver.host": address, "spark.driver.bindAddress": address}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="holdfast_runtime.driver",
        description="Run the driver of a StreamApp on a cluster.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("directory", type=Path, metavar="FOLDER", help="what the operator mounts, e.g. /etc/holdfast")
    parser.add_argument("--master", default=_MASTER, help=f"Spark's master (default: {_MASTER})")
    parser.add_argument(
        "--state", type=Path, default=_STATE, metavar="DIR", help=f"local stores of executors (default: {_STATE})"
    )
    parser.add_argument(
        "--termination", type=Path, default=_TERMINATION, metavar="FILE", help=f"(default: {_TERMINATION})"
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=PATIENCE,
        metavar="SECONDS",
        help=f"how long to wait for the operator's first assignment (default: {PATIENCE:g})",
    )
    # For tests on one host: a cluster has no embedded log.
    parser.add_argument("--log", type=Path, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
