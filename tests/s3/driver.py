"""A driver of its own that runs `tests.engine.runs.APP`, keeps what is shared in an object store, and can be killed.

`python -m tests.s3.driver DATA DISK ATTEMPT LOCATION CONF [BOOTSTRAP APP]`: DATA holds the streams; DISK is this
driver's, and may be new; CONF is JSON, settings of Spark; a changelog named after APP is in the Kafka system there, if
one is named. It ends when all is read; each event is a line of JSON.
"""

import json
import sys
import threading
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from holdfast.spec.parse import parse_app
from holdfast_runtime.checkpoint.changelog import begin_changelog, with_changelog
from holdfast_runtime.checkpoint.directories import RunPaths, storage_at
from holdfast_runtime.coordination.local import LocalCoordinator
from holdfast_runtime.driver.app import run_at
from holdfast_runtime.driver.slot_placement import ProcessorShape, Site
from holdfast_runtime.loop.stopping import StopCondition
from holdfast_runtime.progress import Event, Progress, RunEnded
from tests.engine.runs import APP
from tests.kafka.known import changelog_in


class Told(LocalCoordinator):
    """Drivers on a cluster are told the number of their attempt."""

    def __init__(self, directory: Path, attempt: int) -> None:
        super().__init__(directory, "counted", "1")
        self._number = attempt

    def next_attempt(self) -> int:
        """Greater than that of any before."""
        return self._number


def say(event: Event) -> None:
    about: dict[str, Any] = {"event": type(event).__name__}
    if isinstance(event, Progress):
        about |= {"batch": event.batch, "restored": event.restored, "tasks": event.tasks}
    if isinstance(event, RunEnded):
        about |= {"ending": event.ending.value, "batches": event.batches}
    # In one piece: events come from several threads, and errors go to the same pipe.
    sys.stdout.write(f"{json.dumps(about)}\n")
    sys.stdout.flush()


def main(data: Path, disk: Path, attempt: int, location: str, conf: dict[str, str], *changelog: str) -> None:
    shared = storage_at(location, conf)
    topic = changelog_in(changelog[0], changelog[1]) if changelog else None
    begin_changelog(shared, topic)
    lasting = with_changelog(shared, topic, "tests")
    paths = RunPaths(
        query=disk / "query",
        shared=shared,
        durable=lasting.below("state"),
        state=disk / "tasks",
        log=data / "log",
        planned=lasting.below("query"),
    )
    with Told(disk / "metadata", attempt) as coordinator:
        site = Site("local[2]", ProcessorShape(0, 2), paths, coordinator, shared.directory, ui=False, prints=disk)
        say(
            run_at(
                site, parse_app(YAML(typ="safe", pure=True).load(APP)), StopCondition(idle=True), say, threading.Event()
            )
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4], json.loads(sys.argv[5]), *sys.argv[6:])
