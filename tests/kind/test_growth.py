"""A topic that gets more partitions under load."""

import time

import pytest

from tests.kafka.counted import KEEPING, Counted
from tests.kafka.load import Load
from tests.kind.apps import App
from tests.kind.fed import Fed
from tests.waiting import wait_until

_NOTICED = 60.0


@pytest.fixture
def app(app: App) -> App:
    """It keeps something by the keys of its input, too."""
    app.tree["spec"]["steps"].append(KEEPING)
    return app


def test_growth_is_read_whole_or_refused_without_stopping(running: tuple[App, Fed], counted: Counted) -> None:
    app, fed = running
    for partitions in (4, 12):
        before, attempt, began = app.nodes(), app.attempt(), time.monotonic()
        counted.broker.grow_topic(counted.rows, partitions)
        wait_until(lambda: app.attempt() == attempt + 1, _NOTICED, "the next attempt")  # noqa: B023 - in this turn
        fed.flows()
        wait_until(lambda: app.status().get("partitions") == partitions + 3, _NOTICED, f"{partitions} are read")  # noqa: B023
        print(f"grown to {partitions} -> read: {time.monotonic() - began:.1f} s")  # noqa: T201 - figures for `-s`
        app.until("Ready", "True")
        after = app.nodes()
        assert {task: after[task] for task in before} == before
        assert app.restored_without_need() == []
    fed.settles()

    attempt = app.attempt()
    counted.broker.grow_topic(counted.rows, 13)
    app.until("StateCompatible", "False", "NotAMultiple", _NOTICED)
    assert "13" in app.message("StateCompatible")
    # Producers put keys elsewhere now, so the rest is out of order by their doing: what was there is still read.
    batch = app.batch()
    with Load(counted):
        wait_until(lambda: app.batch() > batch, _NOTICED, "more batches")
    assert app.attempt() == attempt
    app.until("DriverRunning", "True")
