"""The command `holdfast python`: an app's file as Python, for whoever goes on with it there.

The calls declare what the file does, in its order. Must not run the app, nor judge whether its plan is valid.
"""

import argparse
import sys

from holdfast_api.app_source import python_source
from holdfast_cli.output.screen import print_message
from holdfast_cli.plan.app_file import load_app
from holdfast_cli.plan.plan_text import report_invalid


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command line."""
    parser = commands.add_parser(
        "python",
        help="print an app as Python",
        description="Print an app's YAML as the calls of Python that declare the same. Its comments are lost.",
        epilog="example: holdfast python app.yaml > app.py. Exit codes: 0 printed, 1 the app is invalid, 2 a file "
        "can't be read.",
    )
    parser.add_argument("app", metavar="APP.yaml", help="the StreamApp; - reads standard input")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    file = load_app(options.app)
    if file.app is None:
        return report_invalid([file], "text")
    tree = file.document.tree
    if lost := [f"metadata.{name}" for name in tree["metadata"] if name != "name"]:
        print_message(f"warning: left out, as the app does not know them: {', '.join(lost)}")
    sys.stdout.write(python_source(tree))
    return 0
