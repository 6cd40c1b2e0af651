"""The owner of a run's shared files, and the retention of runs that were left.

A deleted app's placement record and attempt numbers are deleted with it, but the files stay. A new app of the same name
would find them and be fenced off by attempts nobody knows of; here it gets an error before it starts.

    owner.json       the owner of the run; never changes, and stays when everything else is collected
    claim-<n>-<id>   attempt n has taken up the run; each claim has its own name, the newest stays
    left.json        a driver of a later run has seen this one; its retention counts from then
    collected.json   the run is given up for good; lists the claims that existed then

From time to time the driver of the app's current run looks at the other runs:

    seen first        note that it was left; its retention counts from then, or from a later write
    long enough       mark it as collected, look for claims once more, and only then remove its files
    marked already    a collector died, or an old process wrote files since: remove what is there

This is safe even if unknown drivers of the app are alive: (1) Only the driver with the newest claim of all runs of the
app collects, so a driver left behind does not judge the run that followed its own. (2) A claim is written before its
driver looks for the mark, and the mark before the collector looks for claims that it does not list. Whoever comes
second sees the other, and only an attempt that surely claimed before the mark takes it back. (3) Mark and owner stay,
some hundred bytes: a new run with the same id is refused, so a late removal never hits it.

What is kept of the run elsewhere, its placement record among it, goes with the files and not before: who goes back to a
run has to find both or neither. Must not touch a run of another app object, nor one whose owner can't be read.
"""

import json
import logging
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from urllib.parse import unquote

from holdfast.attempt_number import PADDED, padded
from holdfast.errors import UserActionError
from holdfast.protocol.attempt import AttemptOrders
from holdfast_runtime.state.durable.storage import Storage, obsolete_may_stay

OWNER, LEFT, COLLECTED = "owner.json", "left.json", "collected.json"
_CLAIM = re.compile(rf"claim-{PADDED}-[0-9a-f]{{12}}")


@dataclass(frozen=True, slots=True)
class RunOwner:
    """The app object that owns a run."""

    app: str
    namespace: str
    uid: str

    @classmethod
    def of(cls, orders: AttemptOrders) -> "RunOwner":
        """Return the app object of an attempt."""
        return cls(orders.app, orders.namespace, orders.uid)


def claim_run(shared: Storage, orders: AttemptOrders, *, committed: bool = False) -> str:
    """Mark the run's files as this app's and as taken up; return the name of the claim.

    Raise `RunOfAnotherAppError` if it is another app's, `RunCollectedError` if it is given up, `CheckpointLostError` if
    the run is known to have `committed` batches but has no owner here.
    """
    _own(shared, orders, committed=committed)
    claim = f"claim-{padded(orders.attempt)}-{secrets.token_hex(6)}"
    shared.write(claim, [b"%d\n" % orders.attempt])
    # Look after writing: a collector that this look does not see will find the claim.
    names = shared.names()
    if COLLECTED in names:
        with obsolete_may_stay(shared):
            _remove(shared, claim)
        message = (
            f"{shared.directory} held run {orders.run} of {orders.app}, which was left for longer than "
            f"spec.runtime.checkpoint.retention and is collected: start under a new spec.runId"
        )
        raise UserActionError(message, code="RunCollectedError")
    with obsolete_may_stay(shared):
        _remove(shared, *(name for name in names if name == LEFT or (is_claim(name) and name != claim)))
    return claim


def read_owner(shared: Storage) -> RunOwner | None:
    """Return the owner of a run; None if there is none, or it can't be read."""
    return _parsed(shared.read(OWNER) or b"")


def is_claim(name: str) -> bool:
    """Return whether this is the name of a claim."""
    return _CLAIM.fullmatch(name) is not None


def _own(shared: Storage, orders: AttemptOrders, *, committed: bool) -> None:
    content = shared.read(OWNER)
    if content is None:
        if committed:
            message = (
                f"run {orders.run} of {orders.app} has committed batches, as ConfigMap {orders.report} says, but "
                f"{shared.directory} holds nothing of it: mount or put back what held its checkpoint, or start under a "
                f"new spec.runId, which begins without state"
            )
            raise UserActionError(message, code="CheckpointLostError")
        text = json.dumps({"app": orders.app, "namespace": orders.namespace, "uid": orders.uid})
        shared.write(OWNER, [text.encode()])
        # Read it back: another app may have written its own first.
        content = shared.read(OWNER) or b""
    owner = _parsed(content)
    if owner is None or owner.uid != orders.uid:
        message = (
            f"{shared.directory} holds run {orders.run} of an app {orders.app} that was deleted (uid "
            f"{None if owner is None else owner.uid}, this one is {orders.uid}): start under a new spec.runId, or "
            f"remove it to give up what is in it"
        )
        raise UserActionError(message, code="RunOfAnotherAppError")


def _parsed(text: bytes) -> RunOwner | None:
    try:
        tree = json.loads(text)
        return RunOwner(str(tree["app"]), str(tree["namespace"]), str(tree["uid"]))
    except (ValueError, KeyError, TypeError):
        return None


def _remove(shared: Storage, *names: str) -> None:
    for _ in shared.delete(names):
        pass


_LOG = logging.getLogger("holdfast")
EVERY = 3600.0
"""Seconds between two looks at old runs."""
_QUERY = ("query",), ("query", "offsets"), ("query", "commits")
"""Directories to which each batch writes before it writes anything else."""


@dataclass(frozen=True, slots=True)
class OldRun:
    """What a driver sees of a run."""

    owner: RunOwner | None
    claims: Mapping[str, int] = field(default_factory=dict)
    """Claim -> when it was made, milliseconds since 1970."""
    newest: int = 0
    """When the run last wrote something."""
    noted: bool = False
    """Whether it is noted as left."""
    collected: frozenset[str] | None = None
    """The claims listed in the mark, if it is marked as collected."""


class CleanupStep(Enum):
    """What to do with an old run."""

    KEEP = "keep"
    NOTE = "note"
    MARK = "mark"
    CLEAR = "clear"


def cleanup_steps(
    current: OldRun, other_runs: Mapping[str, OldRun], retention: int | None, now: int
) -> dict[str, CleanupStep]:
    """Return what to do with each other run of this app; `retention` in milliseconds, None: keep them for ever."""
    same = {name: run for name, run in other_runs.items() if run.owner is not None and run.owner == current.owner}
    newest_claim = max(current.claims.values(), default=None)
    if newest_claim is None or any(claimed > newest_claim for run in same.values() for claimed in run.claims.values()):
        # The app has moved on: the driver with the later claim decides.
        return {}
    return {name: _step(run, retention, now) for name, run in same.items()}


def _step(run: OldRun, retention: int | None, now: int) -> CleanupStep:
    if run.collected is not None:
        return CleanupStep.CLEAR if may_clear(run) else CleanupStep.KEEP
    if retention is None:
        return CleanupStep.KEEP
    if not run.noted:
        return CleanupStep.NOTE
    return CleanupStep.MARK if now - run.newest > retention else CleanupStep.KEEP


def may_clear(run: OldRun) -> bool:
    """Return whether the run is marked as collected, and the mark lists all its claims."""
    return run.collected is not None and run.claims.keys() <= run.collected


def look_at_run(run: Storage) -> OldRun:
    """Read what can be seen of a run."""
    modified, collected = run.modified(), None
    if COLLECTED in modified:
        collected = _named(run.read(COLLECTED) or b"")
        # List again: the list from before the mark was read may lack a claim that is older than the mark.
        modified = run.modified()
    written = [*modified.values(), *(time for names in _QUERY for time in run.below(*names).modified().values())]
    claims = {name: time for name, time in modified.items() if is_claim(name)}
    return OldRun(read_owner(run), claims, max(written, default=0), LEFT in modified, collected)


class OldRuns:
    """The old runs of one app, seen from the driver of its current run."""

    def __init__(
        self,
        app: Storage,
        directory: str,
        claim: str,
        retention: int | None,
        clock: Callable[[], int],
        forget: Callable[[str], int],
    ) -> None:
        """`app`: where the app keeps its runs; `directory`: that of the current run, taken up by `claim`.

        `forget` removes what is kept elsewhere of a run that is collected, and returns how many objects that were.
        """
        self._app, self._own, self._claim = app, directory, claim
        self._retention, self._clock, self._forget = retention, clock, forget
        self._forgotten = set[str]()
        """Directories of runs that this process has seen forgotten."""

    def collect(self) -> None:
        """Do what is due for each old run. May be killed anywhere."""
        run = self._app.below(self._own)
        current = look_at_run(run)
        if self._claim not in current.claims or self._claim in (current.collected or ()):
            # A newer attempt has taken up this run, or a later run of the app has collected it.
            return
        # A mark that does not list this claim is newer than it, or claiming would have been refused: nobody acts on it.
        _remove(run, *([LEFT] if current.noted else []), *([COLLECTED] if current.collected is not None else []))
        other_runs = {name: look_at_run(self._app.below(name)) for name in self._app.directories() if name != self._own}
        for name, step in sorted(cleanup_steps(current, other_runs, self._retention, self._clock()).items()):
            self._do(step, name, other_runs[name])

    def _do(self, step: CleanupStep, name: str, old_run: OldRun) -> None:
        run = self._app.below(name)
        match step:
            case CleanupStep.NOTE:
                run.write(LEFT, [_text(seenBy=self._own)], replace=True)
            case CleanupStep.MARK:
                run.write(COLLECTED, [_text(claims=sorted(old_run.claims), by=self._own)])
                if may_clear(look_at_run(run)):
                    self._clear(name, run, f"nothing was written there since {_when(old_run.newest)}")
            case CleanupStep.CLEAR:
                self._clear(name, run, "that had begun earlier")
            case CleanupStep.KEEP:
                pass

    def _clear(self, name: str, run: Storage, why: str) -> None:
        removed = run.clear({OWNER, COLLECTED})
        if removed:
            _LOG.info("run %s is collected, %d objects: %s", run.directory, removed, why)
        if name not in self._forgotten:
            # Once per process, which is asked for less than each round; a death before it leaves it to the next one.
            if elsewhere := self._forget(unquote(name)):
                _LOG.info("run %s is collected: %d ConfigMaps are removed", run.directory, elsewhere)
            self._forgotten.add(name)


def _named(text: bytes) -> frozenset[str]:
    try:
        return frozenset(map(str, json.loads(text)["claims"]))
    except (ValueError, KeyError, TypeError):
        # Unreadable: it lists no claims, so a claimed run stays.
        return frozenset()


def _text(**tree: object) -> bytes:
    return json.dumps(tree).encode()


def _when(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="seconds")
