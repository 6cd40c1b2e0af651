"""Stores of tasks and runs that an app has left are removed, and whoever comes back finds all that it had."""

from collections import Counter
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from holdfast.errors import UserActionError
from holdfast_runtime.state.shared.shared_table import TABLES
from holdfast_runtime.testing import Crashed, TestDriver

COUNT = (
    "def count(key, rows, state):\n"
    "    state['n'] = state.get('n', 0) + len(list(rows))\n"
    "    yield {'who': key, 'n': state['n']}\n"
)


def app(run: str = "1", *, orders: bool = True, back: bool = False) -> dict[str, Any]:
    """Counts clicks and, if asked to, orders of each user: two tasks, or four. `back`: what counts orders is back."""
    inputs = ["clicks", *(["orders"] if orders else [])]
    schema = {"schema": "who STRING", "key": ["who"], "system": "log"}
    counts = {"function": "f:count", "by": ["who"], "schema": "who STRING, n INT"}
    was = {"orders": {"was": "count-orders"}} if back else {}
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "shop"},
        "spec": {
            "runId": run,
            "systems": [{"name": "log", "log": {}}],
            "streams": [
                {"name": "clicks", "partitions": 2, **schema},
                *([{"name": "orders", "partitions": 4, **schema}] if orders else []),
                *({"name": f"{name}-counted", "system": "log", "key": ["who"], "partitions": 1} for name in inputs),
            ],
            "steps": [
                step
                for name in inputs
                for step in (
                    {"name": f"count-{name}", "from": [name], "process": counts, **was.get(name, {})},
                    {"name": f"out-{name}", "from": [f"count-{name}"], "to": f"{name}-counted"},
                )
            ],
            "runtime": {"code": {"f": COUNT}},
        },
    }


USERS = tuple(f"user-{number}" for number in range(12))


def fed(driver: TestDriver, *streams: str) -> None:
    for stream in streams:
        driver.feed(stream, [{"who": user} for user in USERS])
    driver.run_until_idle()


def counted(driver: TestDriver, stream: str) -> dict[str, int]:
    """The last count of each user."""
    return {row["who"]: row["n"] for row in driver.rows(f"{stream}-counted")}


def stores(data: Path) -> dict[str, Counter[str]]:
    """Run -> what lies in its folder of local stores, each name with its lock file."""
    runs = data / "apps" / "shop" / "runs"
    return {
        run.name: Counter(path.name.removesuffix(".lock") for path in (run / "state").iterdir() if path.name != TABLES)
        for run in sorted(runs.iterdir())
    }


def of(*tasks: int) -> Counter[str]:
    return Counter({f"partition-{number}": 2 for number in tasks})


def test_restarts_with_other_tasks_leave_no_store_behind(tmp_path: Path) -> None:
    with TestDriver(app(), tmp_path, slots=2) as driver:
        fed(driver, "clicks", "orders")
        assert stores(tmp_path) == {"1": of(0, 1, 2, 3)}
        driver.restart(app(orders=False))
        assert stores(tmp_path) == {"1": of(0, 1, 2, 3)}, "nothing goes before the attempt has committed"
        fed(driver, "clicks")
        assert stores(tmp_path) == {"1": of(0, 1)}
        driver.restart(app(back=True))
        fed(driver, "clicks", "orders")
        assert stores(tmp_path) == {"1": of(0, 1, 2, 3)}
        assert counted(driver, "clicks") == dict.fromkeys(USERS, 3)
        assert counted(driver, "orders") == dict.fromkeys(USERS, 2), "the tasks that came back have lost what they had"
    with TestDriver(app("2", orders=False), tmp_path) as driver:
        driver.run_until_idle()
        assert stores(tmp_path) == {"1": of(), "2": of(0, 1)}
        assert counted(driver, "clicks") == dict.fromkeys(USERS, 3)


def test_an_app_back_at_its_old_run_has_its_state(tmp_path: Path) -> None:
    with TestDriver(app(), tmp_path) as driver:
        fed(driver, "clicks", "orders")
    with TestDriver(app("2"), tmp_path) as driver:
        fed(driver, "clicks")
    assert stores(tmp_path) == {"1": of(), "2": of(0, 1, 2, 3)}
    with TestDriver(app("1"), tmp_path) as driver:
        assert driver.attempt == 2
        fed(driver, "clicks", "orders")
        assert counted(driver, "clicks") == dict.fromkeys(USERS, 3)
        assert counted(driver, "orders") == dict.fromkeys(USERS, 2)
    assert stores(tmp_path) == {"1": of(0, 1, 2, 3), "2": of()}


def test_an_app_back_at_a_removed_run_is_refused(tmp_path: Path) -> None:
    with TestDriver(app(), tmp_path) as driver:
        fed(driver, "clicks", "orders")
    rmtree(tmp_path / "apps" / "shop" / "runs" / "1")
    with pytest.raises(UserActionError, match="its checkpoint is gone"), TestDriver(app(), tmp_path):
        pass


def test_an_attempt_that_commits_nothing_leaves_all_stores(tmp_path: Path) -> None:
    with TestDriver(app(), tmp_path) as driver:
        fed(driver, "clicks", "orders")
        driver.restart(app(orders=False))
        driver.feed("clicks", [{"who": user} for user in USERS])
        driver.crash_at("delta written")
        with pytest.raises(Crashed):
            driver.run()
        assert stores(tmp_path) == {"1": of(0, 1, 2, 3)}
