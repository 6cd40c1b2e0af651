"""The command `holdfast explain REASON`: print the meaning of a reason from a plan, a condition or an event."""

import argparse
import json
import sys

from holdfast.errors import UserActionError
from holdfast.reasons import Reason
from holdfast.suggest import did_you_mean


class ReasonUnknownError(UserActionError):
    """There is no reason of this name."""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command line."""
    parser = commands.add_parser(
        "explain",
        help="say what a reason means",
        description="Say what a reason means that stands in a plan, a status condition or an event. `holdfast status "
        "APP` shows the reasons of an app on a cluster.",
        epilog="example: holdfast explain NotAMultiple. Exit codes: 0 said, 2 there is no such reason.",
    )
    parser.add_argument("reason", nargs="?", metavar="REASON", help="default: all of them")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="default: text")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the meaning of the reasons."""
    reasons = list(Reason) if options.reason is None else [_reason(options.reason)]
    if options.output == "json":
        sys.stdout.write(json.dumps({one.value: one.sentence for one in reasons}, indent=1) + "\n")
    else:
        sys.stdout.writelines(f"{one.value}: {one.sentence}\n" for one in reasons)
    return 0


def _reason(name: str) -> Reason:
    known = {one.value: one for one in Reason}
    if name not in known:
        message = f"there is no reason {name}{did_you_mean(name, known)}"
        raise ReasonUnknownError(message)
    return known[name]
