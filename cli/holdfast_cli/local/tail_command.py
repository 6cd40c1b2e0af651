"""The command `holdfast tail`: show the records of a stream of the embedded log, and new ones as they arrive."""

import argparse

from holdfast_cli.local.local_app import add_app_options, at_least_one, local_app

_INVALID = 1
_EPILOG = """\
Ends with Ctrl-C, or after --max records. With -o json each record is a line
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
    parser.add_argument("--max", type=at_least_one, metavar="N", help="end after N records")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="default: text")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print records until Ctrl-C or `--max`."""
    logs = local_app(options)
    if logs is None:
        return _INVALID
    from holdfast_cli.local.tail import Tail  # noqa: PLC0415 - needs the extra `runtime`

    tail = Tail.of(logs, options.stream, from_beginning=options.from_beginning)
    try:
        tail.print(options.max, as_json=options.output == "json")
    except KeyboardInterrupt:
        return 0
    return 0
