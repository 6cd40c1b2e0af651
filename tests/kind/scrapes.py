"""What a Prometheus would have of the cluster: all that serves metrics, scraped every few seconds.

The engine of tests has a sample a minute, so each scrape counts as one: an app twenty times as slow would look the
same. Must not know what the metrics mean.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

from kubernetes import client
from prometheus_client.parser import text_string_to_metric_families
from urllib3.exceptions import HTTPError

from tests.cluster.cluster import Cluster
from tests.waiting import wait_until

STEP = 3.0
_PORTS = {"hold-metrics", "metrics"}
_LIMIT = 10.0
_UP = 60.0

Series = tuple[str, tuple[tuple[str, str], ...]]


class Scrapes:
    """Scrapes the pods of these namespaces from a thread until it is left."""

    def __init__(self, cluster: Cluster, namespaces: tuple[str, ...]) -> None:
        self._api, self._namespaces = client.CoreV1Api(cluster.client()), namespaces
        self._samples: dict[Series, list[float]] = {}
        self.count = 0
        self._over = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._go_on, name="scrapes", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def later(self, scrapes: int) -> int:
        """Wait for so many further ones; return how many there are."""
        due = self.count + scrapes
        return self.until(lambda: self.count >= due, _UP + 2 * STEP * scrapes, f"{scrapes} scrapes more")

    def until(self, condition: Callable[[], bool], seconds: float, what: str) -> int:
        """Wait until this holds of the scrapes there are; return how many there are."""

        def holds() -> bool:
            if self._failure is not None:
                raise self._failure
            return condition()

        wait_until(holds, seconds, what)
        return self.count

    def values(self, name: str) -> list[list[float]]:
        """What each series of this name was, scrape by scrape; not a number where it was not there."""
        return [values[: self.count] for (metric, _), values in self._all() if metric == name]

    def above(self, limit: float, name: str, many: int) -> bool:
        """Whether each of the last scrapes has a series of this name above the limit."""
        return self.count >= many and all(
            any(values[number] > limit for values in self.values(name)) for number in range(-many, 0)
        )

    def told(self) -> str:
        """All series as Prometheus's own tests write them; one that ended is stale, as where its pod is gone."""
        lines = ["load 1m"]
        for (name, labels), values in self._all():
            text = ",".join(f'{label}="{_escaped(value)}"' for label, value in labels)
            lines.append(f"  {name}{{{text}}} {' '.join(_noted(values))}")
        return "\n".join(lines) + "\n"

    def _all(self) -> list[tuple[Series, list[float]]]:
        return list(self._samples.items())

    def _go_on(self) -> None:
        began = time.monotonic()
        try:
            while not self._over.wait(max(0.0, began + STEP * self.count - time.monotonic())):
                for namespace in self._namespaces:
                    self._scrape(namespace)
                for values in self._samples.values():
                    values.extend([math.nan] * (self.count + 1 - len(values)))
                self.count += 1
        except Exception as error:  # noqa: BLE001 - raised where somebody waits for scrapes
            self._failure = error

    def _scrape(self, namespace: str) -> None:
        pods: Any = self._api.list_namespaced_pod(namespace)
        for pod in pods.items:
            ports = [port for container in pod.spec.containers for port in container.ports or () if port.name in _PORTS]
            if pod.status.phase != "Running" or not ports:
                continue
            try:
                text = self._api.connect_get_namespaced_pod_proxy_with_path(
                    f"{pod.metadata.name}:{ports[0].container_port}", namespace, "metrics", _request_timeout=_LIMIT
                )
            except (client.ApiException, HTTPError):
                continue  # it is not up yet, or has just gone
            self._take(text, {"namespace": namespace, "pod": pod.metadata.name})

    def _take(self, text: str, target: dict[str, str]) -> None:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                series = sample.name, tuple(sorted({**target, **sample.labels}.items()))
                values = self._samples.setdefault(series, [])
                values += [math.nan] * (self.count - len(values))
                values.append(sample.value)


def _noted(values: list[float]) -> Iterator[str]:
    present = True
    for value in values:
        yield repr(value).replace("inf", "Inf") if not math.isnan(value) else "stale" if present else "_"
        present = not math.isnan(value)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
