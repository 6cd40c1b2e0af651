"""State whose input has grown, and edits that would give its rows to other tasks."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import UserActionError
from holdfast_runtime.testing import TestDriver

KEYS = [f"k{number}" for number in range(8)]
DIRECT: list[dict[str, Any]] = []
MOVED = [{"name": "moved", "from": ["rows"], "repartition": {"by": ["k"]}}]


def app(partitions: int, moved: list[dict[str, Any]], intermediate: int) -> dict[str, Any]:
    log = {"system": "here", "key": ["k"]}
    steps = [
        *moved,
        {"name": "once", "from": ["moved" if moved else "rows"], "deduplicate": {"by": ["k"]}},
        {"name": "written", "from": ["once"], "to": "out"},
    ]
    spec = {
        "systems": [{"name": "here", "log": {}}],
        "streams": [
            {"name": "rows", "partitions": partitions, "schema": "k STRING", **log},
            {"name": "out", "partitions": 1, **log},
        ],
        "steps": steps,
        "planning": {"intermediatePartitions": intermediate},
    }
    return {"apiVersion": "holdfast.dev/v1alpha1", "kind": "StreamApp", "metadata": {"name": "moved"}, "spec": spec}


def feed(driver: TestDriver) -> list[str]:
    """Feed each key once more; all that has passed since the beginning."""
    driver.feed("rows", [{"k": key} for key in KEYS])
    driver.run_until_idle()
    return sorted(row["k"] for row in driver.rows("out"))


@pytest.mark.parametrize(("first", "second"), [(DIRECT, MOVED), (MOVED, DIRECT)], ids=["put in", "taken out"])
def test_a_repartition_as_wide_as_a_grown_input_keeps_state(
    first: list[dict[str, Any]], second: list[dict[str, Any]], tmp_path: Path
) -> None:
    """The input's tasks are still those of one partition: half of the keys came into tasks that had none of them."""
    with TestDriver(app(1, first, 2), tmp_path) as driver:
        assert feed(driver) == KEYS
        driver.grow("rows", 2)
        driver.restart(app(2, first, 2))
        assert feed(driver) == KEYS
        with pytest.raises(
            UserActionError, match=r"StateMisfit: spec.steps\[once\]: the number of its rows' partitions"
        ):
            driver.restart(app(2, second, 2))
        driver.restart(app(2, first, 2))
        assert feed(driver) == KEYS


def test_a_repartition_of_the_inputs_former_width_may_precede_state(tmp_path: Path) -> None:
    with TestDriver(app(1, DIRECT, 1), tmp_path) as driver:
        assert feed(driver) == KEYS
        driver.grow("rows", 2)
        driver.restart(app(2, DIRECT, 1))
        assert feed(driver) == KEYS
        driver.restart(app(2, MOVED, 1))
        assert feed(driver) == KEYS
