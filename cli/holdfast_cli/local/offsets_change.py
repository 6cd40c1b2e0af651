"""The changes of `holdfast offsets`: `--set` leaves a jump for the next run, `--replan` has a batch planned again.

Both show the effect, ask for confirmation, then do it. Meanwhile the app can't run: a lock stops it on this host, and
`--replan` also fences earlier attempts elsewhere with a new attempt number. Must not decide what may be set or undone.
"""

import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from rich.console import Console

from holdfast.errors import HoldfastError
from holdfast_cli.local.local_app import LocalApp
from holdfast_cli.local.offsets_set import (
    PositionChange,
    PositionSetting,
    SettingRefusedError,
    decide_jump,
    parse_setting,
)
from holdfast_cli.local.positions import AppPositions, app_dir_of, logged_of, positions_of
from holdfast_cli.output.failures import UsageError, print_failure
from holdfast_cli.output.screen import TextTable, print_json, screen
from holdfast_runtime.checkpoint.data_dir import DataDir, DataInUseError, RunPlaces
from holdfast_runtime.checkpoint.jumps import Jump, JumpFile
from holdfast_runtime.checkpoint.offset_log import SparkPlanLog
from holdfast_runtime.checkpoint.offsets import Offsets
from holdfast_runtime.clocks import now
from holdfast_runtime.coordination.local import LocalCoordinator
from holdfast_runtime.driver.attempt import Attempt
from holdfast_runtime.driver.replanning import BatchRollback, Replan, ReplanRefusedError, TurnState
from holdfast_runtime.streams.systems.system_factory import kafka_counts

_NOT_CHANGED = 1


@dataclass(frozen=True, slots=True)
class OffsetsOptions:
    """The options of the command line."""

    settings: Sequence[str]
    """Without any, a batch is planned anew."""
    yes: bool
    output: str
    color: str


class OffsetsChange(Protocol):
    """A change that was decided on and is not made yet."""

    question: ClassVar[str]
    confirm: ClassVar[str]
    """What `--yes` is for."""
    done: ClassVar[str]
    """What is said once it is made."""

    def print(self, console: Console) -> None:
        """Print what it would do."""

    def tree(self, *, done: bool) -> dict[str, Any]:
        """Return it as JSON values."""

    def make(self) -> None:
        """Make the change."""


def change_offsets(logs: LocalApp, asked: OffsetsOptions) -> int:
    """Set positions, or have the planned batch planned again; return the exit code."""
    settings = _settings(asked.settings)
    what = "positions are set" if settings else "a batch is planned anew"
    logged_of(logs)  # first, as locking would create a directory for an app that never ran
    try:
        # Lock from reading to writing: an app that starts in between would continue from other positions.
        with app_dir_of(logs).taken():
            change: OffsetsChange = NewPositions.of(logs, settings) if settings else BatchReplan.of(logs)
            if asked.output == "text":
                change.print(screen(asked.color))
            agreed = asked.yes or (asked.output == "text" and _confirmed(change.question))
            if agreed:
                change.make()
    except DataInUseError as error:
        return _refused(asked.output, error, f"{what} only while the app does not run: {error}")
    except (SettingRefusedError, ReplanRefusedError) as error:
        return _refused(asked.output, error, str(error))
    if asked.output == "json":
        print_json(change.tree(done=agreed))
    if not agreed:
        sys.stderr.write(f"holdfast: nothing was changed; add --yes {change.confirm}\n")
        return _NOT_CHANGED
    if asked.output == "text":
        sys.stdout.write(change.done)
    return 0


def _settings(texts: Sequence[str]) -> list[PositionSetting]:
    try:
        return [parse_setting(text) for text in texts]
    except ValueError as error:
        message = f"--set {error}"
        raise UsageError(message) from error


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
    print_failure(output, type(error).__name__, why)
    return _NOT_CHANGED


_NUMBERS = ("FROM", "TO", "SKIPPED", "AGAIN")
_MEANS = (
    "State stays as it is: what is skipped is lost for it; what is read again counts twice, in state and in outputs."
)
_CONTROL = "Among the records of {} are control messages of another app: skipped ones do not come again."


@dataclass(frozen=True, slots=True)
class NewPositions:
    """What `--set` does."""

    question: ClassVar[str] = "Set them?"
    confirm: ClassVar[str] = "to set these positions"
    done: ClassVar[str] = "The next run begins there.\n"

    standing: AppPositions
    changes: Sequence[PositionChange]
    jump: Jump
    run: RunPlaces

    @classmethod
    def of(cls, logs: LocalApp, settings: Sequence[PositionSetting]) -> "NewPositions":
        """Decide where to go; raise `SettingRefusedError` if that can't be."""
        standing = positions_of(logs)
        jump, changes = decide_jump(settings, standing, secrets.token_hex(8))
        return cls(standing, changes, jump, app_dir_of(logs).run(standing.run))

    def print(self, console: Console) -> None:
        """Print from where to where each partition goes."""
        table = TextTable("PARTITION", *_NUMBERS, right=_NUMBERS)
        for one in self.changes:
            table.add(str(one.stand.partition), str(one.found), str(one.to), str(one.skipped), str(one.again))
        table.print(console)
        console.print(_MEANS)
        touched = {one.stand.partition.stream for one in self.changes}
        for stream in self.standing.streams:
            if stream.control and stream.name in touched:
                console.print(_CONTROL.format(stream.name))

    def tree(self, *, done: bool) -> dict[str, Any]:
        """Return the partitions and their numbers."""
        partitions = [
            {
                "partition": str(one.stand.partition),
                "from": one.found,
                "to": one.to,
                "skipped": one.skipped,
                "again": one.again,
            }
            for one in self.changes
        ]
        return {"app": self.standing.app, "run": self.standing.run, "done": done, "partitions": partitions}

    def make(self) -> None:
        """Leave the jump for the next run."""
        JumpFile.beside(self.run.query).write(self.jump)


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


@dataclass(frozen=True, slots=True)
class BatchReplan:
    """What `--replan` does."""

    question: ClassVar[str] = "Plan them anew?"
    confirm: ClassVar[str] = "to have it planned anew"
    done: ClassVar[str] = ""

    logs: LocalApp
    planned: Offsets
    found: Replan
    rollback: BatchRollback

    @classmethod
    def of(cls, logs: LocalApp) -> "BatchReplan":
        """Find out what can be taken back; raise `ReplanRefusedError` if nothing can."""
        app, logged, data = logs.app, logged_of(logs), DataDir(logs.data.absolute())
        if logged.planned is None:
            message = f"no batch of {app.name} is planned and not done: there is nothing to plan anew"
            raise ReplanRefusedError(message)
        run, places = app_dir_of(logs).run(app.spec.run_id), data.places(app.name, app.spec.run_id)
        topics = kafka_counts(app.spec, data.secrets)
        with LocalCoordinator(run.metadata, app.name, app.spec.run_id, topics) as coordinator:
            attempt = Attempt(app, places, coordinator, now, topics)
            number = attempt.shut_out(len(attempt.tasks))
            attempt.take_up(number, logged)
            rollback = BatchRollback(attempt, number, places, (app.name, app.spec.run_id))
        return cls(logs, logged.planned, rollback.decide(logged.done, logged.planned), rollback)

    def print(self, console: Console) -> None:
        """Print what becomes of each task's part of the batch."""
        console.print(f"batch {self.found.batch} of {self.logs.app.name} is planned and not done")
        table = TextTable("TASK", "IS", "BECOMES")
        for task, state in self.found.states.items():
            table.add(task, state.value, _BECOMES[state])
        table.print(console)
        console.print(_REPLAN_MEANS)
        if any(one.kafka is not None and one.kafka.delivery == "AtLeastOnce" for one in self.logs.app.spec.systems):
            console.print(_TWICE)

    def tree(self, *, done: bool) -> dict[str, Any]:
        """Return the tasks and what becomes of them."""
        tasks = [
            {"task": task, "is": state.value, "plannedAnew": task in self.found.taken_back}
            for task, state in self.found.states.items()
        ]
        app = self.logs.app
        return {"app": app.name, "run": app.spec.run_id, "batch": self.found.batch, "done": done, "tasks": tasks}

    def make(self) -> None:
        """Take back what nobody has seen."""
        run = app_dir_of(self.logs).run(self.logs.app.spec.run_id)
        self.rollback.do(self.planned, self.found, SparkPlanLog(run.query))
