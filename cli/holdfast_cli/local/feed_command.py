"""The command `holdfast feed`: write JSON lines into a stream of the embedded log."""

import argparse
import os
import sys
import time
from pathlib import Path

from holdfast_cli.local.local_app import add_app_options, local_app
from holdfast_cli.plan.app_file import FileUnreadableError

_INVALID = 1
_INTERRUPTED = 130
_EPILOG = """\
Each line is one JSON object; its bytes become the record's value as they are, its key columns the key. For a stream of
format string or binary the object's member "value" is the text, or the bytes in base64.

Exit codes: 0 all is written, 1 the app is invalid, 2 a line or the command line is wrong, 130 interrupted.

examples:
  holdfast feed app.yaml clicks clicks.jsonl
  producer | holdfast feed app.yaml clicks
"""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command line."""
    parser = commands.add_parser(
        "feed",
        help="write JSON lines into a stream of the embedded log",
        description="Write JSON lines into a stream of the embedded log, partitioned by the stream's key. The stream "
        "is created when it is not there.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_app_options(parser)
    parser.add_argument("stream", metavar="STREAM", help="a stream of the app")
    parser.add_argument("file", metavar="FILE", nargs="?", default="-", help="JSON lines (default: standard input)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Write the lines and print how many were written."""
    logs = local_app(options)
    if logs is None:
        return _INVALID
    from holdfast_cli.local.feed import Feed, feed  # noqa: PLC0415 - needs the extra `runtime`

    to = Feed.into(logs, options.stream, now=_now())
    name = "standard input" if options.file == "-" else options.file
    file = sys.stdin.fileno() if options.file == "-" else _opened(options.file)
    try:
        feed(to, file, name, clock=_now, progress=_progress if sys.stderr.isatty() else None)
        ended = 0
    except KeyboardInterrupt:
        ended = _INTERRUPTED
    finally:
        if options.file != "-":
            os.close(file)
    what = "record" if to.written == 1 else "records"
    sys.stdout.write(f"{to.written} {what} written to {options.stream} ({to.partitions} partitions)\n")
    return ended


def _opened(path: str) -> int:
    try:
        if Path(path).is_dir():
            message = f"{path} is a directory"
            raise FileUnreadableError(message)
        return os.open(path, os.O_RDONLY)
    except OSError as error:
        message = f"{path} can't be read: {error}"
        raise FileUnreadableError(message) from error


def _now() -> int:
    return time.time_ns() // 1_000_000


def _progress(written: int) -> None:
    sys.stderr.write(f"\r{written:,} records\r")
    sys.stderr.flush()
