"""Failures of commands: the error for wrong usage, and any failure as JSON if the output is JSON.

Prints one object to stdout, in addition to the line on stderr; for `run` it is the last event. Must not decide what a
failure is.
"""

import json
import sys
from collections.abc import Sequence
from typing import Any


def print_failure(
    output: str, error: str, message: str, problems: Sequence[dict[str, Any]] = (), *, event: bool = False
) -> None:
    """Print the failure if `output` is json. `error` is a stable name."""
    if output == "json":
        tree = {"error": error, "message": message, "problems": list(problems)}
        sys.stdout.write(json.dumps({"event": "failed", **tree} if event else tree, ensure_ascii=False) + "\n")
