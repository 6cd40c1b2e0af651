"""The Holdfast subject: the counted app of `tests/kind`, with keys that only fill the state.

Must not measure.
"""

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.cluster.newest import BLOB
from bench.cluster.subject import BLOB_BYTES, INTERVAL, NO_ARCHIVE, PER_PARTITION, killed
from holdfast.protocol.pods import MAIN
from holdfast_operator.manifests.pod_templates import merged
from tests.cluster.cluster import Tree
from tests.kafka.counted import Counted
from tests.kind.apps import App, counted_app
from tests.kind.installed import Installed, Team
from tests.waiting import wait_until

CODE = textwrap.dedent(f"""
    import random
    import uuid

    import pyarrow as pa

    def stamp(batch):
        stamps = pa.array([uuid.uuid4().hex for _ in range(batch.num_rows)])
        return batch.select(["id", "name"]).append_column("stamp", stamps)

    def number(name, rows, state):
        if name.startswith("key-{BLOB}"):
            for _ in rows:
                state["blob"] = random.Random(name).randbytes({BLOB_BYTES})
            return
        for row in rows:
            state["n"] = state.get("n", 0) + 1
            yield {{"id": row["id"], "k": name, "nth": state["n"], "stamp": row["stamp"]}}
""")
_PODS_GO = 180.0


class Ours:
    """The app object."""

    def __init__(self, installed: Installed, team: Team, counted: Counted, **spec: Any) -> None:
        self.app: App = counted_app(installed.cluster, team, counted, **spec)
        app_spec = self.app.tree["spec"]
        app_spec["runtime"]["code"] = {"f": CODE}
        app_spec["runtime"]["trigger"] = {"interval": INTERVAL, "maxRecordsPerPartition": PER_PARTITION}
        app_spec["state"]["size"] = "1Gi"
        self._team = team

    def apply(self) -> None:
        """As users do."""
        self.app.apply()

    def driver(self) -> Tree:
        """Of the latest attempt."""
        return self.app.driver()

    def kill_driver(self) -> None:
        """Of the latest attempt."""
        killed(self.app.cluster, self.driver())

    def suspend(self) -> None:
        """Drained."""
        self.app.apply(suspend=True)
        self.app.until("Ready", "False", "Suspended")
        wait_until(lambda: not self.app.executors(), _PODS_GO, "no executor runs")

    def resume(self) -> None:
        """Taken up again."""
        self.app.apply(suspend=False)

    def restored(self) -> int | None:
        """As its driver says."""
        return len(self.app.restored())

    def empty_disks(self) -> None:
        """Whatever its executors kept is gone, as with new disks under the same claims. It must be suspended."""
        cluster = self.app.cluster
        for volume in cluster.tree("persistentvolumes")["items"]:
            spec = volume["spec"]
            if spec.get("storageClassName") == self._team.storage_class:
                (term,) = spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
                (node,) = term["matchExpressions"][0]["values"]
                cluster.on_node(node, "find", spec["local"]["path"], "-mindepth", "1", "-delete")


@contextmanager
def ours(installed: Installed, team: Team, counted: Counted, **spec: Any) -> Iterator[Ours]:
    """The team removes its apps itself."""
    yield Ours(installed, team, counted, **spec)


@contextmanager
def without_archive(installed: Installed, team: Team, counted: Counted) -> Iterator[Ours]:
    """The image's archive of Java's classes is not used, as stock Spark can't."""
    made = Ours(installed, team, counted)
    for pods, container in MAIN.items():
        runtime = made.app.tree["spec"]["runtime"][pods]
        no_archive = {"spec": {"containers": [{"name": container, "env": [NO_ARCHIVE]}]}}
        runtime["podTemplate"] = merged(runtime.get("podTemplate", {}), no_archive)
    yield made
