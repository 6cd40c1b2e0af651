"""The command `holdfast run`: run an app on this host and show its progress.

Checks everything that can be checked before a JVM starts. Must not know how an app is run. Imports modules that need
the extra `runtime` only when a run begins.
"""

import argparse
import os
import re
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from holdfast.errors import AwayError, UserActionError, WorldChangeError, safely
from holdfast.planning.plan import PlanningFacts, plan
from holdfast.planning.plan_json import problem_json
from holdfast.planning.problems import Problem
from holdfast.spec.app import StreamApp
from holdfast.spec.values import is_duration, millis
from holdfast_cli.local.local_app import RunFiles, add_app_options, at_least_one, data_of, need_runtime
from holdfast_cli.output.failures import print_failure
from holdfast_cli.output.help_text import HelpFormatter
from holdfast_cli.output.screen import add_output_options, print_message
from holdfast_cli.plan.app_file import AppFile, load_app
from holdfast_cli.plan.plan_text import print_plan, report_invalid
from holdfast_cli.run.saved_files import run_again_when_saved
from holdfast_cli.run.variables import variables_set

if TYPE_CHECKING:
    from holdfast_runtime.driver.early_start import SlotProcesses
    from holdfast_runtime.progress import Listener, RunEnded

_REJECTED = 1
_INTERRUPTED = 130
_NUMBER = "[1-9][0-9]{0,3}"
_MASTER = re.compile(rf"local(\[({_NUMBER}|\*)(,{_NUMBER})?\])?|local-cluster\[{_NUMBER},{_NUMBER},[1-9][0-9]{{0,6}}\]")
_NEEDED = ("pyspark", "pyarrow", "pandas", "numpy", "lmdb", "msgpack", "prometheus_client")
_EPILOG = """\
The app is planned first, as `holdfast plan` does; a rejected plan starts nothing. Ctrl-C (or SIGTERM) finishes the
batch at hand, commits it and ends; a batch that waits for brokers is left to the next run. A second Ctrl-C (or SIGTERM)
stops at once; nothing is lost, the next run repeats the batch.
Running again continues where the last run ended, as long as spec.runId and --data are the same.

On a terminal how it goes is drawn anew in place; elsewhere, lines. With -o json each event is one line: started,
progress, waiting, growthRefused, clockJumped, draining, ended or failed. What the functions of steps print is in
apps/<app>/functions.log in the data directory, or with what Spark prints in spark.log.

Exit codes: 0 it ended well, 1 the app is invalid or its plan is rejected, 2 a file can't be read, the command line is
wrong or something is not installed, 3 the run could not start or failed, 130 stopped at once.

examples:
  holdfast run app.yaml
  holdfast run app.yaml --until-idle                read all there is, then end
  holdfast run app.yaml --for 30s -o json | jq .
  holdfast run app.yaml --watch                     start again with each save
  holdfast run app.yaml --metrics 9100              http://127.0.0.1:9100/metrics
  holdfast run app.yaml --metrics 0.0.0.0:9100 --master 'local[4]'
"""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command line."""
    parser = commands.add_parser(
        "run",
        help="run an app on this host",
        description="Run an app on this host and show how it goes; in Spark's local mode if Spark SQL computes a part.",
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
    )
    add_app_options(parser)
    until = parser.add_argument_group("when it ends by itself (default: when it is stopped, or all inputs have ended)")
    until.add_argument("--until-idle", action="store_true", help="when nothing is left to read")
    until.add_argument("--batches", type=at_least_one, metavar="N", help="after N batches")
    until.add_argument("--for", dest="seconds", type=_seconds, metavar="DURATION", help="after e.g. 30s or 1h30m")
    slots = parser.add_mutually_exclusive_group()
    slots.add_argument("--slots", type=at_least_one, metavar="N", help="work in N slots (default: one per core)")
    slots.add_argument(
        "--master", type=_master, metavar="local[N]", help="in Spark with N slots, also an app that needs no Spark"
    )
    parser.add_argument(
        "--watch", action="store_true", help="run it again whenever its file or a module beside it is saved"
    )
    parser.add_argument("--no-ui", action="store_true", help="without Spark's own pages")
    parser.add_argument(
        "--metrics", metavar="[HOST:]PORT", help="serve Prometheus metrics (host: 127.0.0.1 if not given)"
    )
    add_output_options(parser)
    parser.set_defaults(run=run, events=True)


def _seconds(text: str) -> float:
    if not is_duration(text) or not millis(text):
        message = f"{text} must be a duration longer than nothing, e.g. 500ms, 30s or 1h30m"
        raise argparse.ArgumentTypeError(message)
    return millis(text) / 1000


def _master(text: str) -> str:
    if not _MASTER.fullmatch(text):
        message = f"{text} must be local[N] with N from 1 to 9999, or local[*]: holdfast run runs on this host"
        raise argparse.ArgumentTypeError(message)
    return text


def run(options: argparse.Namespace) -> int:
    """Check the app, run it and show its progress; return the exit code."""
    if options.watch and options.app == "-":
        message = "--watch needs a file: standard input is read once"
        raise UserActionError(message, code="UsageError")
    try:
        return run_again_when_saved(options.app, lambda: _run(options)) if options.watch else _run(options)
    except KeyboardInterrupt:  # before anything could be drained
        return _INTERRUPTED


def _run(options: argparse.Namespace) -> int:
    file = load_app(options.app)
    if file.app is None:
        return report_invalid([file], options.output, options.color, event=True)
    app, data = file.app, data_of(options, file.app.name)
    need_runtime("holdfast run", _NEEDED)
    planned = safely(lambda: plan(app, _topic_facts(app, data)))
    if not planned.valid:
        if options.output == "text":
            print_plan(file, planned, PlanningFacts(), None, color=options.color, wide=False)
        return _refused("PlanRejected", f"the plan of {app.name} is rejected", planned.problems, options)
    for warning in planned.warnings:
        print_message(
            f"warning: {warning.reason.value} at {warning.step or warning.stream or 'the app'}: {warning.message}"
        )
    from holdfast_runtime.driver import early_start  # noqa: PLC0415 - needs the extra `runtime`

    try:
        early_start.check_spark_settings(app)
    except UserActionError as error:
        print_message(f"holdfast: {error}")
        return _refused(error.code, str(error), (), options)
    slots = nullcontext() if options.master else early_start.slots_without_spark(app, planned)
    with variables_set(app.spec.runtime), slots as processes:
        return _watched(file, app, data, options, processes)


def _topic_facts(app: StreamApp, data: Path) -> PlanningFacts:
    """Return what brokers say of topics, asked for as the run itself asks: with its login and its settings."""
    brokers = [system.kafka.bootstrap_servers for system in app.spec.systems if system.kafka is not None]
    if not brokers:
        return PlanningFacts()
    from holdfast_runtime.inspection.streams import near_topics, topic_counts  # noqa: PLC0415 - needs the extra `runtime`

    try:
        counts = topic_counts(app, data)
    except AwayError as error:
        message = f"{error} Nothing was started: check that brokers run at {', '.join(brokers)}, then run it again."
        raise WorldChangeError(message, code="CountsUnknownError") from error
    return PlanningFacts(topics=counts, near=near_topics(app, data, counts))


def _watched(
    file: AppFile, app: StreamApp, data: Path, options: argparse.Namespace, processes: "SlotProcesses | None"
) -> int:
    # Imported here, as all of it needs the extra `runtime`.
    from holdfast_cli.run.watcher import RunDisplay, run_watched  # noqa: PLC0415
    from holdfast_runtime.driver import local_run  # noqa: PLC0415

    if processes is None:
        local_run.require_this_java()
    keeping = {system.name for system in app.spec.systems if system.kind != "generator"}
    shown = frozenset(stream.name for stream in app.spec.streams if stream.system in keeping)
    prints = local_run.output_file(app, data, in_spark=processes is None)
    files = RunFiles(options.app, str(data), bool(options.data), str(prints), shown)
    run_options = local_run.RunOptions(
        data,
        options.until_idle,
        options.batches,
        options.seconds,
        master=options.master or f"local[{options.slots or len(os.sched_getaffinity(0))}]",
        ui=not options.no_ui,
        processes=processes,
        folder=file.folder,
        offsets_command=files.offsets,
    )

    def engine(listen: "Listener", drain: Event) -> "RunEnded":
        return local_run.run_app(app, run_options, listen, drain)

    return run_watched(engine, RunDisplay(options.output == "json", options.color, options.metrics, files, app.spec))


def _refused(error: str, message: str, problems: Sequence[Problem], options: argparse.Namespace) -> int:
    print_failure(options.output, error, message, [problem_json(problem) for problem in problems], event=True)
    return _REJECTED
