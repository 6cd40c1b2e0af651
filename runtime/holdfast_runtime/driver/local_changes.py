"""Changes of the offsets of an app on this host that does not run: a jump for its next run, a batch planned again.

Meanwhile the app can't run: a lock stops it on this host, and planning again also fences earlier attempts elsewhere
with a new attempt number. Must not decide what may be set or undone.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from holdfast.errors import UserActionError
from holdfast.spec.kept_streams import StreamNames
from holdfast_runtime.checkpoint.directories import DataDir, DataInUseError
from holdfast_runtime.checkpoint.offset_log import SparkPlanLog
from holdfast_runtime.checkpoint.offsets import Jump, Offsets
from holdfast_runtime.clocks import now
from holdfast_runtime.coordination.local import LocalCoordinator
from holdfast_runtime.driver.attempt import Attempt
from holdfast_runtime.driver.replanning import BatchRollback, Replan, ReplanRefusedError
from holdfast_runtime.inspection.local_app import LocalApp
from holdfast_runtime.inspection.run_files import app_dir_of, jump_file_of, logged_of
from holdfast_runtime.inspection.streams import topic_counts
from holdfast_runtime.streams.modules_beside import modules_beside


class AppRunningError(UserActionError):
    """A change that is made only while the app does not run."""


@contextmanager
def app_stopped(local_app: LocalApp, change: str) -> Iterator[None]:
    """Keep the app from running; raise `AppRunningError` if it does. `change`: what is done only then."""
    if local_app.cluster is not None:
        message = f"{change} only while the app does not run, and here its driver does"
        raise AppRunningError(message)
    logged_of(local_app)  # first, as locking would create a directory for an app that never ran
    with ExitStack() as stack:
        try:
            stack.enter_context(app_dir_of(local_app).taken())
        except DataInUseError as error:
            message = f"{change} only while the app does not run: {error}"
            raise AppRunningError(message, code=error.code) from error
        yield


def leave_jump(local_app: LocalApp, jump: Jump) -> None:
    """Leave this jump for the next run, in place of any other."""
    jump_file_of(local_app).write(jump.under(StreamNames.of(local_app.app.spec).kept))


@dataclass(frozen=True, slots=True)
class PlannedRollback:
    """A batch that is planned and not done, and what is to become of it."""

    decision: Replan
    planned: Offsets
    rollback: BatchRollback
    log: SparkPlanLog

    def make(self) -> None:
        """Take the turns back."""
        self.rollback.do(self.planned, self.decision, self.log)


def planned_rollback(local_app: LocalApp) -> PlannedRollback:
    """Fence earlier attempts off and decide about the planned batch; raise `ReplanRefusedError`."""
    app, logged, data = local_app.app, logged_of(local_app), DataDir(local_app.data.absolute())
    planned, run_id = logged.planned, app.spec.run_id
    if planned is None:
        message = f"no batch of {app.name} is planned and not done: there is nothing to plan again"
        raise ReplanRefusedError(message)
    run, paths = data.app(app.name).run(run_id), data.paths(app.name, run_id)
    topics = topic_counts(app, data.path)
    with LocalCoordinator(run.metadata, app.name, run_id, topics) as coordinator:
        attempt = Attempt(app, paths, coordinator, now, topics, modules_beside(app.spec, local_app.folder))
        number = attempt.shut_out(len(attempt.tasks))
        attempt.take_up(number, logged)
        rollback = BatchRollback(attempt, number, paths, (app.name, run_id))
    return PlannedRollback(rollback.decide(logged.done, planned), planned, rollback, SparkPlanLog(run.query))
