"""Retention of old runs: a run that was left is kept for a while, as its app may go back to it, and then collected.

From time to time the driver of the app's current run looks at the other runs:

    seen first        note that it was left; its retention counts from then, or from a later write
    long enough       mark it as collected, look for claims once more, and only then remove its files
    marked already    a collector died, or an old process wrote files since: remove what is there

This is safe even if unknown drivers of the app are alive: (1) Only the driver with the newest claim of all runs of the
app collects, so a driver left behind does not judge the run that followed its own. (2) Mark and claim are written
before either looks for the other (`run_owner`), and only an attempt that surely claimed before the mark takes it back.
(3) Mark and owner stay, some hundred bytes: a new run with the same id is refused, so a late removal never hits it.

Must not touch a run of another app object, nor one whose owner can't be read.
"""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum

from holdfast_runtime.checkpoint.run_owner import COLLECTED, LEFT, OWNER, RunOwner, is_claim, read_owner
from holdfast_runtime.state.storage import Storage

_LOG = logging.getLogger("holdfast")
EVERY = 3600.0
"""Seconds between two looks at old runs."""
_QUERY = ("query",), ("query", "offsets"), ("query", "commits")
"""Folders to which each batch writes before it writes anything else."""


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


def cleanup_steps(own: OldRun, others: Mapping[str, OldRun], retention: int | None, now: int) -> dict[str, CleanupStep]:
    """Return what to do with each other run of this app; `retention` in milliseconds, None: keep them for ever."""
    same = {name: run for name, run in others.items() if run.owner is not None and run.owner == own.owner}
    mine = max(own.claims.values(), default=None)
    if mine is None or any(claimed > mine for run in same.values() for claimed in run.claims.values()):
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
    found, collected = run.modified(), None
    if COLLECTED in found:
        collected = _named(run.read(COLLECTED) or b"")
        # List again: the list from before the mark was read may lack a claim that is older than the mark.
        found = run.modified()
    written = [*found.values(), *(at for names in _QUERY for at in run.below(*names).modified().values())]
    claims = {name: at for name, at in found.items() if is_claim(name)}
    return OldRun(read_owner(run), claims, max(written, default=0), LEFT in found, collected)


class OldRuns:
    """The old runs of one app, seen from the driver of its current run."""

    def __init__(self, app: Storage, own: str, claim: str, retention: int | None, clock: Callable[[], int]) -> None:
        """`app`: where the app keeps its runs; `own`: the directory of the current run, taken up by `claim`."""
        self._app, self._own, self._claim = app, own, claim
        self._retention, self._clock = retention, clock

    def collect(self) -> None:
        """Do what is due for each old run. May be killed anywhere."""
        run = self._app.below(self._own)
        own = look_at_run(run)
        if self._claim not in own.claims or self._claim in (own.collected or ()):
            # A newer attempt has taken up this run, or a later run of the app has collected it.
            return
        # A mark that does not list this claim is newer than it, or claiming would have been refused: nobody acts on it.
        _remove(run, *([LEFT] if own.noted else []), *([COLLECTED] if own.collected is not None else []))
        others = {name: look_at_run(self._app.below(name)) for name in self._app.directories() if name != self._own}
        for name, step in sorted(cleanup_steps(own, others, self._retention, self._clock()).items()):
            self._do(step, name, others[name])

    def _do(self, step: CleanupStep, name: str, seen: OldRun) -> None:
        run = self._app.below(name)
        match step:
            case CleanupStep.NOTE:
                run.write(LEFT, [_text(seenBy=self._own)], replace=True)
            case CleanupStep.MARK:
                run.write(COLLECTED, [_text(claims=sorted(seen.claims), by=self._own)])
                if may_clear(look_at_run(run)):
                    self._clear(run, f"nothing was written there since {_when(seen.newest)}")
            case CleanupStep.CLEAR:
                self._clear(run, "that had begun earlier")
            case CleanupStep.KEEP:
                pass

    def _clear(self, run: Storage, why: str) -> None:
        gone = run.clear({OWNER, COLLECTED})
        if gone:
            _LOG.info("run %s is collected, %d objects: %s", run.directory, gone, why)


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


def _remove(run: Storage, *names: str) -> None:
    for _ in run.delete(names):
        pass
