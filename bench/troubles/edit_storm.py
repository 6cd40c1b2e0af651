"""500 running apps, and 500 edits a second for a minute, or as many as the API server takes.

The operator has the rights of the chart. It may neither end nor grow, its probe must answer, and in the end it has seen
the newest generation of every app. Every edit changes how an app is restarted, which needs no new attempt, but every
hundredth asks for another image, which does. Must not wait for the operator between two edits.
"""

import asyncio
import itertools
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests

from bench.operator.player import NAMESPACE, Player
from bench.operator.watched import used
from bench.troubles.promises import Promise, figure
from bench.troubles.stage import health
from tests.api.admin import APPS, Admin, default_storage, install_crd
from tests.api.plane import Plane
from tests.chart.rendered import rendered
from tests.chart.rights import OPERATOR, grant
from tests.kafka.broker import free_ports

_ROOT = Path(__file__).parents[2]
_APPS, _PER_SECOND, _SECONDS = 500, 500, 60.0
_AT_ONCE = 32
_NEW_IMAGE_EVERY = 100
_WRITES_LEFT = 2
"""Of each app, after the last edit: a status for a look that was under way, and one for the next."""
_MOST_GROWTH = 128
"""MiB over what it held before the storm."""
_PROBE_IN = 5.0
"""Seconds: the timeout of the chart's readiness probe."""
_SETTLES, _WELL = 30.0, 200
_PATIENCE = 300.0


@dataclass(slots=True)
class _Storm:
    """What was asked of the API server, and what the operator did meanwhile."""

    process: "subprocess.Popen[bytes]"
    port: int
    accepted: int = 0
    refused: int = 0
    took: float = 0.0
    cpu: float = 0.0
    """Of the operator, in seconds, until the last edit."""
    calls: float = 0.0
    """Of the operator, until it has seen all edits."""
    seen_in: float = 0.0
    ready_in: float = 0.0
    """Seconds from the last edit."""
    resident: list[int] = field(default_factory=list)
    """MiB of the operator's process: before, at most, and after a while."""
    probes: list[tuple[int, float]] = field(default_factory=list)
    """Status and seconds."""
    over: bool = False


def trouble(_: Path) -> Iterator[Promise]:
    """Let it storm."""
    (port,) = free_ports(1)
    with Plane() as plane, _operator(plane, port) as process:
        storm = _Storm(process, port)
        asyncio.run(_rage(plane, storm))
        yield from _rows(storm)


async def _rage(plane: Plane, storm: _Storm) -> None:
    pid = storm.process.pid
    async with Player(plane) as player:
        await asyncio.gather(*(player.apply(f"app-{number}") for number in range(_APPS)))
        await player.until(_APPS, 900)
        await asyncio.sleep(_SETTLES)  # what the launches have left to do is done
        storm.resident.append(_resident(pid))
        cpu, calls = used(pid).cpu, _calls(storm.port)
        probing = asyncio.create_task(asyncio.to_thread(_probe, storm))
        began = time.monotonic()
        try:
            await _edit(player, storm)
            ended = time.monotonic()
            storm.took, storm.cpu = ended - began, used(pid).cpu - cpu
            await _all_seen(Admin(plane))
            storm.seen_in, storm.calls = time.monotonic() - ended, _calls(storm.port) - calls
            await player.until(_APPS, _PATIENCE)
            storm.ready_in = time.monotonic() - ended
        finally:
            storm.over = True
            await probing
        storm.resident.append(used(pid).peak >> 20)
        await asyncio.sleep(_SETTLES)
        storm.resident.append(_resident(pid))


def _rows(storm: _Storm) -> Iterator[Promise]:
    event = f"{_APPS} running apps, {_PER_SECOND} edits a second asked for"
    edits, rate = int(_PER_SECOND * _SECONDS), storm.accepted / storm.took
    yield figure(
        event, f"the API server took {storm.accepted} of {edits} edits, {rate:.0f} a second; {storm.refused} failed"
    )
    yield Promise(event, "the operator does not end", storm.process.poll() is None)
    delay = f"{storm.seen_in:.1f} s after the last edit"
    limit = _WRITES_LEFT * _APPS / rate
    text = f"each observedGeneration is the generation, in the time of two edits of each app, {limit:.0f} s"
    yield Promise(event, text, storm.seen_in <= limit, delay)
    yield figure(event, f"all apps are Ready {storm.ready_in:.1f} s after the last edit")
    before, peak, after = storm.resident
    words = f"{before} MiB before, {peak} at most, {after} later"
    yield Promise(event, f"its memory grows by less than {_MOST_GROWTH} MiB", peak - before < _MOST_GROWTH, words)
    yield _probes(event, storm)
    per_edit, cpu = storm.calls / storm.accepted, storm.cpu / storm.accepted * 1000
    yield figure(event, f"of the operator per edit: {per_edit:.2f} calls, {cpu:.1f} ms of CPU")


def _probes(event: str, storm: _Storm) -> Promise:
    waits, bad = [seconds for _, seconds in storm.probes], sum(status != _WELL for status, _ in storm.probes)
    cuts = statistics.quantiles(waits, n=100)
    p50, p99, most = (round(1000 * seconds) for seconds in (cuts[49], cuts[98], max(waits)))
    words = f"{len(waits)} probes: p50 {p50} ms, p99 {p99} ms, most {most} ms"
    return Promise(event, f"each probe is well, in {_PROBE_IN:g} s", not bad and max(waits) < _PROBE_IN, words)


async def _edit(player: Player, storm: _Storm) -> None:
    """Ask for so many edits a second, with a bound on those under way; what can't be asked for is left out."""
    deadline, numbers = time.monotonic() + _SECONDS, itertools.count(1)

    async def editor() -> None:
        while (now := time.monotonic()) < deadline:
            number = next(numbers)
            due = deadline - _SECONDS + number / _PER_SECOND
            await asyncio.sleep(max(0.0, due - now))
            await _one(player, storm, number)

    await asyncio.gather(*(editor() for _ in range(_AT_ONCE)))


async def _one(player: Player, storm: _Storm, number: int) -> None:
    spec: dict[str, Any] = {"restart": {"resetAfter": f"{number}s"}}
    if number % _NEW_IMAGE_EVERY == 0:
        spec["runtime"] = {"image": f"image:{number}"}
    try:
        await player.edit(f"app-{number % _APPS}", spec)
        storm.accepted += 1
    except RuntimeError:
        storm.refused += 1


async def _all_seen(admin: Admin) -> None:
    """Wait until the operator has seen every app as it is."""
    async with asyncio.timeout(_PATIENCE):
        while behind := [app["metadata"]["name"] for app in await asyncio.to_thread(_apps, admin) if not _seen(app)]:
            print(f"{len(behind)} apps were edited since they were last seen", file=sys.stderr)
            await asyncio.sleep(1.0)


def _apps(admin: Admin) -> list[dict[str, Any]]:
    return admin.items(APPS.format(NAMESPACE))


def _seen(app: dict[str, Any]) -> bool:
    return bool((app.get("status") or {}).get("observedGeneration") == app["metadata"]["generation"])


def _probe(storm: _Storm) -> None:
    while not storm.over:
        status, _, seconds = health(storm.port)
        storm.probes.append((status, seconds))
        time.sleep(0.1)


def _calls(port: int) -> float:
    """How many calls of the API server the operator has counted."""
    with requests.Session() as session:
        session.trust_env = False
        text = session.get(f"http://127.0.0.1:{port}/metrics", timeout=30).text
    lines = [line for line in text.splitlines() if line.startswith("holdfast_operator_api_calls_total{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def _resident(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    (kib,) = re.findall(r"VmRSS:\s+(\d+)", status)
    return int(kib) >> 10


@contextmanager
def _operator(plane: Plane, port: int) -> Iterator["subprocess.Popen[bytes]"]:
    admin = Admin(plane)
    install_crd(admin)
    default_storage(admin)
    admin.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    values = ("fullnameOverride=operator", "nodes.watch=false", "apps.networkPolicy.enabled=false")
    plane.kubeconfig(OPERATOR)
    grant(admin, rendered(*values, f"watchNamespaces={{{NAMESPACE}}}", namespace=NAMESPACE), "operator", OPERATOR)
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig(OPERATOR)), "PYTHONPATH": str(_ROOT)}
    command = [sys.executable, "-m", "bench.troubles.crowded_operator", NAMESPACE, f"{NAMESPACE}/operator", str(port)]
    with (plane.directory / "operator.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, cwd=_ROOT, stdout=log, stderr=log)  # noqa: S603 - ours
    try:
        yield process
    finally:
        process.kill()
        process.wait()
