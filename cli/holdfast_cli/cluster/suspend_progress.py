"""Progress and outcome of a drain or a resumption, computed from the app's state on the cluster.

Pure. Must not read or print. The operator's conditions are taken as they are.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from holdfast.reasons import Reason
from holdfast_cli.cluster.app import AppDetail, AppEvent, Missing
from holdfast_cli.cluster.status_view import current
from holdfast_cli.output.amounts import count, many

_NO = 1


@dataclass(frozen=True, slots=True)
class SuspendProgress:
    """An app being drained or resumed; equal to another if nothing visible has changed."""

    app: str
    namespace: str
    suspend: bool
    """The value of `spec.suspend`."""
    ready: bool
    stalled: bool
    reason: str | None
    message: str
    attempt: int | None
    driver: bool
    """Whether a driver is running."""
    batch: int | None
    """The last committed batch."""
    unread: int | None
    ended: str | None
    """How its attempt ended, if it did while we were watching."""

    @property
    def line(self) -> str:
        """Return the progress as one line of text."""
        facts = [self.message]
        if self.batch is not None and self.driver:
            facts.append(f"batch {count(self.batch)} is committed")
            facts.append(f"{many(self.unread or 0, 'record')} unread")
        return f"{self.reason or 'Waiting'}: {'; '.join(facts)}"

    @property
    def suspended(self) -> bool:
        """Return whether it is stopped because it is suspended."""
        return self.suspend and self.reason == Reason.SUSPENDED and not self.driver

    def tree(self) -> dict[str, object]:
        """Return the progress as JSON."""
        return {
            "app": self.app,
            "namespace": self.namespace,
            "suspend": self.suspend,
            "suspended": self.suspended,
            "ready": self.ready,
            "reason": self.reason,
            "message": self.message,
            "attempt": self.attempt,
            "driver": self.driver,
            "batch": self.batch,
            "lag": self.unread,
            "ended": self.ended,
        }


@dataclass(frozen=True, slots=True)
class SuspendOutcome:
    """How a drain or resumption ended."""

    code: int
    text: str


def events_of(found: AppDetail) -> tuple[AppEvent, ...]:
    """Return the events that could be read."""
    return () if isinstance(found.events, Missing) else found.events


def progress_of(found: AppDetail, before: Collection[AppEvent] = ()) -> SuspendProgress:
    """Return the progress; `before`: events that existed when the command began."""
    app, report = found.app, current(found.app, found.report)
    committed = None if isinstance(report, Missing) or report.progressed is None else report
    # The first event of a drain says that it was requested, a later one how the attempt ended.
    ends = [one.note for one in events_of(found) if one not in before and one.reason != Reason.SUSPENDED]
    conditions = {one.type: one.status == "True" for one in app.status.conditions}
    return SuspendProgress(
        app.name,
        app.namespace,
        app.suspend,
        app.verdict.ready,
        # Without a reason, the conditions are about an older generation.
        conditions.get("Stalled", False) and app.verdict.reason is not None,
        app.verdict.reason,
        app.verdict.message,
        app.status.attempt,
        conditions.get("DriverRunning", False),
        None if committed is None else committed.batch,
        None if committed is None else committed.lag,
        ends[-1] if ends else None,
    )


def drain_outcome(now: SuspendProgress) -> SuspendOutcome | None:
    """Return the outcome of a drain; None: it goes on."""
    if not now.suspend:
        message = (
            "somebody set spec.suspend to false meanwhile, so it is not drained; "
            "if it is applied from a file or by GitOps, set suspend: true there"
        )
        return SuspendOutcome(_NO, message)
    if now.reason == Reason.INVALID_SPEC:
        return SuspendOutcome(_NO, f"it can't be drained as long as its spec is invalid: {now.message}")
    if not now.suspended:
        return None
    how = f": {now.ended}" if now.ended else ""
    batch = "" if now.batch is None else f"; its last batch is {count(now.batch)}"
    return SuspendOutcome(0, f"is suspended{how}{batch}; its state is kept")


def resume_outcome(now: SuspendProgress) -> SuspendOutcome | None:
    """Return the outcome of a resumption; None: it goes on."""
    if now.suspend:
        message = "somebody set spec.suspend to true meanwhile, so it stays suspended"
        return SuspendOutcome(_NO, message)
    if now.ready:
        return SuspendOutcome(0, f"is ready: {now.message}")
    if now.stalled:
        return SuspendOutcome(_NO, f"does not run: {now.reason}: {now.message}")
    return None


SuspendJudge = Callable[[SuspendProgress], SuspendOutcome | None]
