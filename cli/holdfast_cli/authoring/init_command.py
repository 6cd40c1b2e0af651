"""The command `holdfast init`: write a small app that runs at once, and say what to type next.

Writes all files or none, and never over one that is there. Must not know what is in the files.
"""

import argparse
import re
import sys
from pathlib import Path

from holdfast.errors import UserActionError
from holdfast_cli.authoring.first_app import LOCAL_BROKER, FirstApp
from holdfast_cli.output.help_text import HelpFormatter

_EPILOG = """\
The app counts what customers spend. It runs as it is, on this host: its test passes, `holdfast run` gives results.
Nothing is overwritten: if one of its files is there, nothing is written. README.md and .gitignore are left as they are.

Exit codes: 0 written, 2 a file is there already or can't be written.

examples:
  holdfast init                          into this directory
  holdfast init my-app --kafka           on Kafka at localhost:9092
  holdfast init my-app --sql             without Python
"""
_LEFT_ALONE = ("README.md", ".gitignore")
_LONGEST = 40


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command line."""
    parser = commands.add_parser(
        "init",
        help="write a small app that runs at once",
        description="Write a small app that runs at once: app.yaml, a Python function, a test, orders to feed, and a "
        "JSON schema with which editors complete and explain fields.",
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("directory", nargs="?", metavar="DIR", default=".", help="where (default: this directory)")
    parser.add_argument("--name", type=_app_name, help="the app's name (default: that of the directory)")
    system = parser.add_mutually_exclusive_group()
    system.add_argument("--log", action="store_true", help="streams in files on this host (default)")
    system.add_argument("--kafka", action="store_true", help=f"streams in Kafka, at {LOCAL_BROKER} or --brokers")
    parser.add_argument("--brokers", metavar="HOST:PORT,...", help="brokers of Kafka; goes with --kafka")
    counting = parser.add_mutually_exclusive_group()
    counting.add_argument("--function", action="store_true", help="a Python function counts (default)")
    counting.add_argument("--sql", action="store_true", help="Spark SQL counts, without Python")
    parser.set_defaults(run=_init)


def _app_name(text: str) -> str:
    if text != _as_name(text):
        message = f"{text} must be lower-case letters, digits and inner dashes, at most {_LONGEST}"
        raise argparse.ArgumentTypeError(message)
    return text


def _as_name(text: str) -> str:
    return re.sub("[^a-z0-9]+", "-", text.lower())[:_LONGEST].strip("-")


def _init(options: argparse.Namespace) -> int:
    if options.brokers and not options.kafka:
        message = "--brokers goes with --kafka"
        raise UserActionError(message, code="UsageError")
    directory = Path(options.directory)
    name = options.name or _as_name(directory.resolve().name) or "my-app"
    brokers = (options.brokers or LOCAL_BROKER) if options.kafka else None
    app = FirstApp(name, brokers, function=not options.sql)
    files = app.files()
    present = [file for file in files if (directory / file).exists()]
    if in_the_way := [file for file in present if file not in _LEFT_ALONE]:
        message = (
            f"{', '.join(in_the_way)} in {directory} would be overwritten; nothing was written. Name a new directory"
        )
        raise UserActionError(message, code="FilesInTheWayError")
    directory.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        if file not in present:
            (directory / file).write_text(text, encoding="utf-8")
    written = [file for file in files if file not in present]
    left = f"; left {', '.join(present)} as it was" if present else ""
    sys.stdout.write(f"{name}: wrote {', '.join(written)}{left}\n\nnext:\n")
    if directory.resolve() != Path.cwd():
        sys.stdout.write(f"  cd {directory}\n")
    sys.stdout.writelines(f"  {line}\n" for line in app.next_lines())
    return 0
