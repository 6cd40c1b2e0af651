"""The operator's health probe and Prometheus metrics, served as /healthz and /metrics.

An operator that hangs may look alive. The event loop itself answers the probe, so a blocked loop fails it. The probe
also fails if looks are long overdue, or if a watch gives no sign of life. A standby is healthy. Events are counted when
they happen; apps are counted when metrics are scraped. Must not repair anything: an operator with a silent watch ends,
and the kubelet starts it again.
"""

import asyncio
from collections import Counter as Counts
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from holdfast.errors import RetrySoonError, code_of
from holdfast.protocol.metrics import METRICS
from holdfast_operator.cluster import ApiKind
from holdfast_operator.observe.cache import WatchCache
from holdfast_operator.service.look_queue import LookQueue

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """All metrics, in their own registry."""

    def __init__(self) -> None:
        self._all = CollectorRegistry()
        self._look = self._histogram("holdfast_operator_look_seconds")
        self._lag = self._histogram("holdfast_operator_lag_seconds")
        self._launches = self._counter("holdfast_operator_launches")
        self._refusals = self._counter("holdfast_operator_refusals")
        self._failures = self._counter("holdfast_operator_failed_looks")
        self._moved = self._counter("holdfast_operator_moved_tasks")
        self._calls = self._counter("holdfast_operator_api_calls")
        leading = "holdfast_operator_leading"
        self._leading = Gauge(leading, *self._labels(leading), registry=self._all)

    def leads(self, left: Callable[[], float]) -> None:
        """Show that this replica looks after apps, for as long as its lease has seconds left."""
        self._leading.set_function(lambda: left() > 0)

    def watch(self, cache: WatchCache, left_alone: Callable[[], int]) -> None:
        """Also export figures of the apps in the cache; `left_alone` counts namespaces of other releases."""
        self._all.register(_Apps(cache, left_alone))

    def looked(self, seconds: float, lag: float | None) -> None:
        """Record a look; `lag`: seconds since the change that caused it."""
        self._look.observe(seconds)
        if lag is not None:
            self._lag.observe(lag)

    def failed(self, error: Exception) -> None:
        """Count a failed look."""
        self._failures.labels(code_of(error)).inc()

    def launched(self) -> None:
        """Count a started driver."""
        self._launches.inc()

    def refused(self, reason: str) -> None:
        """Count a look that found that an app may not start."""
        self._refusals.labels(reason).inc()

    def moved(self, tasks: int) -> None:
        """Count the moved tasks of an assignment."""
        self._moved.inc(tasks)

    def called(self, verb: str, kind: str, code: int) -> None:
        """Count a call of the API server; code 0: no answer."""
        self._calls.labels(verb, kind, str(code)).inc()

    def text(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return generate_latest(self._all)

    @staticmethod
    def _labels(name: str) -> tuple[str, tuple[str, ...]]:
        return METRICS[name].help, METRICS[name].labels

    def _histogram(self, name: str) -> Histogram:
        return Histogram(name, *self._labels(name), registry=self._all, buckets=_SECONDS)

    def _counter(self, name: str) -> Counter:
        return Counter(name, *self._labels(name), registry=self._all)


@dataclass(frozen=True, eq=False, slots=True)
class _Apps(Collector):
    """Figures of apps and tasks, computed from the cache."""

    cache: WatchCache
    left_alone: Callable[[], int]

    def collect(self) -> Iterator[Metric]:
        """Yield apps by their condition Ready, tasks by whether they run where their state is, and each app's figures.

        Only what an app says of itself has a series: one without promises has none of them.
        """
        figures = [((key.namespace, key.name), app) for key, app in self.cache.figures()]
        counts = Counts((app.ready, app.reason) for _, app in figures)
        yield _gauge("holdfast_apps", counts.items())
        yield _gauge("holdfast_operator_namespaces_of_others", [((), self.left_alone())])
        reports = list(self.cache.reports.values())
        yield _gauge("holdfast_tasks", [((), sum(report.tasks for report in reports))])
        yield _gauge("holdfast_tasks_placed", [((), sum(report.placed for report in reports))])
        yield _gauge("holdfast_app_ready", [((*key, app.reason), app.ready == "True") for key, app in figures])
        restarts = METRICS["holdfast_app_restarts"]
        counter = CounterMetricFamily(restarts.name, restarts.help, labels=restarts.labels)
        for key, app in figures:
            counter.add_metric(key, app.restarts)
        yield counter
        yield _gauge("holdfast_app_max_lag_seconds", [(key, app.max_lag) for key, app in figures])
        yield _gauge("holdfast_app_max_dead_letters", [(key, app.max_dead_letters) for key, app in figures])


def _gauge(name: str, values: Iterable[tuple[Sequence[str], float | None]]) -> GaugeMetricFamily:
    """Return a gauge with these values by their labels; None: no value."""
    gauge = GaugeMetricFamily(name, METRICS[name].help, labels=METRICS[name].labels)
    for labels, value in values:
        if value is not None:
            gauge.add_metric(labels, value)
    return gauge


LONGEST_OVERDUE = 120.0
LONGEST_SILENCE = 120.0
"""Seconds in which every watch has to give a sign of life. The API server sends a bookmark each minute, and kopf begins
a watch anew that has been silent for a little longer."""
_EVERY = 5.0
WatchScope = tuple[ApiKind, str | None]
"""A kind, and the namespace in which it is watched; None: all."""


class WatchSilentError(RetrySoonError):
    """A watch gives no sign of life."""


@dataclass(slots=True)
class WatchSigns:
    """When each watch last gave a sign of life."""

    clock: Callable[[], float]
    _last: dict[WatchScope, float] = field(default_factory=dict)

    def expect(self, scopes: Iterable[WatchScope]) -> None:
        """Expect signs of these watches from now on."""
        self._last = dict.fromkeys(scopes, self.clock())

    def heard(self, kind: ApiKind, namespace: str | None) -> None:
        """Record a sign of life."""
        self._last[kind, namespace] = self.clock()

    async def run(self) -> None:
        """Wait until a watch is silent, then raise: only a new process watches again."""
        while (silent := silent_watches(self)) is None:
            await asyncio.sleep(_EVERY)
        raise WatchSilentError(silent)

    def silent(self) -> list[str]:
        """Return, in words, the watches that have been silent for too long."""
        silences = {scope: self.clock() - last for scope, last in self._last.items()}
        return [
            f"the watch of {kind.plural}{f' in {namespace}' if namespace else ''} has been silent for {silence:.0f} s"
            for (kind, namespace), silence in silences.items()
            if silence > LONGEST_SILENCE
        ]


HealthCheck = Callable[[], str | None]


@dataclass(slots=True)
class Health:
    """The checks of the health probe."""

    checks: list[HealthCheck] = field(default_factory=list)
    """Each returns what is wrong, or None."""

    def problems(self) -> list[str]:
        """Return what is wrong; empty: healthy."""
        return [said for check in self.checks if (said := check()) is not None]


def late_looks(looks: LookQueue, now: float) -> str | None:
    """Return a problem if looks are overdue."""
    late = looks.overdue(now)
    return f"a look is {late:.0f} s late" if late > LONGEST_OVERDUE else None


def silent_watches(signs: WatchSigns) -> str | None:
    """Return a problem if a watch is silent: it tells of nothing any more."""
    return "; ".join(signs.silent()) or None


@asynccontextmanager
async def health_server(ports: Collection[int], health: Health, metrics: Metrics) -> AsyncIterator[None]:
    """Serve /healthz and /metrics on these ports."""

    async def healthz(_: web.Request) -> web.Response:
        wrong = health.problems()
        return web.Response(text="\n".join(wrong) or "ok", status=503 if wrong else 200)

    async def figures(_: web.Request) -> web.Response:
        return web.Response(body=metrics.text(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/metrics", figures)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        for port in ports:
            await web.TCPSite(runner, port=port).start()
        yield
    finally:
        await runner.cleanup()
