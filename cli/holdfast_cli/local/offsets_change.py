"""Why: `holdfast offsets --set`: says what it would mean, asks, and leaves the jump for the next run.

The app is kept from running meanwhile. Must not decide what is allowed.
"""

import json
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.errors import HoldfastError
from holdfast_cli.local.local_app import LocalApp
from holdfast_cli.local.offsets_look import app_dir_of, logged_of, positions_of
from holdfast_cli.local.offsets_set import PositionChange, SettingRefusedError, decide_jump, parse_setting
from holdfast_cli.local.positions import AppPositions
from holdfast_cli.output.failures import print_failure
from holdfast_cli.output.screen import TextTable, screen
from holdfast_cli.plan.partition_counts import UsageError
from holdfast_runtime.checkpoint.data_dir import DataInUseError
from holdfast_runtime.checkpoint.jump_file import JumpFile

_NOT_SET = 1
_NUMBERS = ("FROM", "TO", "SKIPPED", "AGAIN")
_MEANS = (
    "State stays as it is: what is skipped is lost for it; what is read again counts twice, in state and in outputs."
)
_CONTROL = "Among the records of {} are control messages of another app: skipped ones do not come again."
_DONE = "The next run begins there."


@dataclass(frozen=True, slots=True)
class OffsetsOptions:
    """What the command line says."""

    settings: Sequence[str]
    yes: bool
    output: str
    color: str


def set_offsets(logs: LocalApp, asked: OffsetsOptions) -> int:
    """Set them; the exit code."""
    try:
        settings = [parse_setting(text) for text in asked.settings]
    except ValueError as error:
        message = f"--set {error}"
        raise UsageError(message) from error
    logged_of(logs)  # before the directory is taken, which would make one for an app that never ran
    home = app_dir_of(logs)
    try:
        # From the look to the last byte: an app that began to run meanwhile would go on from elsewhere.
        with home.taken():
            standing = positions_of(logs)
            jump, changes = decide_jump(settings, standing, secrets.token_hex(8))
            if asked.output == "text":
                _print(standing, changes, asked.color)
            agreed = asked.yes or (asked.output == "text" and confirmed("Set them?"))
            if agreed:
                JumpFile.beside(home.run(standing.run).query).write(jump)
    except DataInUseError as error:
        return report_refusal(asked.output, error, f"positions are set only while the app does not run: {error}")
    except SettingRefusedError as error:
        return report_refusal(asked.output, error, str(error))
    if asked.output == "json":
        sys.stdout.write(json.dumps(_tree(standing, changes, done=agreed), indent=1, ensure_ascii=False) + "\n")
    if not agreed:
        return report_unconfirmed("to set these positions")
    if asked.output == "text":
        sys.stdout.write(f"{_DONE}\n")
    return 0


def confirmed(question: str) -> bool:
    """What somebody at a terminal answers; elsewhere nobody does."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    try:
        return input(f"{question} [y/N] ").strip().casefold() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        return False


def report_unconfirmed(what: str) -> int:
    """Say how to agree to it; the exit code."""
    sys.stderr.write(f"holdfast: nothing was changed; add --yes {what}\n")
    return _NOT_SET


def report_refusal(output: str, error: HoldfastError, why: str) -> int:
    """Say it; the exit code."""
    sys.stderr.write(f"holdfast: {why}\n")
    print_failure(output, type(error).__name__, why)
    return _NOT_SET


def _print(standing: AppPositions, changes: Sequence[PositionChange], color: str) -> None:
    console = screen(color)
    table = TextTable("PARTITION", *_NUMBERS, right=_NUMBERS)
    for one in changes:
        table.add(str(one.stand.partition), str(one.found), str(one.to), str(one.skipped), str(one.again))
    table.print(console)
    console.print(_MEANS)
    touched = {one.stand.partition.stream for one in changes}
    for stream in standing.streams:
        if stream.control and stream.name in touched:
            console.print(_CONTROL.format(stream.name))


def _tree(standing: AppPositions, changes: Sequence[PositionChange], *, done: bool) -> dict[str, Any]:
    partitions = [
        {
            "partition": str(one.stand.partition),
            "from": one.found,
            "to": one.to,
            "skipped": one.skipped,
            "again": one.again,
        }
        for one in changes
    ]
    return {"app": standing.app, "run": standing.run, "done": done, "partitions": partitions}
