"""Retention of old runs: a run that was left is kept for a while, for its app may go back to it, and then collected.

The driver of the app's current run looks at the runs beside its own, from time to time:

    seen first        note that it was left: its retention counts from then, or from what was written in it later
    long enough       mark it as collected, look again for claims, and only then remove what it keeps
    marked already    somebody died meanwhile, or an old writer left litter: remove what is there

It is safe although unknown drivers of the app may live: (1) only the driver with the newest claim of all runs of the
app collects, so one that was left behind does not judge the run that came after it; (2) mark and claim are written
before either looks for the other (`run_owner`), and the mark is never taken back but by an attempt that is sure to
have claimed before it; (3) mark and owner stay, some hundred bytes, so that what is removed late is never of a run
that began anew under the same id: it is refused.

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
"""Seconds from one look at old runs to the next."""
_QUERY = ("query",), ("query", "offsets"), ("query", "commits")
"""Where something is written for each batch, before anything else is."""


@dataclass(frozen=True, slots=True)
class OldRun:
    """What is seen of a run."""

    owner: RunOwner | None
    claims: Mapping[str, int] = field(default_factory=dict)
    """When each was made, milliseconds since 1970."""
    newest: int = 0
    """When something was written in it last."""
    noted: bool = False
    """Whether it is known to be left."""
    collected: frozenset[str] | None = None
    """It is marked so: the claims the mark names."""


class CleanupStep(Enum):
    """What is done with a run."""

    KEEP = "keep"
    NOTE = "note"
    MARK = "mark"
    CLEAR = "clear"


def cleanup_steps(own: OldRun, others: Mapping[str, OldRun], retention: int | None, now: int) -> dict[str, CleanupStep]:
    """What is due, for each run of this app but its own; `retention`: milliseconds, None: for ever."""
    same = {name: run for name, run in others.items() if run.owner is not None and run.owner == own.owner}
    mine = max(own.claims.values(), default=None)
    if mine is None or any(claimed > mine for run in same.values() for claimed in run.claims.values()):
        # The app went on elsewhere: who has taken a run up later decides.
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
    """Whether it is given up, and nobody has taken it up before that was written."""
    return run.collected is not None and run.claims.keys() <= run.collected


def look_at_run(run: Storage) -> OldRun:
    """At a run."""
    found, collected = run.modified(), None
    if COLLECTED in found:
        collected = _named(run.read(COLLECTED) or b"")
        # Once more: what was listed before the mark was read may lack a claim that is older than the mark.
        found = run.modified()
    written = [*found.values(), *(at for names in _QUERY for at in run.below(*names).modified().values())]
    claims = {name: at for name, at in found.items() if is_claim(name)}
    return OldRun(read_owner(run), claims, max(written, default=0), LEFT in found, collected)


class OldRuns:
    """Those of one app, as the driver of one of its runs sees them."""

    def __init__(self, app: Storage, own: str, claim: str, retention: int | None, clock: Callable[[], int]) -> None:
        """`app`: where it keeps its runs; `own`: the directory of the current one, taken up by `claim`."""
        self._app, self._own, self._claim = app, own, claim
        self._retention, self._clock = retention, clock

    def collect(self) -> None:
        """Do what is due. May die anywhere."""
        run = self._app.below(self._own)
        own = look_at_run(run)
        if self._claim not in own.claims or self._claim in (own.collected or ()):
            # A newer attempt has taken it up, or a later run of the app has seen this one left for long.
            return
        # A mark that does not name the claim came after it, for claiming would have been refused: nobody acts on it.
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
        # It names none: what is claimed stays.
        return frozenset()


def _text(**tree: object) -> bytes:
    return json.dumps(tree).encode()


def _when(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="seconds")


def _remove(run: Storage, *names: str) -> None:
    for _ in run.delete(names):
        pass
