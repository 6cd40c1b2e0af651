"""The owner of a run's shared files: the one app object they belong to, and whether they are in use or given up.

An app that is deleted takes its placement record and the numbers of its attempts along. One that is made anew under
its name would meet the files, and be shut out by attempts nobody knows of; here it is told so before it starts.

    owner.json       whose the run is; never changes, and stays when all else is collected
    claim-<n>-<id>   attempt n has taken the run up; a name of its own each time, the newest stays
    left.json        a driver of a later run has seen it; from then on its retention counts
    collected.json   the run is given up, for good: it names the claims that were there then

To claim is to write a claim, and then to look for `collected.json`; to collect (`old_runs`) is to write that, and
then to look for claims it does not name. Whoever comes second sees the other: no run is claimed that is being
removed, and none is removed that is claimed. Must not remove anything a run needs.
"""

import json
import re
import secrets
from dataclasses import dataclass

from holdfast.errors import UserActionError
from holdfast.protocol.attempt import AttemptOrders
from holdfast_runtime.state.storage import Storage

OWNER, LEFT, COLLECTED = "owner.json", "left.json", "collected.json"
_CLAIM = re.compile(r"claim-\d{10}-[0-9a-f]{12}")


class RunOfAnotherAppError(UserActionError):
    """The checkpoint location holds this run of an app that was deleted."""


class CheckpointLostError(UserActionError):
    """The run has committed batches, and nothing of it is left at the checkpoint location."""


class RunCollectedError(UserActionError):
    """The run was left for longer than its retention, and what it kept is removed."""


@dataclass(frozen=True, slots=True)
class RunOwner:
    """An app object."""

    app: str
    namespace: str
    uid: str

    @classmethod
    def of(cls, told: AttemptOrders) -> "RunOwner":
        """Whom an attempt works for."""
        return cls(told.app, told.namespace, told.uid)


def claim_run(shared: Storage, told: AttemptOrders, *, committed: bool = False) -> str:
    """Mark what the run keeps as this app's, and taken up; the name of the claim.

    Raises `RunOfAnotherAppError` where it is another's, `RunCollectedError` where it is given up, and, if the run is
    known to have `committed` batches, `CheckpointLostError` where nobody has taken it up yet.
    """
    _own(shared, told, committed=committed)
    claim = f"claim-{told.attempt:010}-{secrets.token_hex(6)}"
    shared.write(claim, [b"%d\n" % told.attempt])
    # After writing, for a collector that looks later than this will find the claim.
    names = shared.names()
    if COLLECTED in names:
        _remove(shared, claim)
        message = (
            f"{shared.directory} held run {told.run} of {told.app}, which was left for longer than "
            f"spec.runtime.checkpoint.retention and is collected: start under a new spec.runId"
        )
        raise RunCollectedError(message)
    _remove(shared, *(name for name in names if name == LEFT or (is_claim(name) and name != claim)))
    return claim


def read_owner(shared: Storage) -> RunOwner | None:
    """Whose it is; None: nobody's, or nobody knows."""
    return _parsed(shared.read(OWNER) or b"")


def is_claim(name: str) -> bool:
    """Whether an object of this name is a claim."""
    return _CLAIM.fullmatch(name) is not None


def _own(shared: Storage, told: AttemptOrders, *, committed: bool) -> None:
    found = shared.read(OWNER)
    if found is None:
        if committed:
            message = (
                f"run {told.run} of {told.app} has committed batches, as ConfigMap {told.report} says, but "
                f"{shared.directory} holds nothing of it: mount or put back what held its checkpoint, or start under a "
                f"new spec.runId, which begins without state"
            )
            raise CheckpointLostError(message)
        text = json.dumps({"app": told.app, "namespace": told.namespace, "uid": told.uid})
        shared.write(OWNER, [text.encode()])
        # What stands there counts, not what was written: another app may have been faster.
        found = shared.read(OWNER) or b""
    owner = _parsed(found)
    if owner is None or owner.uid != told.uid:
        message = (
            f"{shared.directory} holds run {told.run} of an app {told.app} that was deleted (uid "
            f"{None if owner is None else owner.uid}, this one is {told.uid}): start under a new spec.runId, or remove "
            f"it to give up what is in it"
        )
        raise RunOfAnotherAppError(message)


def _parsed(text: bytes) -> RunOwner | None:
    try:
        tree = json.loads(text)
        return RunOwner(str(tree["app"]), str(tree["namespace"]), str(tree["uid"]))
    except (ValueError, KeyError, TypeError):
        return None


def _remove(shared: Storage, *names: str) -> None:
    for _ in shared.delete(names):
        pass
