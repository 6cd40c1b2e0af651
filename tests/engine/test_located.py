"""A batch is one job whose slots run where they should, on real executors, and no row changes executor on the way."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from holdfast.errors import HoldfastError
from holdfast_runtime.spark.located import LocatedJob, SlotLocation, batch_plan_text, by_processor, registered
from tests.error_codes import has_code


def where(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Says for each slot what it was told and on which executor: each has a working folder named by its id."""
    for batch in batches:
        locations = [json.dumps([slot, batch_plan_text(), Path.cwd().name]) for slot in batch.column(0).to_pylist()]
        yield pa.RecordBatch.from_pydict({"told": locations})


def through_sql(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("concat(value, '') AS value").where("value IS NOT NULL").mapInArrow(where, "told STRING")


def test_slots_run_on_the_executors_they_name_in_any_arrangement(spark: SparkSession) -> None:
    names = by_processor(registered(spark))
    for arrangement in itertools.permutations(sorted(names)):
        slots = [SlotLocation(f"slot-{i}", names[executor]) for i, executor in enumerate(arrangement)]
        job = LocatedJob(spark, slots, through_sql)
        locations = [json.loads(row) for row in job.run("plan")]
        assert locations == [[f"slot-{i}", "plan", executor] for i, executor in enumerate(arrangement)]


def test_a_prepared_job_gets_a_new_plan_each_batch(spark: SparkSession) -> None:
    job = LocatedJob(spark, [SlotLocation("slot-0"), SlotLocation("slot-1")], through_sql)
    for batch in range(5):
        assert {json.loads(row)[1] for row in job.run(f"batch {batch}")} == {f"batch {batch}"}


def test_the_plan_of_a_job_has_no_exchange(spark: SparkSession) -> None:
    assert "Exchange" not in LocatedJob(spark, [SlotLocation("slot-0")], through_sql).plan


def test_steps_that_would_move_rows_are_refused_before_they_run(spark: SparkSession) -> None:
    with pytest.raises(HoldfastError, check=has_code("ExchangeError")):
        LocatedJob(spark, [SlotLocation("slot-0")], lambda frame: frame.groupBy("value").count().selectExpr("value"))


def test_a_slot_whose_executor_is_gone_runs_elsewhere(spark: SparkSession) -> None:
    job = LocatedJob(spark, [SlotLocation("slot-0", "127.0.0.1_99")], through_sql)
    assert json.loads(job.run("plan")[0])[2] in by_processor(registered(spark))


def test_the_plan_of_a_batch_is_known_inside_it_only() -> None:
    with pytest.raises(HoldfastError, match="inside a part"):
        batch_plan_text()
