"""The stage of a measurement: fixtures of `tests/kind`, and what lives on the cluster before the clock starts.

Each life has a namespace, disks and topics of its own: what one run leaves is not the start of the next. Must not
judge.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.cluster.newest import Flow
from bench.cluster.subject import BLOB_BYTES, PARTITIONS, Subject
from tests.chart.helms import Helm
from tests.cluster.cluster import Cluster
from tests.cluster.config import NODES
from tests.cluster.diagnosis import diagnose
from tests.cluster.folders import kubeconfig
from tests.kafka.counted import Counted
from tests.kind.images import ensure_images
from tests.kind.installed import SYSTEM, Installed, Team
from tests.kind.kafka import KindBroker

SAID = Path(__file__).parents[2] / ".holdfast" / "bench-cluster"
"""What the cluster said when something failed."""
Make = Callable[[Installed, Team, Counted], AbstractContextManager[Subject]]


@dataclass(frozen=True)
class Place:
    """The cluster with its broker and the release."""

    cluster: Cluster
    installed: Installed
    broker: KindBroker

    def whole(self) -> None:
        """Nodes that were stopped are back."""
        for node in NODES:
            if not self.cluster.running(node):
                self.cluster.start_node(node)
        self.installed.up()


@dataclass(frozen=True)
class Life:
    """One subject under load, and what comes out of it."""

    place: Place
    subject: Subject
    flow: Flow
    counted: Counted

    def begins(self) -> None:
        """It is applied, and rows flow."""
        self.subject.apply()
        self.flow.first()
        self.flow.again()

    def fills(self, megabytes: int) -> None:
        """Its state has so many more."""
        if megabytes:
            self.flow.filled(megabytes * 1_000_000 // BLOB_BYTES, PARTITIONS)


@contextmanager
def place() -> Iterator[Place]:
    """Images on the nodes, the broker, and the release as tests install it."""
    if not kubeconfig().exists():
        sys.exit("there is no cluster: `make cluster` makes one")
    cluster, images = Cluster(), ensure_images()
    cluster.load_image(images.kafka, NODES[:1])
    for image in (images.operator, images.runtime):
        cluster.load_image(image)
    broker = KindBroker(cluster)
    broker.start(images.kafka)
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as home:
        installed = Installed(cluster, Helm(4, Path(home), cluster.kubeconfig, SYSTEM), images)
        installed.upgrade()
        yield Place(cluster, installed, broker)


@contextmanager
def life(site: Place, make: Make, name: str) -> Iterator[Life]:
    """Nothing of it is left afterwards, and nodes are back. `name`: of the folder that tells of a failure."""
    counted = Counted.new(site.broker, PARTITIONS)
    with site.installed.team() as team, make(site.installed, team, counted) as subject, Flow(counted) as flow:
        try:
            yield Life(site, subject, flow, counted)
        except Exception:
            diagnose(SAID / name)
            print(f"{name} failed; what the cluster said: {SAID / name}", flush=True)
            raise
        finally:
            site.whole()
