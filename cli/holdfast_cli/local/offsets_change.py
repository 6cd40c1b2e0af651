"""The changes of `holdfast offsets`: `--set` leaves a jump for the next run, `--replan` has a batch planned again.

Both show the effect, ask for confirmation, then do it. Meanwhile the app can't run: a lock stops it on this host, and
`--replan` also fences earlier attempts elsewhere with a new attempt number. Must not decide what may be set or undone.
"""

import argparse
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from holdfast.errors import HoldfastError, UserActionError
from holdfast.spec.kept_streams import StreamNames
from holdfast_cli.local.offsets_set import PositionSetting, SettingRefusedError, decide_jump, parse_setting
from holdfast_cli.output.failures import print_failure
from holdfast_cli.output.screen import TextTable, print_json, screen
from holdfast_runtime.checkpoint.directories import DataDir, DataInUseError
from holdfast_runtime.checkpoint.offset_log import SparkPlanLog
from holdfast_runtime.checkpoint.offsets import JumpFile
from holdfast_runtime.clocks import now
from holdfast_runtime.coordination.local import LocalCoordinator
from holdfast_runtime.driver.attempt import Attempt
from holdfast_runtime.driver.replanning import BatchRollback, ReplanRefusedError, TurnState
from holdfast_runtime.inspection.local_app import LocalApp
from holdfast_runtime.inspection.positions import app_dir_of, logged_of, positions_of
from holdfast_runtime.streams.systems import kafka_counts

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


def change_offsets(logs: LocalApp, options: argparse.Namespace) -> int:
    """Set positions, or without settings have the planned batch planned again; return the exit code."""
    settings = _settings(options.settings)
    what = "positions are set" if settings else "a batch is planned again"
    logged_of(logs)  # first, as locking would create a directory for an app that never ran
    try:
        # Lock from reading to writing: an app that starts in between would continue from other positions.
        with app_directory_of(logs).taken():
            change = _new_positions(logs, settings) if settings else _batch_replan(logs)
            if options.output == "text":
                change.print(screen(options.color))
            agreed = options.yes or (options.output == "text" and _confirmed(change.question))
            if agreed:
                change.make()
    except DataInUseError as error:
        return _refused(options.output, error, f"{what} only while the app does not run: {error}")
    except (SettingRefusedError, ReplanRefusedError) as error:
        return _refused(options.output, error, str(error))
    if options.output == "json":
        print_json({**change.tree, "done": agreed})
    if not agreed:
        sys.stderr.write(f"holdfast: nothing was changed; add --yes {change.confirm}\n")
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


def _confirmed(question: str) -> bool:
    """Ask the user at the terminal; False without a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    try:
        return input(f"{question} [y/N] ").strip().casefold() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        return False


def _refused(output: str, error: HoldfastError, why: str) -> int:
    sys.stderr.write(f"holdfast: {why}\n")
    print_failure(output, error.code, why)
    return _NOT_CHANGED


_NUMBERS = ("FROM", "TO", "SKIPPED", "AGAIN")
_MEANS = (
    "State stays as it is: what is skipped is lost for it; what is read again counts twice, in state and in outputs."
)
_CONTROL = "Among the records of {} are control messages of another app: skipped ones do not come again."


def _new_positions(logs: LocalApp, settings: Sequence[PositionSetting]) -> OffsetsChange:
    standing = positions_of(logs)
    jump, changes = decide_jump(settings, standing, secrets.token_hex(8))
    file = JumpFile.beside(app_directory_of(logs).run(standing.run).query)
    table, partitions = TextTable("PARTITION", *_NUMBERS, right=_NUMBERS), []
    for change in changes:
        row = {"from": change.found, "to": change.to, "skipped": change.skipped, "again": change.again}
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
        make=lambda: file.write(jump.under(StreamNames.of(logs.app.spec).kept)),
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


def _batch_replan(logs: LocalApp) -> OffsetsChange:
    app, logged, data = logs.app, logged_of(logs), DataDir(logs.data.absolute())
    planned, id_ = logged.planned, app.spec.run_id
    if planned is None:
        message = f"no batch of {app.name} is planned and not done: there is nothing to plan again"
        raise ReplanRefusedError(message)
    run, paths = app_directory_of(logs).run(id_), data.places(app.name, id_)
    topics = kafka_counts(app.spec, data.secrets)
    with LocalCoordinator(run.metadata, app.name, id_, topics) as coordinator:
        attempt = Attempt(app, paths, coordinator, now, topics)
        number = attempt.shut_out(len(attempt.tasks))
        attempt.take_up(number, logged)
        rollback = BatchRollback(attempt, number, paths, (app.name, id_))
    decision = rollback.decide(logged.done, planned)
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
        tree={"app": app.name, "run": id_, "batch": decision.batch, "tasks": tasks},
        make=lambda: rollback.do(planned, decision, SparkPlanLog(run.query)),
    )
