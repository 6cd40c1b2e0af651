"""The files of a table, and the data sets made from them, in a bucket of a real server."""

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet as pq

from holdfast_runtime.state.shared.data_sets import DataSets
from holdfast_runtime.state.shared.shared_table import SharedTable
from holdfast_runtime.state.sorted.stored_pieces import PIECE
from holdfast_runtime.state.store.directory import TaskIdentity, boot_id
from holdfast_runtime.testing import TestDriver
from tests.engine.fed_tables import priced
from tests.engine.file_tables import EVERY, filed
from tests.s3.gateway import Bucket, Gateway

TABLE = TaskIdentity("priced", "1", "product")


def written(bucket: Bucket, prices: dict[str, int]) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"sku": list(prices), "price": list(prices.values())}), sink)
    bucket.storage.write("part-0.parquet", [sink.getvalue()], replace=True)


def in_bucket(bucket: Bucket) -> dict[str, Any]:
    made = filed(Path("/"), files={"location": bucket.location, "format": "parquet"})
    made["spec"]["runtime"] = {"sparkConf": bucket.conf}
    return made


def test_files_of_a_table_lie_in_a_bucket(gateway: Gateway) -> None:
    bucket = gateway.bucket()
    written(bucket, {"a": 1, "b": 2})
    with TestDriver(in_bucket(bucket)) as driver:
        assert priced(driver, "a", "b", "c") == [1, 2, None]
        written(bucket, {"a": 5, "c": 3, "d": 4})
        driver.advance(EVERY)
        driver.run_until_idle()
        assert priced(driver, "a", "b", "c") == [5, None, 3]


def test_a_buckets_data_set_stays_until_a_newer_is_used(gateway: Gateway, tmp_path: Path) -> None:
    bucket = gateway.bucket()
    sets = DataSets(bucket.storage, TABLE)
    for number in (3, 4):
        table = table_at(tmp_path / str(number))
        with table.changing():
            table.put_many([PIECE + b"large", b"small"], [bytes(5000), b"%d" % number])
            table.commit(1, number, {})
        sets.write(number, {"columns": [], "files": []}, table)
    newest = sets.newest()
    assert newest is not None
    assert newest.number == 4
    other = table_at(tmp_path / "other")
    with other.changing():
        assert sets.fetch(other, 3)
        assert other.get_many([b"small"]) == [b"3"]
        sets.tidy(4)
        other.drop()
        assert not sets.fetch(other, 3)
        assert sets.fetch(other, 4)


def table_at(path: Path) -> SharedTable:
    return SharedTable(path, TABLE, boot_id(), lambda _: None, PIECE)
