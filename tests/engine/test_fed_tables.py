"""Tables with side inputs, from the start of an attempt to its next one: each cell of the design's table has a test."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.checkpoint.offsets import Jump, JumpFile
from holdfast_runtime.testing import BatchResult, Crashed, TestDriver
from tests.engine.fed_tables import app, each_kind, order, priced, prices_of, products, started, without_table

HOUR: dict[str, Any] = {"maxAge": "1h"}
LACKS: tuple[str, ...] = ("product",)
NOTHING: tuple[str, ...] = ()


def read(batches: tuple[BatchResult, ...]) -> list[dict[str, int]]:
    """What each batch has read of each stream; what each location reads for itself counts once, as here is one."""
    batch_sums = []
    for batch in batches:
        sums: dict[str, int] = {}
        for task in batch.tasks:
            for stream, records in task.read.items():
                sums[stream] = sums.get(stream, 0) + records
        batch_sums.append(sums)
    return batch_sums


def forget_products(driver: TestDriver) -> None:
    """Remove what the side input holds, as a topic does that keeps little."""
    for partition in range(2):
        at = StreamPartition("products", partition)
        driver._log.trim(at, driver._log.bounds("products")[at].end)  # noqa: SLF001 - retention


@each_kind
def test_a_table_may_be_added_while_a_batch_is_planned(kind: str) -> None:
    with TestDriver(without_table(app(kind))) as driver:
        order(driver, "a")
        driver.crash_at("offsets durable")
        with pytest.raises(Crashed):
            driver.run_until_idle()
        driver.restart(app(kind))
        driver.feed("products", products({"a": 1}))
        driver.run_until_idle()
        assert priced(driver, "a") == [1]


@each_kind
def test_bootstrap_without_a_store_loads_all_before_inputs(kind: str) -> None:
    with TestDriver(app(kind, bootstrap=True)) as driver:
        driver.feed("products", products({"a": 1, "b": 2, "c": 3}))
        order(driver, "a", "b", "c", "d")
        assert read(driver.run_until_idle()) == [{"products": 3}, {"orders": 4}]
        assert prices_of(driver, range(4)) == [1, 2, 3, None]


@each_kind
def test_bootstrap_with_an_outdated_store_loads_all_again_before_inputs(kind: str) -> None:
    with started(kind, **HOUR) as driver:
        forget_products(driver)
        driver.feed("products", products({"b": 7}))
        driver.run_until_idle()
        driver.advance(timedelta(hours=1))
        driver.restart()
        order(driver, "a", "b")
        assert read(driver.run_until_idle()) == [{"products": 1}, {"orders": 2}]
        # A deleted row that a compacted topic has forgotten must not stay for ever.
        assert prices_of(driver, range(2)) == [None, 7]
        assert driver.incomplete == NOTHING


@each_kind
def test_bootstrap_with_a_valid_store_reads_the_rest_before_inputs(kind: str) -> None:
    with started(kind, **HOUR) as driver:
        forget_products(driver)
        driver.advance(timedelta(minutes=59))
        driver.feed("products", products({"b": 7}))
        driver.restart()
        order(driver, "a", "b")
        assert read(driver.run_until_idle()) == [{"products": 1}, {"orders": 2}]
        assert prices_of(driver, range(2)) == [1, 7]


@each_kind
def test_without_bootstrap_and_store_inputs_do_not_wait(kind: str) -> None:
    with TestDriver(app(kind, bootstrap=False)) as driver:
        driver.feed("products", products({"a": 1, "b": 2, "c": 3}))
        order(driver, "a", "b", "c", "d")
        assert read(driver.run_until_idle()) == [{"products": 3, "orders": 4}]
        assert prices_of(driver, range(4)) == [1, 2, 3, None]


@each_kind
def test_without_bootstrap_an_outdated_store_is_given_up_and_said(kind: str) -> None:
    with started(kind, bootstrap=False, **HOUR) as driver:
        driver.advance(timedelta(hours=1))
        driver.feed("products", products({"b": 7}))
        driver.restart()
        assert priced(driver, "a", "b") == [None, 7]
        assert driver.incomplete == LACKS
        driver.restart()
        assert priced(driver, "a", "b") == [None, 7]
        assert driver.incomplete == LACKS, "what is missing is missing in later attempts too"


@each_kind
def test_without_bootstrap_a_valid_store_goes_on_where_it_was(kind: str) -> None:
    with started(kind, bootstrap=False) as driver:
        forget_products(driver)
        driver.feed("products", products({"b": 7}))
        driver.restart()
        order(driver, "a", "b")
        assert read(driver.run_until_idle()) == [{"products": 1, "orders": 2}]
        assert prices_of(driver, range(2)) == [1, 7]


@each_kind
def test_bootstrap_set_later_loads_a_table_that_lacks_rows_again(kind: str) -> None:
    with started(kind, bootstrap=False, **HOUR) as driver:
        driver.advance(timedelta(hours=1))
        driver.restart()
        assert priced(driver, "a") == [None]
        driver.restart(app(kind, bootstrap=True, **HOUR))
        assert priced(driver, "a") == [1]
        assert driver.incomplete == NOTHING


@each_kind
def test_a_table_in_memory_is_loaded_by_each_attempt(kind: str) -> None:
    with started(kind, persistent=False) as driver:
        driver.restart()
        order(driver, "a")
        assert read(driver.run_until_idle()) == [{"products": 2}, {"orders": 1}]
        assert prices_of(driver, range(1)) == [1]


@each_kind
def test_without_bootstrap_a_memory_table_has_what_comes_later(kind: str) -> None:
    with started(kind, persistent=False, bootstrap=False) as driver:
        assert priced(driver, "a") == [1]
        driver.restart()
        driver.feed("products", products({"b": 7}))
        assert priced(driver, "a", "b") == [None, 7]
        assert driver.incomplete == LACKS


@each_kind
def test_a_lost_disk_is_restored_though_the_topic_has_forgotten(kind: str) -> None:
    with started(kind) as driver:
        forget_products(driver)
        driver.feed("products", products({"b": 7}))
        driver.lose_local_state()
        driver.restart()
        order(driver, "a", "b")
        assert read(driver.run_until_idle()) == [{"products": 1}, {"orders": 2}]
        assert prices_of(driver, range(2)) == [1, 7]
        assert driver.incomplete == NOTHING


@each_kind
def test_later_arrivals_do_not_keep_inputs_waiting(kind: str) -> None:
    spec = app(kind)
    spec["spec"]["runtime"] = {"trigger": {"maxRecordsPerPartition": 2}}
    with TestDriver(spec) as driver:
        driver.feed("products", products({f"p{at}": at for at in range(8)}))
        order(driver, "p1")
        driver.run()
        driver.feed("products", products({f"q{at}": at for at in range(40)}))
        batches = [one for one in read(driver.run_until_idle()) if "orders" in one]
        assert batches[0]["products"] > 0, "orders were read while products were still to come"
        assert prices_of(driver, range(1)) == [1]


@each_kind
def test_records_lost_unread_are_left_out_and_said(kind: str) -> None:
    with started(kind) as driver:
        driver.feed("products", products({"a": 5}))
        forget_products(driver)
        driver.feed("products", products({"b": 7}))
        driver.restart()
        assert priced(driver, "a", "b") == [1, 7]
        assert driver.incomplete == LACKS
        # All that there is comes in with the next attempt, as bootstrap asks for it.
        driver.restart()
        assert priced(driver, "a", "b") == [None, 7]
        assert driver.incomplete == NOTHING


@each_kind
def test_a_renamed_table_is_loaded_from_the_oldest_record(kind: str) -> None:
    with started(kind) as driver:
        renamed = app(kind, name="item", lookup={"table": "item"})
        driver.restart(renamed)
        assert priced(driver, "a", "b") == [1, 2]


@each_kind
def test_tables_that_share_a_side_input_start_anew_together(kind: str) -> None:
    with started(kind) as driver:
        driver.feed("products", products({"a": 5}))
        driver.run_until_idle()
        spec = app(kind)
        spec["spec"]["tables"].append({**spec["spec"]["tables"][0], "name": "item"})
        again = {"table": "item", "by": ["sku"], "select": ["sku", "n", "left.price", "right.price AS again"]}
        spec["spec"]["steps"].insert(1, {"name": "twice", "from": ["priced"], "lookup": again})
        spec["spec"]["steps"][2]["from"] = ["twice"]
        driver.restart(spec)
        assert priced(driver, "a", "b") == [5, 2]
        assert [row["again"] for row in driver.rows("out")] == [5, 2]


@each_kind
def test_a_bounded_app_completes_though_its_side_input_goes_on(kind: str) -> None:
    spec = app(kind)
    spec["spec"]["streams"][1]["bounded"] = True
    with TestDriver(spec) as driver:
        driver.feed("products", products({"a": 1}))
        order(driver, "a")
        driver.end("orders")
        driver.run_until_idle()
        assert driver.completed
        assert prices_of(driver, range(1)) == [1]


@each_kind
def test_side_inputs_hold_no_watermark_back(kind: str) -> None:
    spec = app(kind)
    for stream in spec["spec"]["streams"][:2]:
        stream["schema"] += ", ts TIMESTAMP"
        stream["eventTime"] = {"column": "ts"}
    spec["spec"]["steps"][0]["lookup"]["select"] = ["sku", "n", "price", "left.ts"]
    with TestDriver(spec) as driver:
        driver.feed("products", [{"sku": "a", "price": 1, "ts": datetime(2020, 1, 1, tzinfo=UTC)}])
        driver.feed("orders", [{"sku": "a", "n": 0, "ts": datetime(2026, 1, 1, tzinfo=UTC)}])
        driver.run_until_idle()
        assert {driver.watermark(task) for task in driver.tasks} == {None, datetime(2026, 1, 1, tzinfo=UTC)}


def test_a_jump_leaves_out_earlier_records_at_all_locations() -> None:
    spec = app("Broadcast", partitions=1)
    with TestDriver(spec) as driver:
        driver.feed("products", products({"a": 1, "b": 2}))
        driver.run_until_idle()
        driver.feed("products", products({"a": 5}))
        at = StreamPartition("products", 0)
        JumpFile.beside(driver._directory.query).write(Jump("one", {at: 2}, {at: 3}))  # noqa: SLF001 - `holdfast offsets --set`
        driver.restart()
        driver.feed("products", products({"c": 3}))
        assert priced(driver, "a", "b", "c") == [1, 2, 3]
        driver.lose_local_state()
        driver.restart()
        assert priced(driver, "a", "b", "c") == [1, 2, 3]
