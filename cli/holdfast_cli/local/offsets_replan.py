"""`holdfast offsets --replan`: says what would become of the batch that is planned and not done, asks, and does it.

The app is kept from running meanwhile, here and, by the number of an attempt, wherever an earlier one is left. Must not
decide what may be taken back.
"""

import json
import sys
from typing import Any

from holdfast_cli.local.local_app import LocalApp
from holdfast_cli.local.offsets_change import OffsetsOptions, confirmed, report_refusal, report_unconfirmed
from holdfast_cli.local.offsets_look import app_dir_of, logged_of
from holdfast_cli.output.screen import TextTable, screen
from holdfast_runtime.checkpoint.data_dir import DataDir, DataInUseError
from holdfast_runtime.checkpoint.spark_plan_log import SparkPlanLog
from holdfast_runtime.coordination.local import LocalCoordinator
from holdfast_runtime.driver.attempt import Attempt
from holdfast_runtime.driver.replanning import Replan, ReplanRefusedError, TurnState
from holdfast_runtime.driver.taking_back import BatchRollback
from holdfast_runtime.streams.systems.app_streams import kafka_counts
from holdfast_runtime.wall_clock import now

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
    """Have the batch planned anew; the exit code."""
    logged_of(logs)  # before the directory is taken, which would make one for an app that never ran
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
