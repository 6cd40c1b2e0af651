"""One small Spark session, or the one that other tests of this run have already."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from holdfast_runtime.spark.worker_python import worker_python


@contextmanager
def small_session() -> Iterator[SparkSession]:
    """A session of its own settings; the application below it may be shared."""
    active = SparkSession.getActiveSession()
    if active is not None:
        session = active.newSession()
        session.conf.set("spark.sql.session.timeZone", "UTC")
        session.conf.set("spark.sql.adaptive.enabled", "false")
        yield session
        return
    os.environ.update(worker_python(local=True))
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    with small_session() as session:
        yield session
