"""The commands on an app's streams: `holdfast feed`, `holdfast tail`, `holdfast streams`.

They write records into a stream of the embedded log of this host or of Kafka, show its records, and show what all
streams hold. Imports modules that need the extra `runtime` only when a command runs.
"""

import argparse
import os
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import UserActionError
from holdfast_cli.cluster.pod_command import RIGHTS, PodCommand, add_place_options
from holdfast_cli.local.local_app import add_app_options, at_least_one, on_app
from holdfast_cli.output.help_text import HelpFormatter
from holdfast_cli.output.screen import add_output_format, add_output_options, print_json, screen
from holdfast_cli.output.text_table import TextTable
from holdfast_cli.plan.app_file import FileUnreadableError
from holdfast_runtime.inspection.local_app import LocalApp

if TYPE_CHECKING:
    from holdfast_runtime.inspection.open_streams import StreamSummary

_UNKNOWN, _INTERRUPTED = 3, 130
_NUMBERS = ("PARTITIONS", "OLDEST", "END", "RECORDS", "BYTES")
_FEED_EPILOG = """\
Each line is one JSON object; its bytes become the record's value as they are, its key columns the key. For a stream of
format string or binary the object's member "value" is the text, or the bytes in base64; for other formats than json the
object becomes a record as the app would write it. With --delete a line is a key, and its record has no value: a
table that the stream feeds deletes the row of that key, and a compacted topic forgets it.

Of FILE.csv the first line names columns, in any order; each other line is a row, written as in a stream of format csv,
and an empty field is null.

Into a topic, records are written with the system's login by an idempotent producer, without transactions. Streams that
the app writes itself are refused.

Exit codes: 0 all is written, 1 the app is invalid, 2 a line or the command line is wrong, or the stream can't be
written, 130 interrupted.

examples:
  holdfast feed app.yaml clicks clicks.jsonl
  holdfast feed app.yaml clicks clicks.csv
  producer | holdfast feed app.yaml clicks
  echo '{"ad_id": "ad-7"}' | holdfast feed app.yaml ads --delete
"""
_TAIL_EPILOG = (
    """\
Of a topic, committed records are shown. They are read with the system's login, and no group.

--where takes Spark SQL over the stream's columns that Holdfast computes without Spark, like a step's filter:
comparisons, AND, OR, NOT, IN, LIKE, arithmetic, functions of texts and times. A record without a value has no row and
does not match; one that can't be decoded does not either, and is counted on standard error at the end. --max counts
what is shown.

Ends with Ctrl-C, after --max records, or with --until-end where the stream ended as it began; --from-beginning
--until-end is all that is there now. With -o json each record is a line
{"partition", "offset", "key", "value"}; the value is JSON where it is JSON, else a text. Control messages of
intermediate streams have a member "control" as well.

"""
    + RIGHTS
    + """

Exit codes: 0 done or interrupted, 1 the app is invalid, 2 the command line is wrong, or the stream can't be read.

examples:
  holdfast tail app.yaml clicks
  holdfast tail ad-clicks clicks -n shop                               of an app on a cluster
  holdfast tail app.yaml clicks --from-beginning --until-end -o json
  holdfast tail app.yaml clicks --from-beginning --key ad-7 --where "cost > 100 AND country IN ('de', 'fr')"
"""
)

TAIL_IN_POD = PodCommand(
    ("tail",), ("from_beginning", "until_end", "max", "key", "where", "output"), positionals=("stream",)
)
STREAMS_IN_POD = PodCommand(("streams",), ("output",))


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command lines."""
    feed = commands.add_parser(
        "feed",
        help="write lines of JSON or CSV into a stream",
        description="Write JSON lines, or the rows of a CSV file, into a stream of the embedded log or of Kafka, "
        "partitioned by the stream's key. "
        "In the log, the stream is created when it is not there; a topic only if the stream has create: true.",
        epilog=_FEED_EPILOG,
        formatter_class=HelpFormatter,
    )
    add_app_options(feed)
    feed.add_argument("stream", metavar="STREAM", help="a stream of the app")
    feed.add_argument(
        "file", metavar="FILE", nargs="?", default="-", help="JSON lines, or FILE.csv (default: standard input)"
    )
    feed.add_argument(
        "--delete", action="store_true", help="lines have the key columns alone; write records without a value"
    )
    feed.set_defaults(run=on_app(_feed))

    tail = commands.add_parser(
        "tail",
        help="show the records of a stream",
        description="Show new records of a stream, in the embedded log or in Kafka, as they come.",
        epilog=_TAIL_EPILOG,
        formatter_class=HelpFormatter,
    )
    add_app_options(tail)
    add_place_options(tail)
    tail.add_argument("stream", metavar="STREAM", help="a stream of the app")
    tail.add_argument("--from-beginning", action="store_true", help="show what is there first")
    tail.add_argument(
        "--until-end", action="store_true", help="end where the stream ends now, and don't wait for what comes"
    )
    tail.add_argument("--max", type=at_least_one, metavar="N", help="end after N records")
    tail.add_argument("--key", metavar="TEXT", help="show only records with this key, as it is shown")
    tail.add_argument("--where", metavar="EXPR", help="show only records whose rows meet this condition")
    add_output_format(tail)
    tail.set_defaults(run=on_app(_tail, TAIL_IN_POD))

    streams = commands.add_parser(
        "streams",
        help="show what the streams of an app hold",
        description="Show the streams of an app and what they hold: the lowest offset kept, the highest end of a "
        "partition, records, and in the embedded log the bytes on disk. Of a topic, the records are all offsets from "
        "the oldest to the end, also those that transactions and compaction leave empty.",
        epilog=f"{RIGHTS}\n\nExit codes: 0 done, 1 the app is invalid, 2 a file can't be read, 3 a system does not say "
        "what it has.",
        formatter_class=HelpFormatter,
    )
    add_app_options(streams)
    add_place_options(streams)
    add_output_options(streams)
    streams.set_defaults(run=on_app(_show_streams, STREAMS_IN_POD))


def _feed(local_app: LocalApp, options: argparse.Namespace) -> int:
    # Imported here, as they need the extra `runtime`.
    from holdfast_cli.local.csv_lines import ENDING, CsvLines  # noqa: PLC0415
    from holdfast_cli.local.feed import Feed, LineFormat, feed  # noqa: PLC0415
    from holdfast_runtime.driver.stream_feeds import opened_feed  # noqa: PLC0415
    from holdfast_runtime.inspection.csv_rows import CsvColumns  # noqa: PLC0415

    name = "standard input" if options.file == "-" else options.file
    lines = LineFormat.of(local_app, options.stream, deletes=options.delete)
    with opened_feed(local_app, options.stream, _now()) as stream:
        is_csv = options.file.casefold().endswith(ENDING)
        to = Feed(stream, CsvLines(lines, CsvColumns.of(local_app, options.stream)) if is_csv else lines)
        file = sys.stdin.fileno() if options.file == "-" else _opened(options.file)
        try:
            feed(to, file, name, clock=_now, progress=_progress if sys.stderr.isatty() else None)
            ended = 0
        except KeyboardInterrupt:
            ended = _INTERRUPTED
        finally:
            if options.file != "-":
                os.close(file)
        what = ("delete" if options.delete else "record") + ("" if to.written == 1 else "s")
        sys.stdout.write(f"{to.written} {what} written to {options.stream} ({stream.partitions} partitions)\n")
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
    # Imported here, as they need the extra `runtime`.
    from holdfast_cli.local.tail import Tail  # noqa: PLC0415
    from holdfast_runtime.inspection.open_streams import OpenStreams  # noqa: PLC0415
    from holdfast_runtime.inspection.record_filter import RecordFilter  # noqa: PLC0415

    with OpenStreams(local_app) as streams:
        stored = streams.stream(options.stream)
        record_filter = RecordFilter.of(local_app, options.stream, options.key, options.where)
        tail = Tail.of(
            local_app,
            options.stream,
            stored,
            record_filter,
            from_beginning=options.from_beginning,
            until_end=options.until_end,
        )
        with suppress(KeyboardInterrupt):
            tail.print(options.max, as_json=options.output == "json")
    return 0


def _show_streams(local_app: LocalApp, options: argparse.Namespace) -> int:
    from holdfast_runtime.inspection.open_streams import stream_summaries  # noqa: PLC0415 - needs `runtime`

    summaries = list(stream_summaries(local_app))
    rows = [(summary, _numbers(summary)) for summary in summaries]
    unknown = {summary.name: summary.unknown for summary in summaries if summary.unknown is not None}
    if options.output == "json":
        streams = [
            {"name": summary.name, "role": summary.role, "system": summary.kind, **numbers} for summary, numbers in rows
        ]
        print_json({"app": local_app.app.name, "streams": streams, "unknown": unknown})
    else:
        table = TextTable("STREAM", "ROLE", "SYSTEM", *_NUMBERS, right=_NUMBERS)
        for summary, numbers in rows:
            cells = ("-" if number is None else str(number) for number in numbers.values())
            table.add(summary.name, summary.role, summary.kind, *cells)
        table.print(screen(options.color))
    sys.stderr.writelines(f"holdfast: {why}\n" for why in dict.fromkeys(unknown.values()))
    return _UNKNOWN if unknown else 0


def _numbers(summary: "StreamSummary") -> dict[str, int | None]:
    content = summary.content
    if content is None:
        return dict.fromkeys(map(str.lower, _NUMBERS)) | {"partitions": summary.partitions}
    return asdict(content)
