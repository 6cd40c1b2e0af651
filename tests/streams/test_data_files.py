"""Reading the files of a data set: formats, types, what is left out, and what errors say."""

import gzip
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs as pafs
from pyarrow import parquet as pq

from holdfast.errors import WorldChangeError
from holdfast_runtime.streams.data_files import DataFiles

TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema([("sku", pa.string()), ("price", pa.int64()), ("at", TIME)])


def at(folder: Path, kind: str, schema: pa.Schema = SCHEMA) -> DataFiles:
    return DataFiles(pafs.LocalFileSystem(), str(folder), f"file://{folder}", kind, schema)


def rows(data: DataFiles) -> list[dict[str, Any]]:
    read: list[int] = []
    rows_read = [row for batch in data.rows(data.there(), read.append) for row in batch.to_pylist()]
    assert not rows_read or sum(read) > 0, "how much is read is told"
    return rows_read


def test_parquet_is_read_by_the_names_of_columns(tmp_path: Path) -> None:
    table = pa.table(
        {
            "AT": pa.array([1, None], pa.timestamp("ns", "UTC")),
            "other": ["x", "y"],
            "Price": pa.array([1, 2], pa.int32()),
            "sku": ["a", "b"],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1)
    read_rows = rows(at(tmp_path, "parquet"))
    assert [(row["sku"], row["price"]) for row in read_rows] == [("a", 1), ("b", 2)]
    assert read_rows[0]["at"] is not None
    assert read_rows[1]["at"] is None


def test_csv_has_names_first_and_nulls_where_nothing_stands(tmp_path: Path) -> None:
    text = 'price,sku,at\n1,a,2026-01-01 00:00:00\n,"b,c",2026-01-01T01:00:00+01:00\n3,,\n'
    (tmp_path / "a.csv").write_text(text)
    read_rows = rows(at(tmp_path, "csv"))
    assert [(row["sku"], row["price"]) for row in read_rows] == [("a", 1), ("b,c", None), (None, 3)]
    assert read_rows[0]["at"] == read_rows[1]["at"], "a time without a zone is in UTC"
    assert read_rows[2]["at"] is None


def test_json_has_an_object_a_line(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"sku": "a", "price": 1}\n\n{"sku": "b", "more": [1]}')
    assert [(row["sku"], row["price"]) for row in rows(at(tmp_path, "json"))] == [("a", 1), ("b", None)]


def test_text_files_may_be_compressed(tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b'{"sku": "a", "price": 1}\n'))
    assert [row["sku"] for row in rows(at(tmp_path, "json"))] == ["a"]
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "a.csv.gz").write_bytes(gzip.compress(b"sku,price,at\na,1,\n"))
    assert [row["sku"] for row in rows(at(tmp_path / "csv", "csv"))] == ["a"]


def test_a_long_file_keeps_its_lines_whole(tmp_path: Path) -> None:
    many = 200_000
    (tmp_path / "a.json").write_text(
        "".join(f'{{"sku": "sku-{n}", "price": {n}, "note": "{"x" * 40}"}}\n' for n in range(many))
    )
    read_rows = rows(at(tmp_path, "json"))
    assert [row["price"] for row in read_rows] == list(range(many))


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    for name in ("a.json", "a.csv"):
        (tmp_path / name).touch()
        assert rows(at(tmp_path / name, name[2:])) == []
    (tmp_path / "a.csv").write_text("sku,price,at\n")
    assert rows(at(tmp_path / "a.csv", "csv")) == []


def test_files_are_read_by_name_without_the_marks_of_writers(tmp_path: Path) -> None:
    for name in ("b.json", "a.json", "_SUCCESS", ".a.json.crc"):
        (tmp_path / name).write_text(f'{{"sku": "{name}"}}\n')
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "c.json").write_text('{"sku": "c.json"}\n')
    assert [row["sku"] for row in rows(at(tmp_path, "json"))] == ["a.json", "b.json"]
    assert [row["sku"] for row in rows(at(tmp_path / "b.json", "json"))] == ["b.json"], "a file by its own name"


def _json(folder: Path) -> DataFiles:
    (folder / "a.json").write_text('{"sku": "a"}\n{"sku": 1, "price": "x"}\n')
    return at(folder, "json")


def _csv(folder: Path) -> DataFiles:
    (folder / "a.csv").write_text("sku,price,at\na,1,\nb,x,\n")
    return at(folder, "csv")


def _time(folder: Path) -> DataFiles:
    (folder / "a.csv").write_text("sku,price,at\na,1,yesterday\n")
    return at(folder, "csv")


def _parquet(folder: Path) -> DataFiles:
    pq.write_table(pa.table({"sku": ["a"], "price": ["x"], "at": pa.array([None], TIME)}), folder / "a.parquet")
    return at(folder, "parquet")


def _typo(folder: Path) -> DataFiles:
    pq.write_table(pa.table({"sku": ["a"], "pirce": [1], "at": pa.array([None], TIME)}), folder / "a.parquet")
    return at(folder, "parquet")


def _torn(folder: Path) -> DataFiles:
    (folder / "a.parquet").write_bytes(b"PAR1 and no more")
    return at(folder, "parquet")


def _nothing(folder: Path) -> DataFiles:
    return at(folder / "nowhere", "parquet")


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (_json, r"line 2 of .*a\.json: field sku"),
        (_csv, r"a\.csv.*'x'"),
        (_time, r"column at of .*a\.csv.*yesterday"),
        (_parquet, r"column price of .*a\.parquet is string, and no int64"),
        (_typo, r"a\.parquet has no column price; did you mean pirce\?"),
        (_torn, r"a\.parquet can't be read as parquet"),
        (_nothing, r"no file at file://.*nowhere: put parquet files there"),
    ],
)
def test_what_does_not_fit_is_said_with_file_and_place(
    tmp_path: Path, made: Callable[[Path], DataFiles], says: str
) -> None:
    with pytest.raises(WorldChangeError, match=says):
        rows(made(tmp_path))


def test_a_file_that_has_just_changed_is_waited_for(tmp_path: Path) -> None:
    file, waited, texts = tmp_path / "a.json", list[float](), ["", '{"sku": "a"}\n', '{"sku": "a"}\n{"sku": "b"}\n']
    data = at(tmp_path, "json")

    def wait(seconds: float) -> None:
        waited.append(seconds)
        if texts:
            file.write_text(texts.pop(0))

    wait(1)
    assert data.settled(wait) == data.there()
    assert (texts, [0 < seconds <= 1 for seconds in waited]) == ([], [True] * 4)
    hour = time.time() - 3600
    os.utime(file, (hour, hour))
    assert data.settled(wait) == data.there()
    assert len(waited) == 4, "nobody waits for what is old"


def test_a_file_that_goes_on_changing_is_an_error(tmp_path: Path) -> None:
    file, data = tmp_path / "a.json", at(tmp_path, "json")
    file.write_text("")

    def more(_: float) -> None:
        with file.open("a") as open_file:
            open_file.write('{"sku": "a"}\n')

    with pytest.raises(WorldChangeError, match="is being written; it is read when nothing has changed for 1 s"):
        data.settled(more)
