"""`toTable` and `lookup` in whole apps: what `tests/apps` has no way to say of them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from holdfast.errors import HoldfastError
from holdfast_runtime.checkpoint.offsets import Offsets
from holdfast_runtime.loop.fed_tables import TableStarts, table_starts
from holdfast_runtime.segments.graph import FedTable
from holdfast_runtime.steps.tables.kept_table import TableShape
from holdfast_runtime.testing import TestDriver


def app(
    verb: dict[str, Any] | None = None,
    *,
    steps: list[dict[str, Any]] | None = None,
    table: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Calls get the last position of their driver; `steps` in place of the one that writes it."""
    lookup = {"table": "last-position", "by": ["driver"], "select": ["call", "driver", "lat"]} | (verb or {})
    stream = {"system": "here", "partitions": 2, "key": ["driver"]}
    written = [{"name": "remember", "from": ["positions"], "toTable": "last-position"}] if steps is None else steps
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "last-positions"},
        "spec": {
            "systems": [{"name": "here", "log": {}}],
            "streams": [
                {"name": "positions", **stream, "schema": "driver STRING, lat BIGINT, ts TIMESTAMP"},
                {"name": "calls", **stream, "schema": "driver STRING, call BIGINT, ts TIMESTAMP"},
                {"name": "located", "system": "here", "partitions": 1},
            ],
            "tables": [{"name": "last-position", "key": ["driver"]} | (table or {})],
            "steps": [
                *written,
                {"name": "with-position", "from": ["calls"], "lookup": lookup},
                {"name": "out", "from": ["with-position"], "to": "located"},
            ],
        },
    }


def positions(**drivers: int) -> list[dict[str, Any]]:
    return [{"driver": driver, "lat": lat, "ts": None} for driver, lat in drivers.items()]


def calls(*drivers: str, since: int = 0) -> list[dict[str, Any]]:
    return [{"driver": driver, "call": since + at, "ts": None} for at, driver in enumerate(drivers)]


def came(driver: TestDriver) -> list[tuple[int, str, int | None]]:
    return sorted((row["call"], row["driver"], row["lat"]) for row in driver.rows("located"))


def test_a_look_up_of_own_writes_sees_the_batch_before() -> None:
    verb = {"select": ["left.call", "driver", "right.lat"]}
    spec = app(verb, table={"schema": "driver STRING, lat BIGINT, call BIGINT"}, steps=[])
    more = [
        {"name": "counted", "from": ["with-position"], "apply": {"function": "f:raised", "schema": COUNTED}},
        {"name": "kept", "from": ["counted"], "toTable": "last-position"},
    ]
    spec["spec"]["steps"][1:1] = more
    spec["spec"]["steps"][1]["apply"]["keeps"] = ["driver"]
    spec["spec"]["runtime"] = {"code": {"f": RAISED}}
    with TestDriver(spec) as driver:
        for at in range(3):
            driver.feed("calls", calls("ann", "ann", since=2 * at))
            driver.run_until_idle()
        assert came(driver) == [(at, "ann", at // 2 or None) for at in range(6)]


COUNTED = "driver STRING, lat BIGINT, call BIGINT"
RAISED = """
import pyarrow as pa
import pyarrow.compute as pc

def raised(batch):
    columns = [batch["driver"], pc.add(pc.fill_null(batch["lat"], 0), 1), batch["call"]]
    return pa.RecordBatch.from_arrays(columns, names=["driver", "lat", "call"])
"""


def test_a_table_written_behind_spark_sql_is_looked_up_after(small_spark: SparkSession) -> None:
    steps = [
        {"name": "north", "from": ["positions"], "filter": "lat > 0"},
        {"name": "remember", "from": ["north"], "toTable": "last-position"},
    ]
    with TestDriver(app({"select": ["call", "driver", "lat * 2 AS lat"]}, steps=steps), spark=small_spark) as driver:
        driver.feed("positions", [*positions(ann=1), *positions(ann=-1)])
        driver.feed("calls", calls("ann"))
        driver.run_until_idle()
        assert came(driver) == [(0, "ann", 2)]


def test_a_table_written_before_spark_sql_is_merged_by_batch(small_spark: SparkSession) -> None:
    with TestDriver(app({"select": ["call", "driver", "lat * 1 AS lat"]}), spark=small_spark) as driver:
        for batch in range(20):
            driver.feed("positions", positions(ann=batch))
            driver.feed("calls", calls("ann", since=batch))
            driver.run_until_idle()
        assert came(driver) == [(batch, "ann", batch) for batch in range(20)]
        task_tables = [driver.tables(task).get("last-position.table", {}) for task in ("partition-0", "partition-1")]
        assert 0 < sum(key.startswith(b"p") for table in task_tables for key in table) < 12


def test_several_steps_may_write_one_table() -> None:
    steps = [
        {"name": name, "from": ["positions"], "toTable": "last-position"} for name in ("remember", "remember-again")
    ]
    with TestDriver(app(steps=steps)) as driver:
        for batch in range(20):
            driver.feed("positions", positions(ann=batch, bob=-batch))
            driver.run_until_idle()
        driver.feed("calls", calls("ann", "bob"))
        driver.run_until_idle()
        assert came(driver) == [(0, "ann", 19), (1, "bob", -19)]


def test_a_renamed_table_is_refused_and_not_started_from_nothing(tmp_path: Path) -> None:
    with TestDriver(app(), tmp_path) as driver:
        driver.feed("positions", positions(ann=1))
        driver.run_until_idle()
    spec = app({"table": "position"}, table={"name": "position"})
    spec["spec"]["steps"][0]["toTable"] = "position"
    message = "table last-position is gone, and remember writes one of another name"
    with pytest.raises(HoldfastError, match=message):
        TestDriver(spec, tmp_path).close()


def test_the_step_that_writes_a_table_may_be_renamed(tmp_path: Path) -> None:
    with TestDriver(app(), tmp_path) as driver:
        driver.feed("positions", positions(ann=1))
        driver.run_until_idle()
    spec = app()
    spec["spec"]["steps"][0]["name"] = "memorise"
    with TestDriver(spec, tmp_path) as driver:
        driver.feed("calls", calls("ann"))
        driver.run_until_idle()
        assert came(driver) == [(0, "ann", 1)]


IN_MEMORY, HOUR = {"persistent": False}, {"maxAge": "1h"}


@pytest.mark.parametrize(
    "tables",
    [({}, HOUR), (HOUR, {}, HOUR), (IN_MEMORY, {}), (IN_MEMORY, HOUR), (HOUR, {"maxAge": "2h"}), ({}, {})],
    ids=str,
)
def test_a_written_table_survives_an_edit_of_its_retention(tables: tuple[dict[str, Any], ...]) -> None:
    first, *edited_tables = tables
    with TestDriver(app(table=first)) as driver:
        driver.feed("positions", positions(ann=1))
        driver.run_until_idle()
        for table in edited_tables:
            driver.restart(app(table=table))
        driver.feed("calls", calls("ann"))
        driver.run_until_idle()
        assert came(driver) == [(0, "ann", 1)]


def test_rows_from_before_generations_are_of_the_first() -> None:
    shape = TableShape(("driver",), pa.schema([("driver", pa.string())]))
    table = FedTable("last", (), shape, broadcast=False, bootstrap=True, anew=False, max_age=None)
    for age in (None, 1_000):
        starts = table_starts(Offsets(7, now=500), [replace(table, max_age=age)], [], {}, 1_499)
        assert starts == TableStarts({"last": 0})
    assert table_starts(Offsets(7, now=500), [replace(table, max_age=1_000)], [], {}, 1_500).generations == {"last": 8}
