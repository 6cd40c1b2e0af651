"""Pods that die under load: every row once, in order, and tasks back on their disks without a restore."""

import pytest

from tests.kind.apps import JAVA, PYTHON, App
from tests.kind.fed import Fed
from tests.kind.installed import Installed


@pytest.fixture
def windows() -> bool:
    return True


@pytest.fixture
def changelog() -> bool:
    return True


def test_whatever_dies_output_is_exactly_once_and_tasks_return(installed: Installed, running: tuple[App, Fed]) -> None:
    app, fed = running
    before = app.nodes()

    app.kill_driver()
    print(f"driver killed -> a new row committed: {fed.flows():.1f} s")  # noqa: T201 - figures for `-s`
    assert app.restored_without_need() == []

    killed = min(app.executors())
    its = {task for task, location in app.where().items() if location.endswith(killed)}
    app.kill(killed)
    print(f"executor killed -> a new row committed: {fed.flows():.1f} s")  # noqa: T201
    assert set(app.restored_without_need()) <= its, (
        "the batch at hand is finished elsewhere, and no other task is touched"
    )

    attempt = app.attempt()
    installed.kill_operator()
    print(f"operator killed -> a new row committed: {fed.flows():.1f} s")  # noqa: T201
    installed.up()
    assert app.attempt() == attempt, "the operator's end is no reason to start anything anew"

    app.kill_driver()
    for executor in app.executors():
        app.kill(executor)
    installed.kill_operator()
    print(f"all killed -> a new row committed: {fed.flows():.1f} s")  # noqa: T201
    app.until("Ready", "True")
    assert app.restored_without_need() == []
    after = app.nodes()
    back = sum(after[task] == node for task, node in before.items())
    assert back >= 0.95 * len(before), f"{before} became {after}"
    fed.settles()


def test_executors_of_a_dead_driver_do_not_hinder_the_next(running: tuple[App, Fed]) -> None:
    app, fed = running
    for process in (JAVA, PYTHON):
        attempt = app.attempt()
        app.crash_driver(process)
        print(f"{process} killed -> a new row committed: {fed.flows():.1f} s")  # noqa: T201
        assert app.attempt() == attempt + 1
        assert app.restored_without_need() == []
    fed.settles()
