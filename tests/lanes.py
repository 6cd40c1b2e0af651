"""How files of real tests are given to workers: each stays with those that share what it has started.

A broker, an API server and a Spark application are there once a worker, made by the first test that needs them. A
worker keeps to its lane until that is empty, then helps in the fullest. The longest files come first, so that none is
left alone at the end. Must not order the tests of a file.
"""

from collections import Counter
from typing import Literal

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

Lane = Literal["broker", "plane", "spark"]
_LANES: dict[str, Lane] = {"tests/kafka/": "broker", "tests/api/": "plane", "tests/chart/": "plane"}
_LONGEST = (
    "tests/kafka/test_run.py",
    "tests/kafka/test_runs_killed.py",
    "tests/kafka/test_tables.py",
    "tests/api/test_killed.py",
    "tests/engine/test_run.py",
    "tests/engine/test_spark_ends.py",
    "tests/engine/test_killed.py",
    "tests/s3/test_run.py",
    "tests/segments/test_sql.py",
)


class LaneScheduling(LoadFileScheduling):  # type: ignore[misc]  # it has no types
    """Gives out whole files, in lanes."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)
        self._lanes: dict[WorkerController, Lane] = {}

    def _assign_work_unit(self, node: WorkerController) -> None:
        waiting = Counter(map(lane_of, self.workqueue))
        if node not in self._lanes or not waiting[self._lanes[node]]:
            nodes_in = Counter(self._lanes.values())
            self._lanes[node] = min(waiting, key=lambda lane: (nodes_in[lane], -waiting[lane]))
        files = [file for file in self.workqueue if lane_of(file) == self._lanes[node]]
        self.workqueue.move_to_end(min(files, key=_rank), last=False)
        super()._assign_work_unit(node)


def lane_of(file: str) -> Lane:
    """Return the lane of a file of tests."""
    return next((lane for start, lane in _LANES.items() if file.startswith(start)), "spark")


def _rank(file: str) -> int:
    return _LONGEST.index(file) if file in _LONGEST else len(_LONGEST)
