"""Why: the shared files of a run belong to one app object, and say so.

An app that is deleted takes its placement record and the numbers of its attempts along. One that is made anew under its
name would meet the files, and be shut out by attempts nobody knows of; here it is told so before it starts. Must not
remove anything.
"""

import json
from pathlib import Path

from holdfast.errors import UserActionError
from holdfast.placement.told import Told
from holdfast_runtime.state.errors import CheckpointUnavailableError

_NAME = "owner.json"


class RunOfAnotherAppError(UserActionError):
    """The checkpoint location holds this run of an app that was deleted."""


def claim_run(folder: Path, told: Told) -> None:
    """Mark the run's folder as this app's; raises `RunOfAnotherAppError` where it is another's."""
    path = folder / _NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            # Whole or not at all: half a file would be nobody's.
            temporary = path.with_suffix(".writing")
            temporary.write_text(json.dumps({"app": told.app, "namespace": told.namespace, "uid": told.uid}))
            temporary.replace(path)
        found = path.read_text()
    except OSError as error:
        message = (
            f"the checkpoint location refuses {path} ({error.strerror}): see that it is mounted into driver and "
            f"executors, has space, and lets user and group of the pods write"
        )
        raise CheckpointUnavailableError(message) from error
    if _uid(found) != told.uid:
        message = (
            f"{folder} holds run {told.run} of an app {told.app} that was deleted (uid {_uid(found)}, this one is "
            f"{told.uid}): start under a new spec.runId, or remove the folder to give up what is in it"
        )
        raise RunOfAnotherAppError(message)


def _uid(text: str) -> str | None:
    try:
        return str(json.loads(text)["uid"])
    except (ValueError, KeyError, TypeError):
        return None
