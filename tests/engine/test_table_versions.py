"""Tables whose data set is replaced as a whole: a version is seen whole or not at all, whatever dies."""

from typing import Any

import pytest

from holdfast.control.messages import EndOfStreamMessage, MessageNumber, encode
from holdfast.control.runs import WriterRun
from holdfast_runtime.state.shared.shared_table import SHARED_STEPS
from holdfast_runtime.testing import Crashed, TestDriver
from tests.engine.fed_tables import app, each_kind, priced, products


def versioned(kind: str, **table: Any) -> dict[str, Any]:
    """On the embedded log, which has no headers, a data set ends with an end-of-stream message."""
    spec = app(kind, versioned=True, **table)
    spec["spec"]["streams"][0]["control"] = True
    return spec


@each_kind
@pytest.mark.parametrize("slots", [1, 2])
def test_a_version_serves_while_the_next_one_loads(kind: str, slots: int) -> None:
    with TestDriver(versioned(kind), slots=slots) as driver:
        driver.feed("products", products({"a": 1, "b": 2}))
        assert priced(driver, "a", "b") == [None, None], "no data set is whole yet"
        driver.end("products")
        assert priced(driver, "a", "b") == [1, 2]
        driver.feed("products", products({"b": 3, "c": 4}))
        assert priced(driver, "a", "b", "c") == [1, 2, None]
        driver.end("products")
        assert priced(driver, "a", "b", "c") == [None, 3, 4]


@each_kind
def test_of_versions_ending_in_one_batch_only_the_newest_stays(kind: str) -> None:
    with TestDriver(versioned(kind)) as driver:
        for price in range(5):
            driver.feed("products", products({"a": price, f"only-{price}": price}))
            driver.end("products")
        driver.feed("products", products({"a": 77}))
        assert priced(driver, "a", "only-4", "only-3") == [4, 4, None]
        if kind == "Partitioned":
            assert sorted(row["sku"] for row in driver.kept_rows("product")) == ["a", "only-4"]


@each_kind
@pytest.mark.parametrize("lose", [False, True], ids=["disk kept", "disk lost"])
def test_a_load_that_dies_half_way_leaves_the_version_before(kind: str, lose: bool) -> None:
    spec = versioned(kind)
    spec["spec"]["runtime"] = {"trigger": {"maxRecordsPerPartition": 2}}
    with TestDriver(spec) as driver:
        driver.feed("products", products({f"p{at}": at for at in range(8)}))
        driver.end("products")
        assert priced(driver, "p1", "p7") == [1, 7]
        driver.feed("products", products({f"p{at}": 10 + at for at in range(8)}))
        driver.run()
        if lose:
            driver.lose_local_state()
        driver.restart()
        assert priced(driver, "p1", "p7") == [1, 7]
        driver.end("products")
        assert priced(driver, "p1", "p7") == [11, 17]


@pytest.mark.parametrize("step", SHARED_STEPS)
@pytest.mark.parametrize("lose", [False, True], ids=["disk kept", "disk lost"])
@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_version_switches_once_wherever_the_load_dies(step: str, lose: bool, after: int) -> None:
    with TestDriver(versioned("Broadcast"), slots=2) as driver:
        driver.feed("products", products({f"p{at}": at for at in range(200)}))
        driver.end("products")
        assert priced(driver, "p1", "p7") == [1, 7]
        driver.crash_at(step, after=after)
        for price in (100, 200):
            driver.feed("products", products({f"p{at}": price + at for at in range(200)}))
            driver.end("products")
            try:
                driver.run_until_idle()
            except Crashed:
                if lose:
                    driver.lose_local_state()
                driver.restart()
            assert priced(driver, "p1", "p7") == [price + 1, price + 7]


@each_kind
def test_a_data_set_of_several_producers_ends_with_the_last(kind: str) -> None:
    with TestDriver(versioned(kind)) as driver:
        driver.feed("products", products({"a": 1}))
        for at, task in enumerate(("one", "two", "three")):
            message = encode(EndOfStreamMessage("products", MessageNumber(1, at), task, 3))
            assert priced(driver, "a") == [None]
            driver._records.say("products", message, 0)  # noqa: SLF001 - as another app does
        assert priced(driver, "a") == [1]


@each_kind
def test_a_rerun_producer_ends_its_data_set_with_all_tasks(kind: str) -> None:
    with TestDriver(versioned(kind)) as driver:
        driver.feed("products", products({"a": 1}))
        old, new = WriterRun("p/1/x", 1), WriterRun("p/2/y", 1)
        for task, run in (("one", old), ("two", new), ("one", new._replace(attempt=2))):
            message = encode(EndOfStreamMessage("products", MessageNumber(1, 0), task, 2, run))
            assert priced(driver, "a") == [None]
            driver._records.say("products", message, 0)  # noqa: SLF001 - as another app does
        assert priced(driver, "a") == [1]


@each_kind
def test_a_producer_with_new_tasks_ends_its_data_set_once(kind: str) -> None:
    first = WriterRun("p/1/x", 1)
    then = first._replace(attempt=2)
    with TestDriver(versioned(kind)) as driver:
        driver.feed("products", products({"a": 1}))
        for task, of, run in (("gone", 3, first), ("two", 3, first), ("one", 2, then), ("three", 3, first)):
            message = encode(EndOfStreamMessage("products", MessageNumber(run.attempt, 0), task, of, run))
            driver._records.say("products", message, 0)  # noqa: SLF001 - as another app does
            assert priced(driver, "a") == [None]
        for task, of, run in (("two", 2, then), ("one", 1, then._replace(attempt=3))):
            message = encode(EndOfStreamMessage("products", MessageNumber(run.attempt, 0), task, of, run))
            driver._records.say("products", message, 0)  # noqa: SLF001 - as another app does
            assert priced(driver, "a") == [1], "what is said again is not the end of an empty data set"


@each_kind
def test_a_versioned_table_starts_anew_with_no_version(kind: str) -> None:
    with TestDriver(versioned(kind, persistent=False)) as driver:
        driver.feed("products", products({"a": 1}))
        driver.end("products")
        driver.feed("products", products({"a": 2}))
        assert priced(driver, "a") == [1]
        driver.restart()
        assert priced(driver, "a") == [1], "all data sets are loaded again"
        driver.end("products")
        assert priced(driver, "a") == [2]
