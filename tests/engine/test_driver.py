"""The driver of users' tests: what it takes, what it shows, and what it says to a test that is wrong."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdfast.errors import UserActionError
from holdfast.spec.parse import SpecInvalidError, parse_app
from holdfast_runtime.testing import Crashed, TestDriver, TestMisuseError
from holdfast_runtime.testing.failures import FeedError, SparkNeededError, UnknownStepError
from tests.error_codes import has_code

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
CODE = """
def tell(key, rows, state):
    state["rows"] = state.get("rows", 0) + len(rows)
    for row in rows:
        state.at_event_time(row["ts"], "seen")
    if state.fired:
        yield {"shop": key[0], "item": key[1], "rows": state["rows"]}
"""
SALES = {
    "name": "sales",
    "system": "local",
    "partitions": 2,
    "key": ["shop"],
    "schema": "shop STRING, item BIGINT, ts TIMESTAMP",
    "eventTime": {"column": "ts", "lateness": "10s", "idleAfter": "60s"},
}


def app(*steps: dict[str, Any], **sales: Any) -> dict[str, Any]:
    process = {"function": "told:tell", "by": ["shop", "item"], "schema": "shop STRING, item BIGINT, rows BIGINT"}
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "sales"},
        "spec": {
            "systems": [{"name": "local", "log": {}}],
            "streams": [SALES | sales, {"name": "told", "system": "local", "partitions": 1, "key": ["shop"]}],
            "steps": [
                *steps,
                {"name": "tell", "from": ["sales"], "process": process | {"keeps": ["shop", "item"]}},
                {"name": "out", "from": ["tell"], "to": "told"},
            ],
            "runtime": {"code": {"told": CODE}},
        },
    }


def sale(shop: str, item: int, second: int) -> dict[str, Any]:
    return {"shop": shop, "item": item, "ts": BEGIN + timedelta(seconds=second)}


def test_event_time_follows_the_rows_of_each_task() -> None:
    with TestDriver(app()) as driver:
        driver.feed("sales", [sale("a", 1, 0), sale("a", 1, 5), sale("a", 2, 30)])
        (first,) = driver.run_until_idle()
        assert (first.number, first.now, first.rows_in, first.rows_out) == (1, BEGIN, 3, 1)
        assert driver.rows("told") == [{"shop": "a", "item": 1, "rows": 2}]
        assert driver.watermark("sales") is None, "the other partition is silent"
        assert {driver.watermark(task) for task in driver.tasks} == {None, BEGIN + timedelta(seconds=20)}
        (timer,) = driver.timers("tell", ("a", 2))
        assert (timer.kind, timer.name, timer.time) == ("event", "seen", 1767225630000)
        driver.feed("sales", [sale("a", 1, 3), sale("a", 1, 25)] + [sale(shop, 1, 90) for shop in "bcdefgh"])
        driver.run_until_idle()
        assert driver.late == 1
        assert driver.watermark("sales") == BEGIN + timedelta(seconds=80)
        assert driver.state("tell", ("a", 1)) == {"rows": 4}
        assert driver.state("tell", ("z", 1)) is None


def test_an_app_comes_as_file_text_tree_or_itself(tmp_path: Path) -> None:
    text = (
        "apiVersion: holdfast.dev/v1alpha1\nkind: StreamApp\nmetadata: {name: copy}\nspec:\n"
        "  systems: [{name: local, log: {}}]\n"
        '  streams: [{name: a, system: local, partitions: 1, schema: "x BIGINT"}, '
        "{name: b, system: local, partitions: 1}]\n"
        "  steps: [{name: out, from: [a], to: b}]\n"
    )
    (tmp_path / "app.yaml").write_text(text)
    for source in (tmp_path / "app.yaml", str(tmp_path / "app.yaml"), text, f"a: 1\n---\n{text}"):
        with TestDriver(source) as driver:
            driver.feed("a", pa.RecordBatch.from_pylist([{"x": 1}], pa.schema([("x", pa.int64())])))
            driver.run()
            assert driver.rows("b") == [{"x": 1}]
    with TestDriver(parse_app(app())) as driver:
        assert driver.tasks == ("partition-0", "partition-1")
    with pytest.raises(TestMisuseError, match="holds 0 StreamApps"):
        TestDriver("a: 1\nb: 2\n")
    with pytest.raises(SpecInvalidError):
        TestDriver({"kind": "StreamApp"})
    with pytest.raises(UserActionError, match="needs equal", check=has_code("PlanRejectedError")):
        TestDriver(app(key=["ts"]))


def test_rows_are_not_fed_as_changes_of_a_database() -> None:
    tree = app()
    shops = {"name": "shops", "key": ["shop"], "schema": "shop STRING", "changes": "debezium", "partitions": 1}
    tree["spec"]["streams"].append({**shops, "system": tree["spec"]["systems"][0]["name"]})
    tree["spec"]["tables"] = [{"name": "t", "sources": ["shops"], "key": ["shop"], "distribution": "Broadcast"}]
    with TestDriver(tree) as driver:
        with pytest.raises(FeedError, match="with feed_bytes"):
            driver.feed("shops", [{"shop": "a"}])
        driver.feed_bytes("shops", [b'{"op": "c", "after": {"shop": "a"}}'], b'{"shop": "a"}')


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"shop": "a", "itme": 1}, "row 1 fed into sales: column 'itme' is not in"),
        ({"shop": 1}, "row 1 fed into sales: column shop is 1"),
        ({"shop": "a", "ts": 5}, "row 1 fed into sales: column ts is 5"),
    ],
)
def test_rows_foreign_to_the_stream_are_refused_and_not_written(row: dict[str, Any], message: str) -> None:
    with TestDriver(app()) as driver:
        with pytest.raises(FeedError, match=message):
            driver.feed("sales", [sale("a", 1, 0), row])
        with pytest.raises(FeedError, match="have the columns"):
            driver.feed("sales", pa.RecordBatch.from_pylist([{"x": 1}]))
        assert driver.records("sales") == []


def test_unknown_names_are_told_with_the_known_ones() -> None:
    with TestDriver(app({"name": "moved", "from": ["sales"], "repartition": {"by": ["item"]}})) as driver:
        with pytest.raises(TestMisuseError, match=r"no stream sale; did you mean sales"):
            driver.feed("sale", [])
        with pytest.raises(TestMisuseError, match="moved is made by a step"):
            driver.feed("moved", [])
        with pytest.raises(TestMisuseError, match=r"no process step told .*tell"):
            driver.state("told", "a")
        with pytest.raises(TestMisuseError, match="is no key of step tell, which keeps state by"):
            driver.state("tell", ("a", "b"))
        with pytest.raises(TestMisuseError, match=r"did you mean partition-\d"):
            driver.lose_local_state("partition-7")
        with pytest.raises(TestMisuseError, match="never ends: set bounded"):
            driver.end("sales")
        with pytest.raises(UnknownStepError, match="did you mean delta written"):
            driver.crash_at("delta writen")
        with pytest.raises(UnknownStepError, match="not at number 0"):
            driver.crash_at("computed", 0)


def test_an_app_with_sparks_sql_says_how_to_run_it() -> None:
    steps = [
        {"name": "many", "from": ["sales"], "filter": "sqrt(item) > 1"},
        {"name": "in", "from": ["many"], "to": "sold"},
    ]
    spec = app(*steps)
    spec["spec"]["streams"].append({"name": "sold", "system": "local", "partitions": 1})
    with pytest.raises(
        SparkNeededError,
        match=r"many \(filter\): give the driver a session, TestDriver\(app, spark=",
    ):
        TestDriver(spec)


def test_plain_sql_needs_no_session_and_can_crash() -> None:
    spec = app({"name": "many", "from": ["sales"], "filter": "item > 1"})
    tell = next(step for step in spec["spec"]["steps"] if step["name"] == "tell")
    tell["from"] = ["many"]
    with TestDriver(spec) as driver:
        driver.feed("sales", [sale("a", 1, 0), sale("a", 2, 5)])
        driver.crash_at("delta written")
        with pytest.raises(Crashed):
            driver.run()
        driver.restart()
        driver.run_until_idle()
        assert (driver.state("tell", ("a", 1)), driver.state("tell", ("a", 2))) == (None, {"rows": 1})


def test_tests_without_sql_do_not_even_import_spark() -> None:
    code = "import sys, holdfast_runtime.testing; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_another_apps_stream_brings_rows_watermarks_and_its_end() -> None:
    with TestDriver(app(control=True)) as driver:
        driver.feed("sales", [sale("a", 1, 0), sale("b", 1, 5)])
        driver.run_until_idle()
        assert driver.rows("sales") == [sale("a", 1, 0), sale("b", 1, 5)]
        driver.end("sales")
        driver.run_until_idle()
        assert driver.completed
        assert len(driver.control("sales")) == 2
        assert sorted(row["shop"] for row in driver.rows("told")) == ["a", "b"]


def generated(stream: str, schema: str, columns: str) -> dict[str, Any]:
    """An app that keeps what a generator makes: these columns of each batch, as Python says them."""
    code = f"""
import pyarrow as pa

def rows(partition, offset, count):
    return pa.RecordBatch.from_pydict({columns})
"""
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "made"},
        "spec": {
            "systems": [
                {"name": "made", "generator": {"function": "maker:rows", "rowsPerSecond": 10}},
                {"name": "local", "log": {}},
            ],
            "streams": [
                {"name": stream, "system": "made", "partitions": 1, "schema": schema},
                {"name": "kept", "system": "local", "partitions": 1},
            ],
            "steps": [{"name": "out", "from": [stream], "to": "kept"}],
            "runtime": {"code": {"maker": code}},
        },
    }


def test_a_generator_makes_rows_as_the_clock_advances() -> None:
    with TestDriver(generated("numbers", "n BIGINT", '{"n": range(offset, offset + count)}')) as driver:
        driver.run_until_idle()
        driver.advance(0.5)
        driver.run_until_idle()
        assert driver.rows("kept") == [{"n": n} for n in range(5)]
        with pytest.raises(TestMisuseError, match="come as the clock advances"):
            driver.feed("numbers", [])


def test_a_generated_time_that_no_step_can_use_is_named(tmp_path: Path) -> None:
    tree = generated("moments", "at TIMESTAMP_NTZ", '{"at": pa.array([1 << 60] * count, pa.timestamp("us"))}')
    with TestDriver(tree, tmp_path) as driver:
        driver.run_until_idle()
        driver.advance(0.5)
        with pytest.raises(UserActionError, match="stream moments gave a time outside of the years 1 to 9999 as at"):
            driver.run_until_idle()
