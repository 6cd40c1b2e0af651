"""A command that fails, as JSON for whoever asked for JSON: one object on standard output, beside the line on stderr.

`run` says it as its last event. Must not decide what a failure is.
"""

import json
import sys
from collections.abc import Sequence
from typing import Any

from holdfast_cli.plan.app_file_part import AppFile


def print_failure(
    output: str, error: str, message: str, problems: Sequence[dict[str, Any]] = (), *, event: bool = False
) -> None:
    """Print it if `output` is json. `error`: a name that stays the same."""
    if output == "json":
        tree = {"error": error, "message": message, "problems": list(problems)}
        sys.stdout.write(json.dumps({"event": "failed", **tree} if event else tree, ensure_ascii=False) + "\n")


def print_invalid_json(output: str, files: Sequence[AppFile], *, event: bool = False) -> None:
    """The same for files that are no valid StreamApps."""
    problems = [
        {"reason": "InvalidSpec", "path": error.dotted, "message": str(error), "place": file.located(error)}
        for file in files
        for error in file.errors
    ]
    names = " and ".join(file.path for file in files)
    message = f"{names} {'is no valid StreamApp' if len(files) == 1 else 'are no valid StreamApps'}"
    print_failure(output, "InvalidSpec", message, problems, event=event)
