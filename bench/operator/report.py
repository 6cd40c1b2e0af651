"""The figures of the operator: launches, lag, memory and idle CPU, and how they grow with the number of apps.

    python bench/operator                  all of it
    python bench/operator --apps 500       one size

The operator is one process with one thread that works; API server, etcd and the player of kubelets share the other
core. Must not judge.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.operator.player import NAMESPACE, Player
from bench.operator.watched import used
from tests.api.admin import Admin, default_storage, install_crd
from tests.api.plane import Plane

_ROOT = Path(__file__).parents[2]
_LAUNCHES = 100
"""More apps, applied one every 0.6 s while the others are there."""
_IDLE = 90.0
_LAGS = 100


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", type=int, nargs="+", default=[500, 2000, 5000])
    parser.add_argument("--idle", type=float, default=_IDLE, metavar="SECONDS")
    arguments = parser.parse_args()
    print(f"{'apps':>6} {'launches/min':>12} {'CPU ms/app':>10} {'pod p50':>8} {'p99':>7} {'peak MiB':>8}", end="")
    print(f" {'status lag p50':>14} {'p99':>7} {'idle CPU':>9}")
    for apps in arguments.apps:
        with Plane() as plane, operator(plane, NAMESPACE) as process:
            asyncio.run(measure(plane, process.pid, apps, arguments.idle))


@contextmanager
def operator(plane: Plane, *namespaces: str) -> Iterator["subprocess.Popen[bytes]"]:
    """An operator in a process of its own, and the namespaces it watches."""
    admin = Admin(plane)
    install_crd(admin)
    default_storage(admin)
    for name in namespaces:
        admin.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig()), "PYTHONPATH": str(_ROOT)}
    with (plane.directory / "operator.log").open("wb") as log:
        command = [sys.executable, "-m", "bench.operator.child", *namespaces]
        process = subprocess.Popen(command, env=environment, cwd=_ROOT, stdout=log, stderr=log)  # noqa: S603 - ours
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def measure(plane: Plane, pid: int, apps: int, idle: float) -> None:
    """One row of the table."""
    async with Player(plane) as player:
        await player.apply("first")  # what an operator does once, while it starts, is nobody's launch
        await player.until(1, 120)
        before, began = used(pid), time.monotonic()
        await asyncio.gather(*(player.apply(f"app-{number}") for number in range(apps)))
        await player.until(1 + apps, 1800)
        took, cpu = time.monotonic() - began, used(pid).cpu - before.cpu
        waits = [life.pod - life.applied for name, life in player.lives.items() if name != "first"]
        row = f"{apps:>6} {apps / took * 60:>12.0f} {cpu / apps * 1000:>10.1f} {_pair(waits)}"
        print(row, flush=True, end="")
        lags = await _lags(player, apps)
        quiet = await _idle(pid, idle)
        print(f" {used(pid).peak >> 20:>8} {_pair(lags):>22} {quiet:>8.1%}", flush=True)


async def _lags(player: Player, apps: int) -> list[float]:
    """From a cause to the status that says so, while 100 apps are launched per minute."""
    names = [f"app-{number}" for number in range(0, apps, max(1, apps // _LAGS))][:_LAGS]
    for number, name in enumerate(names):
        began = time.monotonic()
        await asyncio.gather(player.apply(f"more-{number}"), player.end(name))
        await asyncio.sleep(max(0.0, 0.6 - (time.monotonic() - began)))
    await player.until_known(names, 300)
    lags = [player.lives[name].known - player.lives[name].caused for name in names]
    await player.until(1 + apps + len(names), 600)
    return lags


async def _idle(pid: int, seconds: float) -> float:
    await asyncio.sleep(min(seconds, 30.0))
    before = used(pid)
    await asyncio.sleep(seconds)
    return (used(pid).cpu - before.cpu) / seconds


def _pair(values: Sequence[float]) -> str:
    cuts = statistics.quantiles(values, n=100)
    return f"{cuts[49]:>7.2f}s {cuts[98]:>6.2f}s"
