"""The command `holdfast offsets`: show an app's positions in its inputs, or change them.

Showing changes nothing, and the app may be running. Setting leaves a jump for the next attempt and does not touch
checkpoint or state. Replanning undoes the part of a batch whose results nobody has seen.
"""

import argparse

from holdfast.errors import UserActionError
from holdfast_cli.cluster.pod_command import RIGHTS, PodCommand, add_place_options, is_on_cluster
from holdfast_cli.local.local_app import add_app_options, on_app
from holdfast_cli.output.help_text import HelpFormatter
from holdfast_cli.output.screen import add_output_options
from holdfast_runtime.inspection.local_app import LocalApp

OFFSETS_IN_POD = PodCommand(("offsets",), ("output",))
_EPILOG = (
    """\
Shows for each partition the next record to be read (as of the last batch that is done), what the stream has now, how
many records are unread, and what is wrong: records are gone unread, the topic was created again, or it ends before
where it was read to. The app may be running.

--set puts partitions elsewhere: to the oldest record kept, to the end, or to an offset between them. It is refused
while the app runs, and for streams that the app makes itself. The next run begins there. Of a topic that was created
again, all partitions are set at once. State stays as it is: records that are skipped are lost for it, and records that
are read again count twice, in state and in outputs. To begin from nothing, change spec.runId instead. What was set and
not taken up by a run is replaced by the next --set.

--replan has a batch planned again that is planned and can't be done: a topic does not take a record of it, or it does
not fit into memory. It is refused while the app runs. What is written of the batch already stays, and the next run
finishes that; the rest is taken back, and the next run plans it with the spec, the limits and the code of then. No row
is lost or doubled. What functions had computed for it is computed again.

"""
    + RIGHTS
    + """ There positions are shown, and not set.

Exit codes: 0 done, 1 the app can't go on from where it stands, or nothing was changed (refused, or without --yes), 2
there are no positions, or they can't be read, 3 a system does not say what it has.

examples:
  holdfast offsets app.yaml
  holdfast offsets app.yaml --set clicks=oldest                 shows what would change
  holdfast offsets app.yaml --set clicks=oldest --yes
  holdfast offsets app.yaml --set clicks/0=1200 --set clicks/1=end --yes
  holdfast offsets app.yaml --replan                            shows what would be planned again
  holdfast offsets app.yaml --replan --yes
  holdfast offsets ad-clicks -n shop                            of an app on a cluster
"""
)


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command line."""
    parser = commands.add_parser(
        "offsets",
        help="show where an app stands in its inputs, or set it",
        description="Show where an app stands in the streams it reads, or put it elsewhere.",
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
    )
    add_app_options(parser)
    add_place_options(parser)
    change = parser.add_mutually_exclusive_group()
    change.add_argument(
        "--set",
        action="append",
        default=[],
        dest="settings",
        metavar="STREAM[/PARTITION]=TO",
        help="TO is oldest, end, or of one partition the offset of the record to be read next; may be repeated",
    )
    change.add_argument(
        "--replan", action="store_true", help="have the batch planned again that is planned and not done"
    )
    parser.add_argument("--yes", action="store_true", help="do it, without a question")
    add_output_options(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if (options.settings or options.replan) and is_on_cluster(options):
        # With a driver the app runs, and without one there is no pod: neither can be right.
        message = (
            "on a cluster positions are shown, and not set: --set and --replan take an app that does not run, and then "
            "it has no pod. Of a stream that can't be read on, docs/kafka.md says what there is to choose"
        )
        raise UserActionError(message, code="UsageError")
    return on_app(_offsets, OFFSETS_IN_POD)(options)


def _offsets(logs: LocalApp, options: argparse.Namespace) -> int:
    # Imported here, as they need the extra `runtime`.
    if options.settings or options.replan:
        from holdfast_cli.local.offsets_change import change_offsets  # noqa: PLC0415

        return change_offsets(logs, options)
    from holdfast_cli.local.offsets_view import show_offsets  # noqa: PLC0415

    return show_offsets(logs, options.output, options.color)
