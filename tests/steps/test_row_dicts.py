"""A batch as dicts is what pyarrow makes of it, whatever its columns are called and however many there are."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from holdfast_runtime.steps.row_dicts import TimeUnusableError, row_dicts

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


FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999


@pytest.mark.parametrize("zone", ["UTC", None])
def test_times_are_datetimes_to_the_ends_of_what_python_knows(zone: str | None) -> None:
    kind = pa.timestamp("us", zone)
    rows = pa.record_batch(
        {"at": pa.array([FIRST, LAST, None], kind), "all": pa.array([[FIRST], [LAST], []], pa.list_(kind))}
    )
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    first, last = (moment if zone else moment.replace(tzinfo=None) for moment in (first, last))
    assert row_dicts(rows) == [{"at": first, "all": [first]}, {"at": last, "all": [last]}, {"at": None, "all": []}]


@pytest.mark.parametrize("micros", [FIRST - 1, LAST + 1, 1 << 62])
@pytest.mark.parametrize("zone", ["UTC", None])
def test_a_time_without_a_datetime_of_python_is_an_error(micros: int, zone: str | None) -> None:
    column = pa.array([None, micros], pa.timestamp("us", zone))
    with pytest.raises(TimeUnusableError, match="step x: column at holds a time outside of the years 1 to 9999"):
        row_dicts(pa.record_batch({"at": column}), "step x: ")
    inside = pa.StructArray.from_arrays([pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), column)], ["ends"])
    with pytest.raises(TimeUnusableError, match=r"column of.ends\[\] holds a time"):
        row_dicts(pa.record_batch({"of": inside}).slice(1))
    assert row_dicts(pa.record_batch({"of": inside}).slice(0, 1)) == [{"of": {"ends": [None]}}]


def test_a_day_outside_of_the_calendar_is_an_error() -> None:
    with pytest.raises(TimeUnusableError, match="column day holds a time outside"):
        row_dicts(pa.record_batch({"day": pa.array([-719_163], pa.date32())}))
