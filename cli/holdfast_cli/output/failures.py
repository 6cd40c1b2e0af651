"""Failures of commands: the error of wrong usage, and any failure as JSON for whoever asked for JSON.

One object on standard output, beside the line on stderr; `run` says it as its last event. Must not decide what a
failure is.
"""

import json
import sys
from collections.abc import Sequence
from typing import Any

from holdfast.errors import UserActionError


def print_failure(
    output: str, error: str, message: str, problems: Sequence[dict[str, Any]] = (), *, event: bool = False
) -> None:
    """Print it if `output` is json. `error`: a name that stays the same."""
    if output == "json":
        tree = {"error": error, "message": message, "problems": list(problems)}
        sys.stdout.write(json.dumps({"event": "failed", **tree} if event else tree, ensure_ascii=False) + "\n")


class UsageError(UserActionError):
    """The command line asks for something that can't be."""
