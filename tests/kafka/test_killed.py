"""Writers that are killed at every step of a transaction, and at any moment: what readers see is there once."""

import os
import random
import signal
import uuid
from pathlib import Path

import pytest

from tests.forked import ForkedProcess
from tests.kafka import writer
from tests.kafka.broker import Broker
from tests.kafka.sent import rows_of, seen_by_partition
from tests.waiting import patience

pytestmark = pytest.mark.kafka
STEPS = ("transaction begun", "transaction filled", "transaction committed", "batch done")
SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
KILLS = int(os.environ.get("HOLDFAST_KAFKA_KILLS", "110" if SOAK else "12"))
SEED = int(os.environ.get("HOLDFAST_SEED", "1"))
BATCHES = 4 * KILLS


def run(broker: Broker, app: str, number: int, folder: Path, die: str) -> int:
    ended = ForkedProcess(writer.run, broker.bootstrap, app, number, folder, BATCHES, die).wait(patience(120))
    assert ended in (0, -signal.SIGKILL), "its trace is above"
    return ended


@pytest.mark.long
def test_whatever_kills_writers_records_are_there_once_and_in_order(broker: Broker, tmp_path: Path) -> None:
    app, dice, number, kills = f"app-{uuid.uuid4().hex[:8]}", random.Random(SEED), 0, 0  # noqa: S311 - to see the same again
    broker.create_topic(f"{app}-out", 2)
    while True:
        number += 1
        crash_point = f"{dice.choice(STEPS)}:{dice.randint(1, 6)}"
        die = "" if kills >= KILLS else crash_point if number % 3 else f"{dice.uniform(0.05, 1.5):.3f}"
        if run(broker, app, number, tmp_path, die) == 0:
            break
        kills += 1
    assert kills == KILLS
    values_of = seen_by_partition(broker, f"{app}-out")
    assert sorted(value for values in values_of.values() for value in values) == rows_of(
        "abcd", range(1, BATCHES + 1), 20
    )
    for values in values_of.values():
        for task in "abcd":
            task_values = [tuple(map(int, value.split("-")[1:])) for value in values if value.startswith(task)]
            assert task_values == sorted(task_values)
