"""An app whose every row shows what was lost, doubled or out of order, and the directory it leaves behind."""

import multiprocessing
import os
import signal
import traceback
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast_runtime.state.durable.copy import SnapshotPolicy
from holdfast_runtime.testing import Lab, TestDriver
from tests.waiting import patience

DEADLINE = patience(60.0)
CUSTOMERS = 5
ROWS = "customer STRING, n BIGINT"
FOUND = "customer STRING, n BIGINT, nth BIGINT, total BIGINT"
CODE = """
def total(customer, rows, state):
    for row in rows:
        state["nth"] = state.get("nth", 0) + 1
        state["total"] = state.get("total", 0) + row["n"]
        yield {"customer": customer, "n": row["n"], "nth": state["nth"], "total": state["total"]}
"""
APP: dict[str, Any] = {
    "apiVersion": "holdfast.dev/v1alpha1",
    "kind": "StreamApp",
    "metadata": {"name": "totals"},
    "spec": {
        "systems": [{"name": "shop", "log": {}}],
        "streams": [
            {"name": "orders", "system": "shop", "partitions": 2, "key": ["customer"], "schema": ROWS},
            {"name": "totals", "system": "shop", "partitions": 2, "key": ["customer"], "schema": FOUND},
        ],
        "steps": [
            {"name": "moved", "from": ["orders"], "repartition": {"by": ["customer"]}},
            {
                "name": "summed",
                "from": ["moved"],
                "process": {"function": "f:total", "by": ["customer"], "schema": FOUND},
            },
            {"name": "out", "from": ["summed"], "to": "totals"},
        ],
        "planning": {"intermediatePartitions": 3},
        "runtime": {"code": {"f": CODE}, "trigger": {"maxRecordsPerPartition": 5}},
    },
}
Sums = Mapping[str, list[tuple[int, int, int]]]


def opened(directory: Path, at: Callable[[str], None] = lambda _: None) -> TestDriver:
    policy = SnapshotPolicy(most_deltas=4, least_deltas=2, latest_deltas=0, bundled=0, most_bundles=2)
    return TestDriver(APP, directory, slots=2, lab=Lab(at=at, snapshots=policy))


def feed(driver: TestDriver, start: int, end: int) -> None:
    driver.feed("orders", [{"customer": f"customer-{n * 7 % CUSTOMERS}", "n": n} for n in range(start, end)])


def expected(end: int) -> Sums:
    sums_of: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for n in range(end):
        rows = sums_of[f"customer-{n * 7 % CUSTOMERS}"]
        rows.append((n, len(rows) + 1, n + (rows[-1][2] if rows else 0)))
    return sums_of


def sums(driver: TestDriver) -> Sums:
    """What stands in the output, by customer and in order."""
    sums_of: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for row in driver.rows("totals"):
        sums_of[row["customer"]].append((row["n"], row["nth"], row["total"]))
    return sums_of


@dataclass(frozen=True)
class Outcome:
    """What became of an app that went on from a directory."""

    kind: str
    """`right`, `refused`, or what must never be: `wrong`, `foreign`, `signal`, `stuck`."""
    message: str = ""

    @property
    def good(self) -> bool:
        return self.kind in {"right", "refused"}


def gone_on(directory: Path, start: int, end: int) -> Outcome:
    """Go on with more rows in a process of its own, through a restart; what it says, or how it died."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_go_on, args=(directory, start, end, sender))
    process.start()
    sender.close()
    outcome = Outcome("stuck")
    if receiver.poll(DEADLINE):
        try:
            outcome = receiver.recv()
        except EOFError:
            process.join()
            outcome = Outcome("signal", str(process.exitcode))
    else:
        process.kill()
    process.join()
    return outcome


def _go_on(directory: Path, start: int, end: int, connection: Connection) -> None:
    try:
        connection.send(_went_on(directory, start, end))
    except HoldfastError as error:
        connection.send(Outcome("refused", f"{type(error).__name__}: {error}"))
    except Exception:  # noqa: BLE001 - that is what is looked for
        connection.send(Outcome("foreign", traceback.format_exc()))
    # Not the end of a test process: nothing of what the parent has open is to be tidied up here.
    os._exit(0)


def _went_on(directory: Path, start: int, end: int) -> Outcome:
    middle, repaired = (start + end) // 2, []
    with opened(directory) as driver:
        for first, last in ((start, middle), (middle, end)):
            feed(driver, first, last)
            results = driver.run_until_idle()
            repaired += [task.restored for result in results for task in result.tasks if task.restored]
            actual = sums(driver)
            if actual != expected(last):
                return Outcome("wrong", f"{dict(actual)} in place of {dict(expected(last))}")
            driver.restart()
    return Outcome("right", "; ".join(repaired))


def made(directory: Path, start: int, end: int, step: str | None = None) -> None:
    """Process these rows; if a step is given, die there with the last ten of them."""
    process = multiprocessing.get_context("fork").Process(target=_make, args=(directory, start, end, step))
    process.start()
    process.join(timeout=DEADLINE)
    assert process.exitcode == (0 if step is None else -signal.SIGKILL)


def _make(directory: Path, start: int, end: int, step: str | None) -> None:
    armed = False

    def at(reached: str) -> None:
        if armed and reached == step:
            os.kill(os.getpid(), signal.SIGKILL)

    with opened(directory, at) as driver:
        for first in range(start, end, 10):
            armed = first + 10 >= end
            feed(driver, first, min(first + 10, end))
            driver.run_until_idle()
    os._exit(0)
