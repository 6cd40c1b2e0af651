"""The command `holdfast streams`: show what an app's streams hold."""

import argparse
import json
import sys
from typing import Any

from holdfast_cli.local.local_app import LocalApp, add_app_options, local_app
from holdfast_cli.output.screen import TextTable, screen

_INVALID = 1
_NUMBERS = ("PARTITIONS", "OLDEST", "END", "RECORDS", "BYTES")


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command line."""
    parser = commands.add_parser(
        "streams",
        help="show what the streams of an app hold",
        description="Show the streams of an app; for those of the embedded log, what they hold: the lowest offset "
        "kept, the highest end of a partition, records, and bytes on disk.",
        epilog="Exit codes: 0 done, 1 the app is invalid, 2 a file can't be read.",
    )
    add_app_options(parser)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="default: text")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="default: on a terminal")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print a line per stream."""
    logs = local_app(options)
    if logs is None:
        return _INVALID
    streams = _streams(logs)
    if options.output == "json":
        sys.stdout.write(json.dumps({"app": logs.app.name, "streams": streams}, indent=1, ensure_ascii=False) + "\n")
        return 0
    table = TextTable("STREAM", "ROLE", "SYSTEM", *_NUMBERS, right=_NUMBERS)
    for stream in streams:
        cells = ["-" if stream[name.lower()] is None else f"{stream[name.lower()]}" for name in _NUMBERS]
        table.add(str(stream["name"]), str(stream["role"]), str(stream["system"]), *cells)
    table.print(screen(options.color))
    return 0


def _streams(logs: LocalApp) -> list[dict[str, Any]]:
    from holdfast_runtime.streams.log.embedded_log import EmbeddedLog  # noqa: PLC0415 - needs the extra `runtime`

    log = EmbeddedLog(logs.directory)
    rows = []
    for stream in logs.plan.streams:
        kind = logs.kind(stream.name)
        row: dict[str, Any] = {
            "name": stream.name,
            "role": stream.role,
            "system": kind,
            "partitions": None if stream.count is None else stream.count.actual,
            "oldest": None,
            "end": None,
            "records": None,
            "bytes": None,
        }
        if kind == "log" and log.has(stream.topic):
            bounds = list(log.bounds(stream.topic).values())
            row |= {
                "partitions": len(bounds),
                "oldest": min(found.oldest for found in bounds),
                "end": max(found.end for found in bounds),
                "records": sum(found.end - found.oldest for found in bounds),
                "bytes": log.size(stream.topic),
            }
        rows.append(row)
    return rows
