"""The changes of `holdfast offsets`: `--set` leaves a jump for the next run, `--replan` has a batch planned again.

Both show the effect, ask for confirmation, then do it. Meanwhile the app can't run: a lock stops it on this host, and
`--replan` also fences earlier attempts elsewhere with a new attempt number. Must not decide what may be set or undone.
"""

import json
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.errors import HoldfastError
from holdfast_cli.local.local_app import LocalApp
from holdfast_cli.local.offsets_set import PositionChange, SettingRefusedError, decide_jump, parse_setting
from holdfast_cli.local.positions import AppPositions, app_dir_of, logged_of, positions_of
from holdfast_cli.output.failures import UsageError, print_failure
from holdfast_cli.output.screen import TextTable, screen
from holdfast_runtime.checkpoint.data_dir import DataDir, DataInUseError
from holdfast_runtime.checkpoint.jumps import JumpFile
from holdfast_runtime.checkpoint.offset_log import SparkPlanLog
from holdfast_runtime.clocks import now
from holdfast_runtime.coordination.local import LocalCoordinator
from holdfast_runtime.driver.attempt import Attempt
from holdfast_runtime.driver.replanning import BatchRollback, Replan, ReplanRefusedError, TurnState
from holdfast_runtime.streams.systems.system_factory import kafka_counts

_NOT_SET = 1
_NUMBERS = ("FROM", "TO", "SKIPPED", "AGAIN")
_MEANS = (
    "State stays as it is: what is skipped is lost for it; what is read again counts twice, in state and in outputs."
)
_CONTROL = "Among the records of {} are control messages of another app: skipped ones do not come again."
_DONE = "The next run begins there."


@dataclass(frozen=True, slots=True)
class OffsetsOptions:
    """The options of the command line."""

    settings: Sequence[str]
    yes: bool
    output: str
    color: str


def set_offsets(logs: LocalApp, asked: OffsetsOptions) -> int:
    """Set positions; return the exit code."""
    try:
        settings = [parse_setting(text) for text in asked.settings]
    except ValueError as error:
        message = f"--set {error}"
        raise UsageError(message) from error
    logged_of(logs)  # first, as locking would create a directory for an app that never ran
    home = app_dir_of(logs)
    try:
        # Lock from reading to writing: an app that starts in between would continue from other positions.
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
    """Ask the user at the terminal; False without a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    try:
        return input(f"{question} [y/N] ").strip().casefold() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        return False


def report_unconfirmed(what: str) -> int:
    """Say how to confirm; return the exit code."""
    sys.stderr.write(f"holdfast: nothing was changed; add --yes {what}\n")
    return _NOT_SET


def report_refusal(output: str, error: HoldfastError, why: str) -> int:
    """Print why it was refused; return the exit code."""
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


_BECOMES = {
    TurnState.OPEN: "planned anew",
    TurnState.DECIDED: "planned anew, and computed again",
    TurnState.SEEN: "stays, and is finished by the next run",
}
_REPLAN_MEANS = "No row is lost or doubled. The next run plans with the spec, the limits and the code of then."
_TWICE = (
    "Systems with delivery: AtLeastOnce do not note what was written: rows of tasks that are planned anew may be there "
    "twice."
)


def replan_offsets(logs: LocalApp, asked: OffsetsOptions) -> int:
    """Have the planned batch planned again; return the exit code."""
    logged_of(logs)  # first, as locking would create a directory for an app that never ran
    home, app = app_dir_of(logs), logs.app
    run = home.run(app.spec.run_id)
    data = DataDir(logs.data.absolute())
    try:
        with home.taken():
            logged = logged_of(logs)
            if logged.planned is None:
                message = f"no batch of {app.name} is planned and not done: there is nothing to plan anew"
                raise ReplanRefusedError(message)
            topics = kafka_counts(app.spec, data.secrets)
            with LocalCoordinator(run.metadata, app.name, app.spec.run_id, topics) as coordinator:
                places = data.places(app.name, app.spec.run_id)
                attempt = Attempt(app, places, coordinator, now, topics)
                number = attempt.shut_out(len(attempt.tasks))
                attempt.take_up(number, logged)
                taking_back = BatchRollback(attempt, number, places, (app.name, app.spec.run_id))
            found = taking_back.decide(logged.done, logged.planned)
            if asked.output == "text":
                _print_replan(logs, found, asked.color)
            agreed = asked.yes or (asked.output == "text" and confirmed("Plan them anew?"))
            if agreed:
                taking_back.do(logged.planned, found, SparkPlanLog(run.query))
    except DataInUseError as error:
        return report_refusal(asked.output, error, f"a batch is planned anew only while the app does not run: {error}")
    except ReplanRefusedError as error:
        return report_refusal(asked.output, error, str(error))
    if asked.output == "json":
        sys.stdout.write(json.dumps(_replan_tree(logs, found, done=agreed), indent=1, ensure_ascii=False) + "\n")
    if not agreed:
        return report_unconfirmed("to have it planned anew")
    return 0


def _print_replan(logs: LocalApp, found: Replan, color: str) -> None:
    console = screen(color)
    console.print(f"batch {found.batch} of {logs.app.name} is planned and not done")
    table = TextTable("TASK", "IS", "BECOMES")
    for task, state in found.states.items():
        table.add(task, state.value, _BECOMES[state])
    table.print(console)
    console.print(_REPLAN_MEANS)
    if any(one.kafka is not None and one.kafka.delivery == "AtLeastOnce" for one in logs.app.spec.systems):
        console.print(_TWICE)


def _replan_tree(logs: LocalApp, found: Replan, *, done: bool) -> dict[str, Any]:
    tasks = [
        {"task": task, "is": state.value, "plannedAnew": task in found.taken_back}
        for task, state in found.states.items()
    ]
    return {"app": logs.app.name, "run": logs.app.spec.run_id, "batch": found.batch, "done": done, "tasks": tasks}
