"""Why: an operator that hangs looks alive; this is how a probe finds out, and how Prometheus gets its figures.

Served by the event loop itself, so a loop that is stuck does not answer. Beyond that: looks that are long overdue, and
a watch that does not tell of what we wrote ourselves. A standby is healthy. Must not cure anything: the kubelet starts
the operator anew.
"""

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from holdfast_operator.observe.cache import WatchCache
from holdfast_operator.service.look_queue import LookQueue
from holdfast_operator.service.metrics import Metrics

LONGEST_OVERDUE = 120.0
LONGEST_SILENCE = 180.0
"""Seconds a watch may take to tell of our own writes: longer than kopf takes to notice that one is dead."""
HealthCheck = Callable[[], str | None]


@dataclass(slots=True)
class Health:
    """What is asked by a probe."""

    checks: list[HealthCheck] = field(default_factory=list)
    """Each says what is wrong, if something is."""

    def problems(self) -> list[str]:
        """What is wrong; nothing: all is well."""
        return [said for check in self.checks if (said := check()) is not None]


def late_looks(looks: LookQueue, now: float) -> str | None:
    """What is wrong if looks are not done in time."""
    late = looks.overdue(now)
    return f"a look is {late:.0f} s late" if late > LONGEST_OVERDUE else None


def silent_watch(cache: WatchCache, now: float) -> str | None:
    """What is wrong if a watch does not tell what we know to be so."""
    since = cache.unheard()
    silent = since is not None and now - since > LONGEST_SILENCE
    return "the watch of apps does not tell of what was written: it is dead" if silent else None


@asynccontextmanager
async def health_server(ports: Collection[int], health: Health, metrics: Metrics) -> AsyncIterator[None]:
    """Answer /healthz and /metrics on these ports."""

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
