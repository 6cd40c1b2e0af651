"""The commands on streams of this host: `holdfast feed`, `holdfast tail`, `holdfast streams`.

They write records into a stream of the embedded log, show its records, and show what all streams hold. Imports modules
that need the extra `runtime` only when a command runs.
"""

import argparse
import os
import sys
import time
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from holdfast.errors import UserActionError
from holdfast_cli.local.local_app import add_app_options, at_least_one, on_app
from holdfast_cli.output.screen import TextTable, add_output_format, add_output_options, print_json, screen
from holdfast_cli.plan.app_file import FileUnreadableError
from holdfast_runtime.inspection.local_app import LocalApp

_INTERRUPTED = 130
_NUMBERS = ("PARTITIONS", "OLDEST", "END", "RECORDS", "BYTES")
_FEED_EPILOG = """\
Each line is one JSON object; its bytes become the record's value as they are, its key columns the key. For a stream of
format string or binary the object's member "value" is the text, or the bytes in base64.

Exit codes: 0 all is written, 1 the app is invalid, 2 a line or the command line is wrong, 130 interrupted.

examples:
  holdfast feed app.yaml clicks clicks.jsonl
  producer | holdfast feed app.yaml clicks
"""
_TAIL_EPILOG = """\
Ends with Ctrl-C, after --max records, or with --until-end where the stream ended as it began; --from-beginning
--until-end is all that is there now. With -o json each record is a line
{"partition", "offset", "key", "value"}; the value is JSON where it is JSON, else a text. Control messages of
intermediate streams have a member "control" as well.

Exit codes: 0 done or interrupted, 1 the app is invalid, 2 the command line is wrong.
"""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command lines."""
    feed = commands.add_parser(
        "feed",
        help="write JSON lines into a stream of the embedded log",
        description="Write JSON lines into a stream of the embedded log, partitioned by the stream's key. The stream "
        "is created when it is not there.",
        epilog=_FEED_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_app_options(feed)
    feed.add_argument("stream", metavar="STREAM", help="a stream of the app")
    feed.add_argument("file", metavar="FILE", nargs="?", default="-", help="JSON lines (default: standard input)")
    feed.set_defaults(run=on_app(_feed))

    tail = commands.add_parser(
        "tail",
        help="show the records of a stream of the embedded log",
        description="Show new records of a stream of the embedded log as they come.",
        epilog=_TAIL_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_app_options(tail)
    tail.add_argument("stream", metavar="STREAM", help="a stream of the app")
    tail.add_argument("--from-beginning", action="store_true", help="show what is there first")
    tail.add_argument(
        "--until-end", action="store_true", help="end where the stream ends now, and don't wait for what comes"
    )
    tail.add_argument("--max", type=at_least_one, metavar="N", help="end after N records")
    add_output_format(tail)
    tail.set_defaults(run=on_app(_tail))

    streams = commands.add_parser(
        "streams",
        help="show what the streams of an app hold",
        description="Show the streams of an app; for those of the embedded log, what they hold: the lowest offset "
        "kept, the highest end of a partition, records, and bytes on disk.",
        epilog="Exit codes: 0 done, 1 the app is invalid, 2 a file can't be read.",
    )
    add_app_options(streams)
    add_output_options(streams)
    streams.set_defaults(run=on_app(_show_streams))


def _feed(local_app: LocalApp, options: argparse.Namespace) -> int:
    from holdfast_cli.local.feed import Feed, feed  # noqa: PLC0415 - needs the extra `runtime`

    to = Feed.into(local_app, options.stream, now=_now())
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
    sys.stdout.write(f"{to.written} {what} written to {options.stream} ({to.stream.partitions} partitions)\n")
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


def _tail(local_app: LocalApp, options: argparse.Namespace) -> int:
    if options.until_end and options.max is not None and not options.from_beginning:
        message = (
            f"--until-end starts at the end without --from-beginning, where there are no records for --max "
            f"{options.max}: add --from-beginning, or leave out --until-end to wait for them"
        )
        raise UserActionError(message, code="UsageError")
    from holdfast_cli.local.tail import Tail  # noqa: PLC0415 - needs the extra `runtime`

    tail = Tail.of(local_app, options.stream, from_beginning=options.from_beginning, until_end=options.until_end)
    with suppress(KeyboardInterrupt):
        tail.print(options.max, as_json=options.output == "json")
    return 0


def _show_streams(local_app: LocalApp, options: argparse.Namespace) -> int:
    streams = _streams(local_app)
    if options.output == "json":
        print_json({"app": local_app.app.name, "streams": streams})
        return 0
    table = TextTable("STREAM", "ROLE", "SYSTEM", *_NUMBERS, right=_NUMBERS)
    for stream in streams:
        cells = ["-" if stream[name.lower()] is None else f"{stream[name.lower()]}" for name in _NUMBERS]
        table.add(str(stream["name"]), str(stream["role"]), str(stream["system"]), *cells)
    table.print(screen(options.color))
    return 0


def _streams(local_app: LocalApp) -> list[dict[str, Any]]:
    from holdfast_runtime.inspection.streams import StoredStream, StreamContent  # noqa: PLC0415 - needs `runtime`

    rows = []
    for stream in local_app.plan.streams:
        kind, planned = local_app.kind(stream.name), stream.count
        content = StoredStream.of(local_app, stream.name).content() if kind == "log" else None
        numbers = dict.fromkeys(field.name for field in fields(StreamContent)) if content is None else asdict(content)
        if content is None and planned is not None:
            numbers["partitions"] = planned.actual
        rows.append({"name": stream.name, "role": stream.role, "system": kind, **numbers})
    return rows
