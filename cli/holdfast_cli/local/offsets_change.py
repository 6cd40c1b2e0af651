"""The changes of `holdfast offsets`: `--set` leaves a jump for the next run, `--replan` has a batch planned again.

Both show the effect, ask for confirmation, then do it; meanwhile the app can't run. Must not decide what may be set or
undone.
"""

import argparse
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from holdfast.errors import HoldfastError, UserActionError
from holdfast_cli.output.failures import print_failure
from holdfast_cli.output.screen import confirmed, print_json, print_message, screen
from holdfast_cli.output.text_table import TextTable
from holdfast_runtime.driver.jumps import PositionSetting, SettingRefusedError, decide_jump, parse_setting
from holdfast_runtime.driver.local_changes import AppRunningError, app_stopped, leave_jump, planned_rollback
from holdfast_runtime.driver.replanning import ReplanRefusedError, TurnState
from holdfast_runtime.inspection.local_app import LocalApp
from holdfast_runtime.inspection.positions import positions_of

_NOT_CHANGED = 1


@dataclass(frozen=True, slots=True)
class OffsetsChange:
    """A change that was decided on and is not made yet."""

    question: str
    confirm: str
    """What `--yes` is for."""
    done: str
    """What is said once it is made."""
    head: str
    table: TextTable
    notes: Sequence[str]
    """What it means."""
    tree: Mapping[str, Any]
    make: Callable[[], None]

    def print(self, console: Console) -> None:
        """Print what it would do."""
        if self.head:
            console.print(self.head)
        self.table.print(console)
        for note in self.notes:
            console.print(note)


def change_offsets(local_app: LocalApp, options: argparse.Namespace) -> int:
    """Set positions, or without settings have the planned batch planned again; return the exit code."""
    settings = _settings(options.settings)
    what = "positions are set" if settings else "a batch is planned again"
    try:
        # Lock from reading to writing: an app that starts in between would continue from other positions.
        with app_stopped(local_app, what):
            change = _new_positions(local_app, settings) if settings else _batch_replan(local_app)
            if options.output == "text":
                change.print(screen(options.color))
            agreed = options.yes or (options.output == "text" and confirmed(change.question))
            if agreed:
                change.make()
    except (AppRunningError, SettingRefusedError, ReplanRefusedError) as error:
        return _refused(options.output, error)
    if options.output == "json":
        print_json({**change.tree, "done": agreed})
    if not agreed:
        print_message(f"holdfast: nothing was changed; add --yes {change.confirm}")
        return _NOT_CHANGED
    if options.output == "text":
        sys.stdout.write(change.done)
    return 0


def _settings(texts: Sequence[str]) -> list[PositionSetting]:
    try:
        return [parse_setting(text) for text in texts]
    except ValueError as error:
        message = f"--set {error}"
        raise UserActionError(message, code="UsageError") from error


def _refused(output: str, error: HoldfastError) -> int:
    print_message(f"holdfast: {error}")
    print_failure(output, error.code, str(error))
    return _NOT_CHANGED


_NUMBERS = ("FROM", "TO", "SKIPPED", "AGAIN")
_MEANS = (
    "State stays as it is: what is skipped is lost for it; what is read again counts twice, in state and in outputs."
)
_CONTROL = "Among the records of {} are control messages of another app: skipped ones do not come again."


def _new_positions(local_app: LocalApp, settings: Sequence[PositionSetting]) -> OffsetsChange:
    standing = positions_of(local_app)
    jump, changes = decide_jump(settings, standing, secrets.token_hex(8))
    table, partitions = TextTable("PARTITION", *_NUMBERS, right=_NUMBERS), []
    for change in changes:
        row = {"from": change.position, "to": change.to, "skipped": change.skipped, "again": change.again}
        table.add(str(change.stand.partition), *map(str, row.values()))
        partitions.append({"partition": str(change.stand.partition), **row})
    touched = {change.stand.partition.stream for change in changes}
    control = [_CONTROL.format(stream.name) for stream in standing.streams if stream.control and stream.name in touched]
    return OffsetsChange(
        question="Set them?",
        confirm="to set these positions",
        done="The next run begins there.\n",
        head="",
        table=table,
        notes=[_MEANS, *control],
        tree={"app": standing.app, "run": standing.run, "partitions": partitions},
        make=lambda: leave_jump(local_app, jump),
    )


_BECOMES = {
    TurnState.OPEN: "planned again",
    TurnState.DECIDED: "planned again, and computed again",
    TurnState.SEEN: "stays, and is finished by the next run",
}
_REPLAN_MEANS = "No row is lost or doubled. The next run plans with the spec, the limits and the code of then."
_TWICE = (
    "Systems with delivery: AtLeastOnce do not note what was written: rows of tasks planned again may be there twice."
)


def _batch_replan(local_app: LocalApp) -> OffsetsChange:
    app, rollback = local_app.app, planned_rollback(local_app)
    decision = rollback.decision
    table, tasks = TextTable("TASK", "IS", "BECOMES"), []
    for task, state in decision.states.items():
        table.add(task, state.value, _BECOMES[state])
        tasks.append({"task": task, "is": state.value, "plannedAnew": task in decision.taken_back})
    twice = any(system.kafka is not None and system.kafka.delivery == "AtLeastOnce" for system in app.spec.systems)
    return OffsetsChange(
        question="Plan them again?",
        confirm="to have it planned again",
        done="",
        head=f"batch {decision.batch} of {app.name} is planned and not done",
        table=table,
        notes=[_REPLAN_MEANS, _TWICE] if twice else [_REPLAN_MEANS],
        tree={"app": app.name, "run": app.spec.run_id, "batch": decision.batch, "tasks": tasks},
        make=rollback.make,
    )
