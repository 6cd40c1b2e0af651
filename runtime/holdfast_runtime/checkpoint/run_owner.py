"""The owner of a run's shared files: the app object they belong to, and whether they are in use or given up.

A deleted app's placement record and attempt numbers are deleted with it, but the files stay. A new app of the same name
would find them and be fenced off by attempts nobody knows of; here it gets an error before it starts.

    owner.json       the owner of the run; never changes, and stays when everything else is collected
    claim-<n>-<id>   attempt n has taken up the run; each claim has its own name, the newest stays
    left.json        a driver of a later run has seen this one; its retention counts from then
    collected.json   the run is given up for good; lists the claims that existed then

A claim is written first, and then `collected.json` is looked for. A collector (`old_runs`) writes `collected.json`
first, and then looks for claims that it does not list. Whoever comes second sees the other: no run is claimed while it
is removed, and no claimed run is removed. Must not remove anything that a run needs.
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
    """The checkpoint location holds this run, but of a deleted app of the same name."""


class CheckpointLostError(UserActionError):
    """The run has committed batches, but the checkpoint location holds nothing of it."""


class RunCollectedError(UserActionError):
    """The run was left for longer than its retention, and its files are removed."""


@dataclass(frozen=True, slots=True)
class RunOwner:
    """The app object that owns a run."""

    app: str
    namespace: str
    uid: str

    @classmethod
    def of(cls, told: AttemptOrders) -> "RunOwner":
        """Return the app object of an attempt."""
        return cls(told.app, told.namespace, told.uid)


def claim_run(shared: Storage, told: AttemptOrders, *, committed: bool = False) -> str:
    """Mark the run's files as this app's and as taken up; return the name of the claim.

    Raise `RunOfAnotherAppError` if it is another app's, `RunCollectedError` if it is given up, `CheckpointLostError` if
    the run is known to have `committed` batches but has no owner here.
    """
    _own(shared, told, committed=committed)
    claim = f"claim-{told.attempt:010}-{secrets.token_hex(6)}"
    shared.write(claim, [b"%d\n" % told.attempt])
    # Look after writing: a collector that this look does not see will find the claim.
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
    """Return the owner of a run; None if there is none, or it can't be read."""
    return _parsed(shared.read(OWNER) or b"")


def is_claim(name: str) -> bool:
    """Return whether this is the name of a claim."""
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
        # Read it back: another app may have written its own first.
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
