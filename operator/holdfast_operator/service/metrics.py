"""Why: what an operator says of itself to Prometheus: how late it is, what it does, what it is refused.

Counted where it happens, through the methods below; what apps are is counted when somebody asks. Must not decide.
"""

from collections import Counter as Counts
from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from holdfast_operator.observe.cache import WatchCache

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """All of them, in a registry of their own."""

    def __init__(self) -> None:
        self._all = CollectorRegistry()
        self._look = self._histogram("look_seconds", "How long a look at one app took.")
        self._lag = self._histogram("lag_seconds", "From the news of a change to the end of the look that took it up.")
        self._launches = self._counter("launches", "Attempts whose driver was made.")
        self._refusals = self._counter("refusals", "Looks that found that an app may not start, by reason.", "reason")
        self._failures = self._counter("failed_looks", "Looks that failed and are repeated, by error.", "error")
        self._moved = self._counter("moved_tasks", "Tasks that were given to an executor at another location.")
        self._calls = self._counter("api_calls", "Calls of the API server.", "verb", "kind", "code")

    def watch(self, cache: WatchCache) -> None:
        """Count apps and their tasks too."""
        self._all.register(_Apps(cache))

    def looked(self, seconds: float, lag: float | None) -> None:
        """A look is over; `lag`: since something had changed."""
        self._look.observe(seconds)
        if lag is not None:
            self._lag.observe(lag)

    def failed(self, error: Exception) -> None:
        """A look failed."""
        self._failures.labels(type(error).__name__).inc()

    def launched(self) -> None:
        """A driver was made."""
        self._launches.inc()

    def refused(self, reason: str) -> None:
        """An app may not start."""
        self._refusals.labels(reason).inc()

    def moved(self, tasks: int) -> None:
        """An assignment was handed over."""
        self._moved.inc(tasks)

    def called(self, verb: str, kind: str, code: int) -> None:
        """The API server answered; 0: it did not."""
        self._calls.labels(verb, kind, str(code)).inc()

    def text(self) -> bytes:
        """As Prometheus reads it."""
        return generate_latest(self._all)

    def _histogram(self, name: str, what: str) -> Histogram:
        return Histogram(f"holdfast_operator_{name}", what, registry=self._all, buckets=_SECONDS)

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        return Counter(f"holdfast_operator_{name}", what, labels, registry=self._all)


@dataclass(frozen=True, eq=False, slots=True)
class _Apps(Collector):
    """What can be counted in the cache."""

    cache: WatchCache

    def collect(self) -> Iterator[Metric]:
        """Apps by what is said of their Ready, and tasks by where they run."""
        said = Counts(self.cache.readiness())
        apps = GaugeMetricFamily("holdfast_apps", "Apps, by their condition Ready.", labels=("ready", "reason"))
        for (status, reason), number in said.items():
            apps.add_metric((status, reason), number)
        yield apps
        reports = list(self.cache.reports.values())
        yield GaugeMetricFamily("holdfast_tasks", "Tasks of all apps.", sum(one.tasks for one in reports))
        where = "Tasks that run where their state is: by holdfast_tasks, the locality ratio."
        yield GaugeMetricFamily("holdfast_tasks_placed", where, sum(one.placed for one in reports))
