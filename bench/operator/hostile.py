"""The cost of a namespace full of hostile apps for the apps of another one: the lag of their status.

    python bench/operator/hostile.py

A hundred good apps are there, each is changed in turn, and what is measured is the time from the change to the status
that says so; beside it how long the API server takes to give an app, as it is under attack too. Then the same while 200
generated apps (deep, wide, long, many, quadratic) are applied as fast as the API server takes them, and until nearly
all have a verdict. Must not judge.
"""

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench.operator.report import operator
from bench.operator.watched import used
from tests.api.admin import APPS, Admin, RefusedError
from tests.api.plane import Plane
from tests.operator.apps import tree
from tests.spec.hostile import hostile_apps

GOOD, HOSTILE = "good", "hostile"
_MOST = 0.95


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--good", type=int, default=100)
    parser.add_argument("--hostile", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with Plane() as plane, operator(plane, GOOD, HOSTILE) as process:
        admin = Admin(plane)
        names = [f"app-{number}" for number in range(arguments.good)]
        for name in names:
            app = tree(suspend=True)
            app["metadata"]["name"] = name
            admin.create(APPS.format(GOOD), app)
        for name in names:
            _known(admin, name)
        changes, rounds = itertools.count(1), itertools.cycle(names)

        def measured() -> tuple[float, float]:
            name = next(rounds)
            return _lag(admin, name, next(changes)), _given(admin, name)

        _row("quiet", [measured() for _ in names], process)
        attack = threading.Thread(target=_attack, args=(Admin(plane), arguments.hostile, arguments.seed))
        attack.start()
        attacked = []
        while attack.is_alive() or _waiting(admin):
            attacked += [measured() for _ in range(10)]
        _row("attacked", attacked, process)
        _row("afterwards", [measured() for _ in names], process)


def _attack(admin: Admin, count: int, seed: int) -> None:
    accepted = 0
    for app in hostile_apps(count, seed):
        try:
            admin.send("POST", APPS.format(HOSTILE), json.dumps(app))
            accepted += 1
        except RefusedError:
            continue
    print(f"{accepted} of {count} hostile apps were taken by the API server", flush=True)


def _waiting(admin: Admin) -> bool:
    rows = admin.table(APPS.format(HOSTILE))
    # Of a few the API server itself takes no status in its time.
    return sum(bool(row["Ready"]) for row in rows) < _MOST * len(rows)


def _lag(admin: Admin, name: str, change: int) -> float:
    """Seconds from a change of this app to the status that has seen it."""
    admin.patch(f"{APPS.format(GOOD)}/{name}", {"spec": {"restart": {"resetAfter": f"{change}s"}}})
    began = time.monotonic()
    _known(admin, name)
    return time.monotonic() - began


def _given(admin: Admin, name: str) -> float:
    """Seconds that the API server takes to give an app."""
    began = time.monotonic()
    admin.get(f"{APPS.format(GOOD)}/{name}")
    return time.monotonic() - began


def _known(admin: Admin, name: str) -> None:
    deadline = time.monotonic() + 120
    for app in _polled(admin, name):
        if (app.get("status") or {}).get("observedGeneration") == app["metadata"]["generation"]:
            return
        if time.monotonic() > deadline:
            message = f"{name}: nobody has looked at it for two minutes"
            raise TimeoutError(message)


def _polled(admin: Admin, name: str) -> Iterator[dict[str, Any]]:
    while True:
        yield admin.get(f"{APPS.format(GOOD)}/{name}")
        time.sleep(0.01)


def _row(what: str, times: list[tuple[float, float]], process: "subprocess.Popen[bytes]") -> None:
    lags, gets = ([one[at] for one in times] for at in (0, 1))
    alive = "" if process.poll() is None else "; the operator is gone"
    print(
        f"{what:>11}: {len(lags)} changes, status lag {_pair(lags)}, an app given by the API server in {_pair(gets)}; "
        f"operator {used(process.pid).peak >> 20} MiB at most{alive}",
        flush=True,
    )


def _pair(seconds: list[float]) -> str:
    cuts = statistics.quantiles(seconds, n=100)
    return f"p50 {cuts[49]:.3f} s, p99 {cuts[98]:.3f} s"


if __name__ == "__main__":
    main()
