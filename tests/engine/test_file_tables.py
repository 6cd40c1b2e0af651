"""Tables of files: loaded before inputs are read, replaced as a whole when files change, whatever happens meanwhile."""

from pathlib import Path

import pytest

from holdfast.errors import HoldfastError
from holdfast_runtime.testing import Crashed, TestDriver
from tests.engine.fed_tables import app, order, priced, prices_of, without_table
from tests.engine.file_tables import EVERY, filed, put
from tests.error_codes import has_code


def test_files_are_loaded_before_inputs_are_read(tmp_path: Path) -> None:
    put(tmp_path / "files", {"a": 1, "b": 2})
    with TestDriver(filed(tmp_path / "files")) as driver:
        assert priced(driver, "a", "b", "c") == [1, 2, None]


def test_inputs_wait_until_files_are_there(tmp_path: Path) -> None:
    with TestDriver(filed(tmp_path / "files")) as driver:
        order(driver, "a")
        driver.run_until_idle()
        assert driver.rows("out") == []
        put(tmp_path / "files", {"a": 1})
        driver.advance(4 * EVERY)
        driver.run_until_idle()
        assert prices_of(driver, [0]) == [1]


def test_without_bootstrap_inputs_do_not_wait(tmp_path: Path) -> None:
    with TestDriver(filed(tmp_path / "files", bootstrap=False)) as driver:
        assert priced(driver, "a") == [None]
        put(tmp_path / "files", {"a": 1})
        driver.advance(4 * EVERY)
        driver.run_until_idle()
        assert priced(driver, "a") == [1]


def test_a_changed_file_replaces_the_whole_data_set(tmp_path: Path) -> None:
    put(tmp_path / "files", {"a": 1, "b": 2})
    with TestDriver(filed(tmp_path / "files")) as driver:
        assert priced(driver, "a", "b") == [1, 2]
        put(tmp_path / "files", {"a": 5, "c": 3})
        assert priced(driver, "a") == [1], "it is not yet time to look"
        driver.advance(EVERY)
        driver.run_until_idle()
        assert priced(driver, "a", "b", "c") == [5, None, 3]


def test_a_data_set_is_switched_to_when_no_rows_come(tmp_path: Path) -> None:
    put(tmp_path / "files", {"a": 1})
    with TestDriver(filed(tmp_path / "files")) as driver:
        driver.run_until_idle()
        put(tmp_path / "files", {"a": 2})
        driver.advance(EVERY)
        # So locations have fetched it before the next rows are there.
        assert len(driver.run_until_idle()) == 1


def test_a_keys_last_row_in_order_of_file_names_counts(tmp_path: Path) -> None:
    put(tmp_path / "files", {"a": 1, "b": 2}, "1.json")
    put(tmp_path / "files", {"b": 3}, "2.json")
    put(tmp_path / "files", {"b": 9}, "_SUCCESS")
    with TestDriver(filed(tmp_path / "files")) as driver:
        assert priced(driver, "a", "b") == [1, 3]


def test_a_broken_file_leaves_the_data_set_that_is_served(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    put(tmp_path / "files", {"a": 1})
    with TestDriver(filed(tmp_path / "files")) as driver:
        assert priced(driver, "a") == [1]
        put(tmp_path / "files", {"b": 1, "a": "cheap"})
        driver.advance(EVERY)
        assert priced(driver, "a", "b") == [1, None]
        assert "line 2 of" in caplog.text
        assert "price" in caplog.text
        put(tmp_path / "files", {"a": 7})
        driver.advance(4 * EVERY)
        assert priced(driver, "a") == [7]


def test_a_restart_goes_on_with_unchanged_files_and_reads_none(tmp_path: Path) -> None:
    put(tmp_path / "files", {"a": 1})
    with TestDriver(filed(tmp_path / "files"), tmp_path / "data") as driver:
        assert priced(driver, "a") == [1]
        sets = set((tmp_path / "data").rglob("data-set.json"))
        driver.restart()
        assert priced(driver, "a") == [1]
        assert set((tmp_path / "data").rglob("data-set.json")) == sets


def test_a_restart_waits_until_files_that_changed_meanwhile_are_loaded(tmp_path: Path) -> None:
    put(tmp_path / "files", {"a": 1})
    with TestDriver(filed(tmp_path / "files")) as driver:
        assert priced(driver, "a") == [1]
        put(tmp_path / "files", {"a": 2})
        driver.restart()
        assert priced(driver, "a") == [2]


def test_a_restart_without_files_keeps_the_data_set(tmp_path: Path) -> None:
    put(tmp_path / "files", {"a": 1})
    with TestDriver(filed(tmp_path / "files")) as driver:
        assert priced(driver, "a") == [1]
        (tmp_path / "files" / "prices.json").unlink()
        driver.restart()
        assert priced(driver, "a") == [1]


def test_a_location_that_lost_its_disk_fetches_the_data_set(tmp_path: Path) -> None:
    put(tmp_path / "files", {"a": 1})
    with TestDriver(filed(tmp_path / "files")) as driver:
        assert priced(driver, "a") == [1]
        driver.lose_local_state()
        driver.restart()
        assert priced(driver, "a") == [1]


def test_data_sets_that_no_batch_needs_are_removed(tmp_path: Path) -> None:
    put(tmp_path / "files", {"a": 0})
    with TestDriver(filed(tmp_path / "files"), tmp_path / "data") as driver:
        for price in range(1, 5):
            assert priced(driver, "a") == [price - 1]
            put(tmp_path / "files", {"a": price})
            driver.advance(EVERY)
            driver.run_until_idle()
            assert len(list((tmp_path / "data").rglob("data-set.json"))) <= 2
        assert priced(driver, "a") == [4]


@pytest.mark.parametrize("bootstrap", [True, False])
def test_a_changed_schema_loads_unchanged_files_again(tmp_path: Path, *, bootstrap: bool) -> None:
    put(tmp_path / "files", {"a": 1})
    with TestDriver(filed(tmp_path / "files"), tmp_path / "data") as driver:
        assert priced(driver, "a") == [1]
    wider = filed(tmp_path / "files", schema="sku STRING, price BIGINT, owner STRING", bootstrap=bootstrap)
    with TestDriver(wider, tmp_path / "data") as driver:
        assert priced(driver, "a") == [1]
        assert "owner" in driver.rows("out")[-1]


def test_a_batch_that_names_a_lost_data_set_says_so(tmp_path: Path) -> None:
    put(tmp_path / "files", {"a": 1})
    with TestDriver(filed(tmp_path / "files"), tmp_path / "data") as driver:
        assert priced(driver, "a") == [1]
        for manifest in (tmp_path / "data").rglob("set-*/manifest-*"):
            manifest.unlink()
        driver.lose_local_state()
        driver.restart()
        order(driver, "a")
        with pytest.raises(HoldfastError, match="data set", check=has_code("DataSetGoneError")):
            driver.run_until_idle()


def test_a_table_may_be_added_while_a_batch_is_planned(tmp_path: Path) -> None:
    put(tmp_path / "files", {"a": 1})
    with TestDriver(without_table(app("Broadcast"))) as driver:
        order(driver, "a")
        driver.crash_at("offsets durable")
        with pytest.raises(Crashed):
            driver.run_until_idle()
        driver.restart(filed(tmp_path / "files"))
        assert priced(driver, "a") == [1]


@pytest.mark.parametrize("step", ["offsets durable", "lock held", "manifest written", "manifest renamed", "slots done"])
def test_a_crash_during_a_switch_of_data_sets_changes_nothing(tmp_path: Path, step: str) -> None:
    put(tmp_path / "files", {"a": 1})
    with TestDriver(filed(tmp_path / "files")) as driver:
        assert priced(driver, "a") == [1]
        put(tmp_path / "files", {"a": 2})
        driver.advance(EVERY)
        order(driver, "a")
        driver.crash_at(step)
        with pytest.raises(Crashed):
            driver.run_until_idle()
        # The batch that was planned with the second data set is run with it, though there is a third one.
        put(tmp_path / "files", {"a": 3})
        driver.restart()
        driver.run_until_idle()
        assert prices_of(driver, [1]) == [2]
        assert priced(driver, "a") == [3]


def test_select_keeps_some_columns_under_new_names(tmp_path: Path) -> None:
    put(tmp_path / "files", {"a": 1})
    chosen = filed(tmp_path / "files", schema="sku STRING, price BIGINT, note STRING", select=["sku", "price AS price"])
    with TestDriver(chosen) as driver:
        assert priced(driver, "a") == [1]
        assert "note" not in driver.rows("out")[0]
