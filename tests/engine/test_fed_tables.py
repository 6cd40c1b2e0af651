"""Tables with side inputs, from the start of an attempt to its next one: each cell of the design's table has a test."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from holdfast.errors import UserActionError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.checkpoint.offsets import Jump, JumpFile
from holdfast_runtime.testing import BatchResult, Crashed, TestDriver
from tests.engine.fed_tables import BOTH, app, order, priced, prices_of, products, without_table

HOUR: dict[str, Any] = {"maxAge": "1h"}
LACKS: tuple[str, ...] = ("product",)
NOTHING: tuple[str, ...] = ()
each_kind = pytest.mark.parametrize("kind", BOTH)


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


def started(kind: str, **table: Any) -> TestDriver:
    """An app that has loaded two products; its side input then loses them, as a topic does that keeps little."""
    driver = TestDriver(app(kind, **table))
    driver.feed("products", products({"a": 1, "b": 2}))
    driver.run_until_idle()
    return driver


def forget_products(driver: TestDriver) -> None:
    """Remove what the side input holds."""
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
def test_records_without_value_delete_and_those_without_key_are_counted(kind: str) -> None:
    with started(kind) as driver:
        driver.feed_bytes("products", [None], key=b"a")
        driver.feed_bytes("products", [None])
        driver.feed("products", [{"sku": None, "price": 3}])
        unkeyed: dict[str, int] = {}
        for batch in driver.run_until_idle():
            for task in batch.tasks:
                for name, rows in task.unkeyed.items():
                    unkeyed[name] = unkeyed.get(name, 0) + rows
        assert unkeyed == {"products": 1, "product": 1}
        assert driver.tombstones == 0, "that is for records that steps do not get"
        assert priced(driver, "a", "b", None) == [None, 2, None]
        driver.feed("products", products({"a": 9}))
        assert priced(driver, "a") == [9]


@each_kind
def test_deletions_and_writes_within_a_batch_follow_record_order(kind: str) -> None:
    with started(kind) as driver:
        driver.feed("products", products({"a": 5}))
        driver.feed_bytes("products", [None], key=b"a")
        driver.feed_bytes("products", [None], key=b"b")
        driver.feed("products", products({"b": 6}))
        assert priced(driver, "a", "b") == [None, 6]


def typed(spec: dict[str, Any], schema: str, key: list[str]) -> dict[str, Any]:
    for stream in spec["spec"]["streams"][:2]:
        stream["key"] = key
    spec["spec"]["streams"][0]["schema"] = schema
    spec["spec"]["streams"][1]["schema"] = f"{schema.replace(', price BIGINT', '')}, n BIGINT"
    spec["spec"]["tables"][0]["key"] = key
    spec["spec"]["steps"][0]["lookup"]["by"] = key
    return spec


@each_kind
@pytest.mark.parametrize(
    ("schema", "key"),
    [
        ("sku BIGINT, price BIGINT", {"sku": 7}),
        ("sku BOOLEAN, price BIGINT", {"sku": True}),
        ("sku BINARY, price BIGINT", {"sku": b"\xff\x00"}),
        ("sku DATE, price BIGINT", {"sku": date(2026, 1, 2)}),
        ("shop STRING, sku BIGINT, price BIGINT", {"shop": 'a "quoted", one', "sku": 7}),
    ],
    ids=["number", "boolean", "bytes", "date", "two columns"],
)
def test_keys_of_each_type_are_deleted(kind: str, schema: str, key: dict[str, Any]) -> None:
    with TestDriver(typed(app(kind), schema, list(key))) as driver:
        driver.feed("products", [{**key, "price": 4}])
        driver.run_until_idle()
        (record,) = driver.records("products")
        driver.feed("orders", [{**key, "n": 0}])
        driver.run_until_idle()
        driver.feed_bytes("products", [None], key=record.key)
        driver.run_until_idle()
        driver.feed("orders", [{**key, "n": 1}])
        driver.run_until_idle()
        assert prices_of(driver, range(2)) == [4, None]


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


@each_kind
def test_a_grown_side_input_keeps_rows_and_order_by_key(kind: str) -> None:
    with TestDriver(app(kind)) as driver:
        driver.feed("products", products({f"p{at}": at for at in range(16)}))
        assert priced(driver, "p3") == [3]
        driver.feed("products", products({f"p{at}": 100 + at for at in range(16)}))
        for stream in ("products", "orders"):
            driver.grow(stream, 4)
        driver.restart()
        driver.feed("products", products({f"p{at}": 200 + at for at in range(0, 16, 2)}))
        driver.run_until_idle()
        driver.advance(timedelta(minutes=10))
        assert priced(driver, *(f"p{at}" for at in range(16))) == [
            200 + at if at % 2 == 0 else 100 + at for at in range(16)
        ]


def test_a_broadcast_table_grows_alone() -> None:
    with TestDriver(app("Broadcast")) as driver:
        driver.feed("products", products({f"p{at}": at for at in range(16)}))
        driver.run_until_idle()
        driver.grow("products", 8)
        driver.restart()
        driver.feed("products", products({f"p{at}": 200 + at for at in range(16)}))
        driver.run_until_idle()
        driver.advance(timedelta(minutes=10))
        assert priced(driver, *(f"p{at}" for at in range(16))) == [200 + at for at in range(16)]


def test_broadcast_growth_that_hides_which_value_is_newer_is_refused() -> None:
    with TestDriver(app("Broadcast")) as driver:
        driver.feed("products", products({f"p{at}": at for at in range(16)}))
        driver.run_until_idle()
        driver.feed("products", products({f"p{at}": 100 + at for at in range(16)}))
        driver.grow("products", 3)
        with pytest.raises(UserActionError, match=r"products grew from 2 to 3 partitions, which is not a multiple"):
            driver.restart()
        driver.grow("products", 4)
        driver.restart()
        assert priced(driver, *(f"p{at}" for at in range(16))) == [100 + at for at in range(16)]


def test_an_edit_that_would_cause_such_growth_is_refused_beforehand() -> None:
    wider = app("Broadcast")
    next(stream for stream in wider["spec"]["streams"] if stream["name"] == "products")["partitions"] = 3
    with TestDriver(app("Broadcast")) as driver:
        driver.feed("products", products({f"p{at}": at for at in range(16)}))
        driver.run_until_idle()
        with pytest.raises(UserActionError, match=r"NotAMultiple: products grew from 2 to 3 partitions"):
            driver.restart(wider)
        driver.restart(app("Broadcast"))
        assert priced(driver, *(f"p{at}" for at in range(16))) == [*range(16)]


@each_kind
@pytest.mark.parametrize("slots", [1, 2])
def test_two_sources_feed_one_table(kind: str, slots: int) -> None:
    spec = app(kind, sources=["products", "more"])
    spec["spec"]["streams"].append({**spec["spec"]["streams"][0], "name": "more"})
    with TestDriver(spec, slots=slots) as driver:
        driver.feed("products", products({"a": 1, "b": 2}))
        driver.feed("more", products({"c": 3}))
        assert priced(driver, "a", "b", "c") == [1, 2, 3]
        driver.feed("more", products({"a": 4}))
        assert priced(driver, "a", "b", "c") == [4, 2, 3]


@each_kind
def test_a_key_may_be_computed_of_a_sources_rows(kind: str) -> None:
    spec = app(kind, select=["after.id AS sku", "after.price AS price", "concat(after.id, '!') AS name"])
    spec["spec"]["streams"][0] |= {"key": ["id"], "schema": "id STRING, after STRUCT<id: STRING, price: BIGINT>"}
    if kind == "Partitioned":
        # By what its rows are partitioned, the planner can't tell.
        with pytest.raises(UserActionError, match="KeyMismatch"):
            TestDriver(spec)
        return
    with TestDriver(spec) as driver:
        driver.feed("products", [{"id": "r1", "after": {"id": "a", "price": 1}}])
        assert priced(driver, "a", "r1") == [1, None]
        driver.feed("products", [{"id": "r2", "after": {"id": "a", "price": 2}}, {"id": "r3", "after": None}])
        assert priced(driver, "a", "b") == [2, None]
        driver.lose_local_state()
        driver.restart()
        assert priced(driver, "a", "b") == [2, None]


def test_a_key_that_only_spark_computes_is_refused_by_name() -> None:
    with pytest.raises(UserActionError, match=r"the key sku of table product is lower\(sku\) AS sku, which only Spark"):
        TestDriver(app("Broadcast", select=["lower(sku) AS sku", "price"]))


@each_kind
def test_a_table_keeps_what_its_select_says(kind: str) -> None:
    spec = app(kind, select=["sku", "price AS cost"], lookup={"select": ["sku", "n", "cost AS price"]})
    with TestDriver(spec) as driver:
        driver.feed("products", products({"a": 1}))
        assert priced(driver, "a", "b") == [1, None]
        if kind == "Partitioned":
            assert driver.kept_rows("product") == [{"sku": "a", "cost": 1}]


def test_a_jump_leaves_out_earlier_records_at_all_locations() -> None:
    spec = app("Broadcast", partitions=1)
    with TestDriver(spec) as driver:
        driver.feed("products", products({"a": 1, "b": 2}))
        driver.run_until_idle()
        driver.feed("products", products({"a": 5}))
        at = StreamPartition("products", 0)
        JumpFile.beside(driver._places.query).write(Jump("one", {at: 2}, {at: 3}))  # noqa: SLF001 - `holdfast offsets --set`
        driver.restart()
        driver.feed("products", products({"c": 3}))
        assert priced(driver, "a", "b", "c") == [1, 2, 3]
        driver.lose_local_state()
        driver.restart()
        assert priced(driver, "a", "b", "c") == [1, 2, 3]
