"""Why: the shared files of a run belong to one app object, and say so.

An app that is deleted takes its placement record and the numbers of its attempts along. One that is made anew under its
name would meet the files, and be shut out by attempts nobody knows of; here it is told so before it starts. Must not
remove anything.
"""

import json

from holdfast.errors import UserActionError
from holdfast.placement.told import Told
from holdfast_runtime.state.storage import Storage

_NAME = "owner.json"


class RunOfAnotherAppError(UserActionError):
    """The checkpoint location holds this run of an app that was deleted."""


def claim_run(shared: Storage, told: Told) -> None:
    """Mark what the run keeps as this app's; raises `RunOfAnotherAppError` where it is another's."""
    found = shared.read(_NAME)
    if found is None:
        text = json.dumps({"app": told.app, "namespace": told.namespace, "uid": told.uid})
        shared.write(_NAME, [text.encode()])
        # What stands there counts, not what was written: another app may have been faster.
        found = shared.read(_NAME) or b""
    if (uid := _uid(found)) != told.uid:
        message = (
            f"{shared.directory} holds run {told.run} of an app {told.app} that was deleted (uid {uid}, this one is "
            f"{told.uid}): start under a new spec.runId, or remove it to give up what is in it"
        )
        raise RunOfAnotherAppError(message)


def _uid(text: bytes) -> str | None:
    try:
        return str(json.loads(text)["uid"])
    except (ValueError, KeyError, TypeError):
        return None
