"""The parts of an app that only the page reads: its pods, its placement record, the end of a pod's log.

Must not keep anything, nor decide what is shown of it.
"""

from collections import deque
from collections.abc import Mapping
from contextlib import closing
from typing import Protocol

from holdfast.errors import WorldChangeError
from holdfast.placement.config_map_store import stored_in
from holdfast.placement.metadata_store import object_name
from holdfast.placement.record_store import read_record, record_key
from holdfast.protocol.names import APP_LABEL
from holdfast.tasks.record import PlacementRecord
from holdfast.trees import Tree
from holdfast_cli.cluster.app import CONFIG_MAPS, PODS, ClusterApp, Missing, ObjectReader, OrMissing
from holdfast_cli.cluster.pod_logs import OpenLog, PodLog, attempts_in
from holdfast_cli.output.screen import one_line

_TAIL, _LINE = 500, 4_000
"""Most lines that are shown of a log, and most characters of a line."""
_SHOWN, _READ = 1 << 18, 8 << 20
"""Most bytes that are shown of a log, and read for that: one line may be of any length."""


class UiClient(ObjectReader, Protocol):
    """What the page needs of a cluster."""

    def log(self, namespace: str, pod: str, query: Mapping[str, str]) -> OpenLog | None:
        """Return a log; None if there is nothing to read."""


def pods_of(client: UiClient, namespace: str, name: str) -> tuple[tuple[PodLog, ...], ...]:
    """Return the pods of each attempt, the newest attempt last."""
    return attempts_in(client.find(PODS, namespace, {"labelSelector": f"{APP_LABEL}={name}"}))


def record_object(client: UiClient, app: ClusterApp) -> Tree | None:
    """Return the ConfigMap of the run's placement record; None if there is none."""
    run = app.status.run_id
    return None if run is None else client.get(CONFIG_MAPS, app.namespace, object_name(record_key(app.name, run)))


def record_in(app: ClusterApp, config_map: OrMissing[Tree | None]) -> OrMissing[PlacementRecord | None]:
    """Return the placement record in its ConfigMap."""
    run = app.status.run_id
    if config_map is None or run is None or isinstance(config_map, Missing):
        return config_map if isinstance(config_map, Missing) else None
    return read_record(app.name, run, stored_in(config_map, record_key(app.name, run)).value)


def log_end(client: UiClient, namespace: str, name: str, pod: str) -> Tree:
    """Return the last lines of the log of one of the app's pods."""
    log = next((log for attempt in pods_of(client, namespace, name) for log in attempt if log.pod.name == pod), None)
    if log is None:
        message = f"{name} has no pod {pod} any more; a log goes with its pod"
        raise WorldChangeError(message, code="NoLogError")
    if not log.begun:
        return {"lines": [], "why": log.not_yet, "cut": False}
    stream = client.log(namespace, pod, {"container": log.container, "tailLines": str(_TAIL)})
    if stream is None:
        return {"lines": [], "why": f"{pod} has no log now", "cut": False}
    with closing(stream):
        return _last_lines(stream)


def _last_lines(stream: OpenLog) -> Tree:
    lines: deque[str] = deque(maxlen=_TAIL)
    size = read = count = 0
    for raw in stream:
        text = one_line(raw[: 4 * _LINE].decode(errors="replace").expandtabs(4))
        lines.append(text if len(text) <= _LINE else f"{text[:_LINE]}…")
        count, size, read = count + 1, size + len(lines[-1]), read + len(raw)
        while size > _SHOWN:
            size -= len(lines.popleft())
        if read > _READ:
            break
    return {"lines": list(lines), "why": None, "cut": count > len(lines) or count >= _TAIL}
