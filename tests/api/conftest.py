"""One API server for all tests, a namespace for each, and in it an operator with the rights that the chart gives it."""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.api import child
from tests.api.admin import APPS, CONFIG_MAPS, EVENTS, PODS, Admin, default_storage, install_crd
from tests.api.kubelet import Kubelet
from tests.api.plane import Plane
from tests.api.proxy import Proxy
from tests.chart.rendered import rendered
from tests.chart.rights import OPERATOR, grant
from tests.forked import ForkedProcess
from tests.operator.apps import tree
from tests.s3.fixtures import gateway
from tests.waiting import patience, wait_until

__all__ = ["gateway"]
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace"}
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def plane() -> Iterator[Plane]:
    with Plane() as started:
        install_crd(Admin(started))
        yield started


@dataclass(frozen=True)
class Site:
    """A namespace in which apps are applied and operators run."""

    plane: Plane
    admin: Admin
    namespace: str
    kubelet: Kubelet
    topics_file: Path
    run: Callable[[str, str], None] = child.run
    """What an operator here does."""
    brokers: bool = False
    """Whether the operator asks real brokers instead of this test."""

    @property
    def log(self) -> Path:
        """What operators of this site say."""
        return self.topics_file.with_name("operator.log")

    def topics(self, **counts: int | None) -> None:
        """What brokers answer."""
        self._topics(counts)

    def unreachable(self) -> None:
        """No broker answers."""
        self._topics(None)

    def _topics(self, known: Mapping[str, int | None] | None) -> None:
        fresh = self.topics_file.with_suffix(".new")  # the operator may read it at any time
        fresh.write_text(json.dumps(known))
        fresh.replace(self.topics_file)

    @contextmanager
    def operator(
        self, die: str = "", lease: str = "", who: str = "", port: int | None = None, proxy: Proxy | None = None
    ) -> Iterator[ForkedProcess]:
        """An operator that watches this namespace; `port`: where it says how it is."""
        through = self.plane.port if proxy is None else proxy.port
        environment = {
            "KUBECONFIG": str(self.plane.kubeconfig_through(through, OPERATOR)),
            "TOPICS": "" if self.brokers else str(self.topics_file),
            "LEASE": lease,
            "HOSTNAME": who,
            "PORT": str(port or ""),
        }
        self.log.touch()  # who looks before it has said a word finds none
        process = ForkedProcess(child.logged, self.log, self.run, self.namespace, die, environment=environment)
        try:
            yield process
        except (AssertionError, TimeoutError) as error:
            error.add_note(self._told())
            raise
        finally:
            process.kill()
            process.wait(patience(20))

    def _told(self) -> str:
        """What may explain that something is not as it should be, the most telling last."""
        app, pods = self.app(), {one["metadata"]["name"]: one["status"] for one in self.pods()}
        app.get("metadata", {}).pop("managedFields", None)
        events = [(one["reason"], one["note"]) for one in self.admin.items(EVENTS.format(self.namespace))]
        parts = (
            self.log.read_text()[-6000:],
            *map(json.dumps, (app, pods, events)),
            f"kubelet: {self.kubelet.failure!r}",
        )
        return "\n".join(parts)

    def apply(self, name: str = "ads", **spec: Any) -> None:
        """As `kubectl apply` would."""
        app = tree(**spec)
        app["metadata"]["name"] = name
        path = APPS.format(self.namespace)
        if self.admin.get(f"{path}/{name}"):
            self.admin.replace_spec(f"{path}/{name}", app["spec"])
        else:
            self.admin.create(path, app)

    def app(self, name: str = "ads") -> dict[str, Any]:
        """The object as it is now; empty: gone."""
        return self.admin.get(f"{APPS.format(self.namespace)}/{name}")

    def condition(self, kind: str, name: str = "ads") -> tuple[str, str]:
        """Status and reason."""
        conditions = (self.app(name).get("status") or {}).get("conditions") or []
        return next(((one["status"], one["reason"]) for one in conditions if one["type"] == kind), ("", ""))

    def pods(self) -> list[dict[str, Any]]:
        """All of them."""
        return self.admin.items(PODS.format(self.namespace))

    def alive(self, role: str = "driver") -> list[str]:
        """Names of pods that are not over."""
        over = ("Succeeded", "Failed")
        pods = [one for one in self.pods() if (one["metadata"].get("labels") or {}).get("spark-role") == role]
        return [one["metadata"]["name"] for one in pods if one["status"].get("phase") not in over]

    def events(self) -> list[str]:
        """Reasons of all events."""
        return [one["reason"] for one in self.admin.items(EVENTS.format(self.namespace))]

    def told(self, *reasons: str) -> None:
        """Wait for these events: the operator posts them behind what it does, beside everything else."""
        wait_until(lambda: set(reasons) <= set(self.events()), 30, f"events say {', '.join(reasons)}")

    def config_maps(self) -> list[str]:
        """Their names."""
        return [one["metadata"]["name"] for one in self.admin.items(CONFIG_MAPS.format(self.namespace))]

    def until(self, kind: str, status: str, reason: str, seconds: float = 30.0) -> None:
        """Wait for a condition, said of the newest generation."""
        expected = status, reason

        def said() -> bool:
            app = self.app()
            generation = (app.get("status") or {}).get("observedGeneration")
            return self.condition(kind) == expected and generation == app["metadata"]["generation"]

        wait_until(said, seconds, f"{kind} is {status} because {reason}")


@pytest.fixture
def site(plane: Plane, tmp_path: Path) -> Iterator[Site]:
    with opened(plane, tmp_path) as made:
        yield made


@contextmanager
def opened(plane: Plane, directory: Path) -> Iterator[Site]:
    """A site on this API server; it keeps its files in the directory."""
    admin, namespace = Admin(plane), f"apps-{next(_NUMBERS)}"
    admin.create("/api/v1/namespaces", NAMESPACE | {"metadata": {"name": namespace, "labels": RESTRICTED}})
    chart = rendered(
        "fullnameOverride=operator", "nodes.watch=false", f"watchNamespaces={{{namespace}}}", namespace=namespace
    )
    grant(admin, chart, "operator", OPERATOR)
    default_storage(admin)
    with Kubelet(admin, namespace) as kubelet:
        made = Site(plane, admin, namespace, kubelet, directory / "topics.json")
        made.topics(clicks=4, out=4)
        yield made
    assert kubelet.failure is None
    assert all(count <= 1 for count in kubelet.most_alive.values()), "two drivers of one app were alive at once"
