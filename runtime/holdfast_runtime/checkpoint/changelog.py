"""The changelog of a run: what stands on the way of its batches, in a topic beside the checkpoint location.

A run keeps it where it began: a note in the checkpoint location says in which topic, by the topic's id. So a topic that
was deleted, or made again, is told from one in which nothing has been written yet. Must not know what is kept there.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from holdfast.errors import UserActionError
from holdfast.spec.app import StreamApp
from holdfast_runtime.checkpoint.directories import directory_name
from holdfast_runtime.state.durable.changelog.log_storage import LogStorage
from holdfast_runtime.state.durable.changelog.storage_beside import StorageBeside
from holdfast_runtime.state.durable.storage import Storage
from holdfast_runtime.streams.kafka.changelog_topic import ChangelogTopic

_NOTE = "changelog"


def changelog_of(app: StreamApp, secrets: Path | None) -> ChangelogTopic | None:
    """Return the topic that the spec wants, if any; `secrets`: where the logins of systems are."""
    checkpoint = app.spec.runtime.checkpoint
    if checkpoint is None or checkpoint.changelog is None:
        return None
    name, partitions = checkpoint.changelog.system, checkpoint.changelog.partitions
    for system in app.spec.systems:
        if system.name == name and system.kafka is not None:
            return ChangelogTopic(system, app.name, partitions, secrets)
    # A spec that says so itself is refused before; a release's default sees no systems.
    message = (
        f"the checkpoint has a changelog in Kafka system {name}, and the app has no such system: name a checkpoint in "
        f"spec.runtime.checkpoint, or a system {name} in spec.systems"
    )
    raise UserActionError(message, code="ChangelogSystemMissingError")


def with_changelog(runs: Storage, topic: ChangelogTopic | None, namespace: str) -> Storage:
    """Return the storage of the runs of an app of this namespace, with its changelog if it has one."""
    if topic is None:
        return runs
    return StorageBeside(LogStorage(topic).below(directory_name(namespace), directory_name(topic.app)), runs)


def begin_changelog(run: Storage, topic: ChangelogTopic | None) -> None:
    """Make the topic, and check that it is the one in which the run began; raise `ChangelogDiffersError`.

    `run`: what the run keeps in the checkpoint location.
    """
    content = run.read(_NOTE)
    began: dict[str, object] | None = None if content is None else json.loads(content)
    if topic is None:
        if began is not None:
            raise _elsewhere(run, began, "none")
        return
    named = {"topic": topic.title, "partitions": topic.partitions}
    if began is None and run.below("query").names():
        raise _differs(run, "the run began without a changelog, and the spec wants one")
    if began is not None and began != {**began, **named}:
        raise _elsewhere(run, began, f"{topic.title} with {topic.partitions} partitions")
    topic_id = topic.ensure()
    if began is None:
        run.write(_NOTE, [json.dumps({**named, "id": topic_id}).encode()])
    elif began["id"] != topic_id:
        raise _differs(run, f"{topic.title} is not the one in which the run began: that had the id {began['id']}")


def _elsewhere(run: Storage, began: Mapping[str, object], names: str) -> UserActionError:
    place = f"{began['topic']} with {began['partitions']} partitions"
    return _differs(run, f"the run has its changelog in {place}, the spec in {names}")


def _differs(run: Storage, why: str) -> UserActionError:
    return UserActionError(
        f"{run.directory}: {why}. Bring back what spec.runtime.checkpoint.changelog had said, or the topic, or start "
        "under a new spec.runId, which begins without state",
        code="ChangelogDiffersError",
    )
