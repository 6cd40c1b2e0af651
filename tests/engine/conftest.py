"""Spark for tests: one application with three executors for all that need real placement, small ones for others."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast_runtime.spark.located import registered
from holdfast_runtime.spark.worker_python import worker_python
from tests.segments.conftest import small_session
from tests.waiting import patience

EXECUTORS = 3
DEADLINE = patience(180.0)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Workers run this interpreter; nothing adaptive may change a plan."""
    os.environ.update(worker_python(local=True))
    session = (
        SparkSession.builder.master(f"local-cluster[{EXECUTORS},1,700]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.executor.memory", "700m")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.executorEnv.PYTHONPATH", str(Path(__file__).parents[2]))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    deadline = time.monotonic() + DEADLINE
    while len(registered(session)) < EXECUTORS:
        assert time.monotonic() < deadline, f"only {registered(session)} came up in {DEADLINE} s"
        time.sleep(0.1)  # asking without a pause would take the time that executors need to come up
    yield session
    session.stop()


@pytest.fixture(scope="module")
def small_spark() -> Iterator[SparkSession]:
    """A session without executors of its own, gone before other tests want one of another shape."""
    with small_session() as session:
        yield session
