"""The command `holdfast plan`: show an app's plan or all its problems, without a cluster or a JVM.

Reads the app and the other inputs (partition counts, placement record, processors), plans, and prints. The exit code
says whether the app may run.
"""

import argparse
import json
import sys
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import UserActionError, safely
from holdfast.planning.plan import Plan, PlanningFacts, plan
from holdfast.planning.plan_json import plan_json
from holdfast.spec.app import StreamApp
from holdfast.spec.kept_streams import StreamNames
from holdfast.tasks.record import PlacementRecord, RecordInvalidError, parse_record
from holdfast_cli.output.help_text import HelpFormatter
from holdfast_cli.output.screen import print_json, screen
from holdfast_cli.plan.app_file import AppFile, FileUnreadableError, load_app, read_text
from holdfast_cli.plan.fix import fix
from holdfast_cli.plan.partition_counts import given_counts, topic_facts
from holdfast_cli.plan.plan_text import print_plan, print_spec_errors

if TYPE_CHECKING:
    from holdfast_runtime.inspection.spark_need import SparkNeed

_REJECTED = 1
_LONGEST_WAIT = 3600
_EPILOG = """\
Exit codes: 0 the plan is valid, 1 it is rejected, 2 a file can't be read or the command line is wrong.

examples:
  holdfast plan app.yaml --partitions clicks=16 --partitions impressions=8
  holdfast plan app.yaml --record record.json --partitions clicks=32      what a growth would do
  holdfast plan app.yaml --record record.json --processors processors.json    where tasks run, what moves
  holdfast plan app.yaml -o svg > plan.svg
  holdfast plan app.yaml --fix > repaired.yaml
  holdfast plan app.yaml --lineage totals.amount    from which columns of inputs it is made
"""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command line."""
    parser = commands.add_parser(
        "plan",
        help="check an app and show what it will be",
        description="Validate joins, infer partition counts and show the tasks of an app before anything starts.",
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("app", metavar="APP.yaml", help="the StreamApp; - reads standard input")
    parser.add_argument(
        "--partitions",
        metavar="STREAM=N",
        action="append",
        default=[],
        help="partition count of a stream, before what spec and broker say; may be repeated",
    )
    parser.add_argument("--record", metavar="FILE", help="placement record of the last run (JSON): plan a growth")
    parser.add_argument(
        "--processors", metavar="FILE", help="live processors and their locations (JSON): show what moves"
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=("text", "json", "svg", "mermaid", "dot"),
        default="text",
        help="how to show the plan (default: text)",
    )
    parser.add_argument(
        "--fix", action="store_true", help="print the app with all repairs applied, instead of the plan"
    )
    parser.add_argument(
        "--lineage",
        nargs="?",
        const="",
        metavar="STREAM[.COLUMN]",
        help="show from which columns of inputs each column is made, instead of the plan: of a stream, table or step, "
        "or of all streams and tables that the app writes; as text or JSON",
    )
    parser.add_argument(
        "--kafka-config", metavar="FILE", help="settings of the Kafka client, key=value lines, e.g. sasl.password"
    )
    parser.add_argument(
        "--timeout", type=_seconds, default=10.0, metavar="SECONDS", help="how long to wait for a broker (default: 10)"
    )
    parser.add_argument("--wide", action="store_true", help="show columns and types of every step, and every task")
    parser.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="colours (default: on a terminal)"
    )
    parser.set_defaults(run=run)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds <= _LONGEST_WAIT:
        message = "must be more than 0 and at most an hour"
        raise argparse.ArgumentTypeError(message)
    return seconds


def run(options: argparse.Namespace) -> int:
    """Plan and print; return the exit code, which says whether the app may run."""
    if options.lineage is not None and (options.fix or options.output not in ("text", "json")):
        message = "--lineage is printed as text or JSON, and instead of the plan: leave --fix and other formats out"
        raise UserActionError(message, code="LineageFormatError")
    file = load_app(options.app)
    if file.app is None:
        return _invalid_spec(file, options)
    facts = _known(file.app, options)
    if options.fix:
        return fix(file, file.app, facts)
    app = file.app
    app_plan = safely(lambda: plan(app, facts))
    _print(file.app, file, app_plan, facts, options)
    return 0 if app_plan.valid else _REJECTED


def _known(app: StreamApp, options: argparse.Namespace) -> PlanningFacts:
    option_counts = given_counts(app, options.partitions)
    record = None if options.record is None else _record(options.record).called(StreamNames.of(app.spec))
    processors = {} if options.processors is None else _processors(options.processors)
    topics = topic_facts(app, option_counts, options.kafka_config, options.timeout)
    return PlanningFacts(option_counts, topics.counts, topics.near, record, processors)


def _record(path: str) -> PlacementRecord:
    try:
        return parse_record(_json(path))
    except (RecordInvalidError, RecursionError) as error:
        message = f"{path} is not a placement record: {error}"
        raise FileUnreadableError(message) from error


def _processors(path: str) -> dict[str, str]:
    tree = _json(path)
    if not isinstance(tree, dict) or not all(isinstance(location, str) for location in tree.values()):
        message = f'{path} must map processors to locations, e.g. {{"exec-1": "node-a"}}'
        raise FileUnreadableError(message)
    if not tree:
        message = f'{path} has no processors; map those that are live to locations, e.g. {{"exec-1": "node-a"}}'
        raise FileUnreadableError(message)
    return tree


def _json(path: str) -> object:
    try:
        tree: object = json.loads(read_text(Path(path)))
    except (ValueError, RecursionError) as error:
        message = f"{path} is not JSON: {error}"
        raise FileUnreadableError(message) from error
    return tree


def _print(app: StreamApp, file: AppFile, app_plan: Plan, facts: PlanningFacts, options: argparse.Namespace) -> None:
    if options.lineage is not None and app_plan.valid:
        _print_lineage(app, app_plan, options)
    elif options.output == "text":
        print_plan(file, app_plan, facts, _spark_need(app, app_plan), color=options.color, wide=options.wide)
    elif options.output == "json":
        need = _spark_need(app, app_plan)
        print_json({**plan_json(app_plan), "sparkSql": None if need is None else asdict(need)})
    else:
        from holdfast.planning.picture.formats import draw  # noqa: PLC0415 - rarely needed

        text = draw(options.output, app_plan, app)
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")


def _print_lineage(app: StreamApp, app_plan: Plan, options: argparse.Namespace) -> None:
    from holdfast_cli.plan import lineage_text  # noqa: PLC0415 - rarely needed

    lineages = safely(lambda: lineage_text.shown_lineages(app.spec, options.lineage))
    if options.output == "json":
        print_json({"app": app_plan.app, "valid": True, "lineage": lineage_text.lineage_json(lineages)})
    else:
        lineage_text.print_lineage(screen(options.color), lineages, app_plan)


def _spark_need(app: StreamApp, app_plan: Plan) -> "SparkNeed | None":
    """Return what Spark SQL computes; None for a rejected plan, and where the extra `runtime` is not installed."""
    if not app_plan.valid or find_spec("pyarrow") is None:
        return None
    from holdfast_runtime.inspection.spark_need import spark_need  # noqa: PLC0415 - needs the extra `runtime`

    return safely(lambda: spark_need(app.spec, app_plan))


def _invalid_spec(file: AppFile, options: argparse.Namespace) -> int:
    if options.output == "json":
        print_json(_invalid_json(file))
    else:
        # An invalid spec can't be drawn, so other formats get its errors as text on stderr.
        print_spec_errors(file, color=options.color, to_stderr=options.output != "text" or options.fix)
    return _REJECTED


def _invalid_json(file: AppFile) -> dict[str, object]:
    lists: tuple[str, ...] = ("streams", "joins", "tables", "steps", "tasks", "moved", "warnings")
    problems: list[dict[str, object]] = [
        {
            "reason": "InvalidSpec",
            "step": None,
            "stream": None,
            "streams": {},
            "message": str(error),
            "repair": None,
            "path": error.dotted,
            "line": file.mark_of(error).line,
            "column": file.mark_of(error).column,
        }
        for error in file.errors
    ]
    return {
        "app": file.name,
        "valid": False,
        **{name: [] for name in lists},
        "assignment": {},
        "problems": problems,
        "sparkSql": None,
    }
