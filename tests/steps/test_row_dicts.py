"""A batch as dicts is what pyarrow makes of it, whatever its columns are called and however many there are."""

import pyarrow as pa
import pytest

from holdfast_runtime.steps.row_dicts import row_dicts

NAMES = ["n0", "v1", "class", "a b", 'quo"te', "back\\slash", "{}", "Größe", "", "lambda: 1"]


@pytest.mark.parametrize("width", range(len(NAMES) + 1))
@pytest.mark.parametrize("length", [0, 1, 3])
def test_rows_are_those_of_pyarrow(width: int, length: int) -> None:
    columns = [pa.array([place * 10 + row for row in range(length)], pa.int64()) for place in range(width)]
    rows = pa.RecordBatch.from_arrays(columns, names=NAMES[:width])
    assert row_dicts(rows) == rows.to_pylist()


def test_a_hundred_columns_are_no_trouble() -> None:
    rows = pa.record_batch({f"c{place}": [place, None] for place in range(100)})
    assert row_dicts(rows) == rows.to_pylist()
