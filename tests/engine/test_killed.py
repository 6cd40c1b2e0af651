"""Processes are killed by SIGKILL at every named step of a batch and at random moments, and the next one goes on.

Each time, in the end: every row has had its effect once, in order, and state and offsets are what a run that nobody
disturbed has. `HOLDFAST_SEED` draws other kills, `HOLDFAST_KILLS` more of them; `make soak` does both.
"""

import os
import random
import secrets
import shutil
import signal
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import pytest

from holdfast.control.messages import WatermarkMessage
from holdfast_runtime.state.commit import COMMIT_STEPS
from holdfast_runtime.state.durable.restore import RESTORE_STEPS
from holdfast_runtime.state.shared.shared_table import SHARED_STEPS
from holdfast_runtime.testing import ALL_STEPS, TestDriver
from tests.engine import child
from tests.forked import FORKS
from tests.waiting import patience

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
KILLS = int(os.environ.get("HOLDFAST_KILLS", "3000" if SOAK else "120"))
SEED = int(os.environ.get("HOLDFAST_SEED", str(secrets.randbits(32)) if SOAK else "20260901"))
ROWS = 60
AT_ONCE = 2
DEADLINE = patience(60.0)
FEW_BATCHES = 6
"""Before so many there is little to restore, and nothing to collect."""
MORE_OFTEN = ("partition written", "computed", "delta written", "outputs committed", "state committed")
ANY_MOMENT = "any moment"

# Starting a process asks all others how they are, and an answer is given once: to whoever reads it first.
ONE_AT_A_TIME = threading.Lock()


@dataclass
class Kills:
    """What is still to be tried, for all threads."""

    draw: random.Random
    left: int
    done: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)
    queue: list[child.Fate | None] = field(default_factory=list)

    @property
    def over(self) -> bool:
        """Whether there were enough of them, of every kind."""
        return self.left <= 0 and {*ALL_STEPS, ANY_MOMENT} <= set(self.done)

    def next(self, batches: int) -> child.Fate | None:
        """A step to die at; None: at a random moment."""
        with self.lock:
            if not self.queue:
                steps = [*ALL_STEPS, *MORE_OFTEN]
                fates = [child.Fate(step, self.draw.choice((1, 1, 2, 3, 5))) for step in steps]
                self.queue = [*fates, *([None] * len(ALL_STEPS))]
                self.draw.shuffle(self.queue)
            for at, fate in enumerate(self.queue):
                if batches >= FEW_BATCHES or fate is None or fate.step in (*COMMIT_STEPS, *SHARED_STEPS):
                    return self.queue.pop(at)
            # A random moment may come before anything is done, on a busy machine each time.
            return child.Fate(self.draw.choice(MORE_OFTEN), 5)

    def note(self, fate: child.Fate | None, *, killed: bool) -> None:
        with self.lock:
            if killed:
                self.left -= 1
                self.done[fate.step if fate is not None and fate.step is not None else ANY_MOMENT] += 1
            elif fate is not None and fate.step is not None:
                self.queue.append(child.Fate(fate.step))


def batches_done(directory: Path) -> int:
    done = directory / "apps/stamped-totals/runs/1/checkpoint/query/test-commits"
    return max((int(path.name) for path in done.iterdir()), default=0) if done.exists() else 0


def lived(directory: Path, fate: child.Fate | None, delay: float) -> bool:
    """Whether a process came to the end of the app. Without a fate it is killed after so many seconds."""
    receiver, sender = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=child.run, args=(directory, fate or child.Fate(), sender))
    with ONE_AT_A_TIME:
        process.start()
    sender.close()
    try:
        if fate is None and receiver.poll(DEADLINE):
            wait([process.sentinel], delay)
            process.kill()
        wait([process.sentinel], DEADLINE)
    finally:
        receiver.close()
        process.kill()
        with ONE_AT_A_TIME:
            process.join()
    assert process.exitcode in (0, -signal.SIGKILL), f"a process ended with {process.exitcode}; its trace is above"
    return process.exitcode == 0


def story(root: Path, seed: int, kills: Kills) -> None:
    """Apps, each killed again and again until it completes."""
    draw = random.Random(seed)  # noqa: S311
    for number in range(1000):
        if kills.over:
            return
        directory, rows = root / str(number), child.rows_of(draw.randrange(1 << 30), ROWS)
        with child.opened(directory) as driver:
            child.feed(driver, rows)
        ended = False
        while not ended:
            fate = child.Fate() if kills.over else kills.next(batches_done(directory))
            if (fate is not None and fate.step in RESTORE_STEPS) or draw.random() < 0.1:
                shutil.rmtree(directory / "apps/stamped-totals/runs/1/state", ignore_errors=True)
            ended = lived(directory, fate, draw.random() * 0.5)
            kills.note(fate, killed=not ended)
        with child.opened(directory) as driver:
            check(driver, rows)
        shutil.rmtree(directory)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestDriver]:
    directory = tmp_path_factory.mktemp("undisturbed")
    with child.opened(directory) as driver:
        child.feed(driver, child.rows_of(1, ROWS))
        child.complete(driver)
        yield driver


def test_a_run_that_nobody_disturbs_does_what_the_checks_ask(undisturbed: TestDriver) -> None:
    check(undisturbed, child.rows_of(1, ROWS))


@pytest.mark.long
def test_kills_at_any_moment_lose_and_double_nothing(tmp_path: Path) -> None:
    kills = Kills(random.Random(SEED), KILLS)  # noqa: S311
    with ThreadPoolExecutor(AT_ONCE) as threads:
        stories = [threads.submit(story, tmp_path / str(at), SEED + at, kills) for at in range(AT_ONCE)]
        for outcome in stories:
            outcome.result()
    print(f"seed {SEED}: {kills.done.total()} kills: {dict(kills.done)}")  # noqa: T201 - shown when it fails
    assert kills.done.total() >= KILLS
    assert set(kills.done) == {*ALL_STEPS, ANY_MOMENT}


def check(driver: TestDriver, rows: list[dict[str, Any]]) -> None:
    """Everything that must be true of a completed app."""
    stamps = {row["n"]: row["stamp"] for row in driver.rows("stamps")}
    moved, totals = driver.rows("moved"), driver.rows("totals")
    row_totals = [row for row in totals if row["kind"] == "row"]
    for output in (driver.rows("stamps"), moved, row_totals):
        assert sorted(row["n"] for row in output) == [row["n"] for row in rows], "each row once"
        assert {row["n"]: row["stamp"] for row in output} == stamps, "each row with the stamp it got first"
    check_totals(driver, rows, row_totals)
    check_timers(rows, totals)
    check_windows(driver, rows)
    described = sorted((row["n"], row["note"], row["name"]) for row in driver.rows("described"))
    assert described == child.described(rows)
    check_control(driver)
    check_state(driver, rows)


def check_totals(driver: TestDriver, rows: list[dict[str, Any]], row_totals: list[dict[str, Any]]) -> None:
    amounts = {row["n"]: row["amount"] for row in rows}
    came_from = {row["n"]: at for at, row in origins(driver)}
    by_customer: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in row_totals:
        by_customer[row["customer"]].append(row)
    for customer, its in by_customer.items():
        assert [row["count"] for row in its] == list(range(1, len(its) + 1))
        running = 0
        for row in its:
            running += amounts[row["n"]]
            assert row["total"] == running
        for partition in set(came_from.values()):
            order = [row["n"] for row in its if came_from[row["n"]] == partition]
            assert order == sorted(order), f"rows of orders/{partition} for {customer} keep their order"
        state = driver.state("summed", customer)
        assert state is not None
        assert (state["count"], state["total"], state["windows"]) == (len(its), running, {})


def check_timers(rows: list[dict[str, Any]], totals: list[dict[str, Any]]) -> None:
    windows: Counter[tuple[str, int]] = Counter()
    for row in rows:
        windows[row["customer"], int(row["ts"].timestamp()) // child.WINDOW] += row["amount"]
    # A watermark that overtook its rows would close a window too early, and there would be a second one.
    window_totals = [((row["customer"], row["n"]), row["total"]) for row in totals if row["kind"] == "window"]
    assert sorted(window_totals) == sorted(windows.items())
    bells = sorted(row["customer"] for row in totals if row["kind"] == "bell")
    assert bells == sorted({row["customer"] for row in rows})


def check_windows(driver: TestDriver, rows: list[dict[str, Any]]) -> None:
    """Windows and sessions once and whole, and each row once through the steps that drop what comes twice, and join."""
    windows: Counter[tuple[str, int]] = Counter()
    sessions: dict[str, list[list[dict[str, Any]]]] = defaultdict(list)
    for row in rows:  # they ascend in time
        windows[row["customer"], int(row["ts"].timestamp()) // child.WINDOW * child.WINDOW] += row["amount"]
        its = sessions[row["customer"]]
        if its and (row["ts"] - its[-1][-1]["ts"]).total_seconds() < child.GAP:
            its[-1].append(row)
        else:
            its.append([row])
    amounts = [
        ((row["customer"], int(row["window_start"].timestamp())), row["amount"]) for row in driver.rows("windows")
    ]
    assert sorted(amounts) == sorted(windows.items())
    expected = [
        (name, session[0]["ts"], len(session), sum(row["amount"] for row in session))
        for name in sessions
        for session in sessions[name]
    ]
    came = [(row["customer"], row["window_start"], row["n"], row["amount"]) for row in driver.rows("sessions")]
    assert sorted(came) == sorted(expected)
    assert sorted(row["n"] for row in driver.rows("singles")) == [row["n"] for row in rows]
    closed = [
        windows[row["customer"], second // child.WINDOW * child.WINDOW]
        if (second := int(row["ts"].timestamp())) % child.WINDOW >= child.WINDOW - child.CLOSING
        else None
        for row in rows
    ]
    assert sorted((row["n"], row["amount"]) for row in driver.rows("closings")) == [
        (row["n"], amount) for row, amount in zip(rows, closed, strict=True)
    ]


def check_control(driver: TestDriver) -> None:
    """What a producer says once stands there once, and no row of its own that it has promised not to come follows."""
    task_of = {row["n"]: f"partition-{at}" for at, row in origins(driver)}
    times = {row["n"]: int(row["ts"].timestamp() * 1000) for _, row in origins(driver)}
    stamps = {row["stamp"]: row["n"] for row in driver.rows("stamps")}
    records = driver.control("moved")
    assert len({(one.partition, one.message.task, one.message.at) for one in records}) == len(records)
    messages = {(one.partition, one.offset): one.message for one in records}
    promised: dict[tuple[int, str | None], int] = {}
    positions: dict[tuple[int, str | None], Any] = {}
    rows = iter(driver.rows("moved"))
    for record in driver.records("moved"):
        message = messages.get((record.partition, record.offset))
        if message is None:
            n = stamps[next(rows)["stamp"]]
            assert times[n] >= promised.get((record.partition, task_of[n]), 0)
            continue
        who = record.partition, message.task
        assert message.at > positions.get(who, (-1, -1))
        positions[who] = message.at
        if isinstance(message, WatermarkMessage):
            assert message.timestamp >= promised.get(who, 0)
            promised[who] = message.timestamp
        else:
            promised[who] = 1 << 62


def check_state(driver: TestDriver, rows: list[dict[str, Any]]) -> None:
    """Offsets are at the ends, and the durable copy alone gives the same as the local stores."""
    ends = Counter(
        f"{name}/{record.partition}"
        for name in ("orders", "notes", "moved", "carried")
        for record in driver.records(name)
    )
    task_tables = {task: driver.tables(task) for task in driver.tasks}
    offsets = {key.decode(): int(at) for tables in task_tables.values() for key, at in tables[".offsets"].items()}
    assert offsets == dict(ends)
    assert ends["orders/0"] + ends["orders/1"] == len(rows)
    driver.lose_local_state()
    assert {task: driver.tables(task) for task in driver.tasks} == task_tables


def origins(driver: TestDriver) -> list[tuple[int, dict[str, Any]]]:
    """The rows fed, each with its partition."""
    return [
        (record.partition, row) for record, row in zip(driver.records("orders"), driver.rows("orders"), strict=True)
    ]
