"""The command `holdfast tail`: show the records of a stream of the embedded log, and new ones as they arrive."""

import argparse

from holdfast_cli.local.local_app import add_app_options, at_least_one, local_app
from holdfast_cli.output.failures import UsageError

_INVALID = 1
_EPILOG = """\
Ends with Ctrl-C, after --max records, or with --until-end where the stream ended as it began; --from-beginning
--until-end is all that is there now. With -o json each record is a line
{"partition", "offset", "key", "value"}; the value is JSON where it is JSON, else a text. Control messages of
intermediate streams have a member "control" as well.

Exit codes: 0 done or interrupted, 1 the app is invalid, 2 the command line is wrong.
"""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command line."""
    parser = commands.add_parser(
        "tail",
        help="show the records of a stream of the embedded log",
        description="Show new records of a stream of the embedded log as they come.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_app_options(parser)
    parser.add_argument("stream", metavar="STREAM", help="a stream of the app")
    parser.add_argument("--from-beginning", action="store_true", help="show what is there first")
    parser.add_argument(
        "--until-end", action="store_true", help="end where the stream ends now, and don't wait for what comes"
    )
    parser.add_argument("--max", type=at_least_one, metavar="N", help="end after N records")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="default: text")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print records until Ctrl-C, `--max`, or the end."""
    if options.until_end and options.max is not None and not options.from_beginning:
        message = (
            f"--until-end starts at the end without --from-beginning, where there are no records for --max "
            f"{options.max}: add --from-beginning, or leave out --until-end to wait for them"
        )
        raise UsageError(message)
    logs = local_app(options)
    if logs is None:
        return _INVALID
    from holdfast_cli.local.tail import Tail  # noqa: PLC0415 - needs the extra `runtime`

    tail = Tail.of(logs, options.stream, from_beginning=options.from_beginning, until_end=options.until_end)
    try:
        tail.print(options.max, as_json=options.output == "json")
    except KeyboardInterrupt:
        return 0
    return 0
