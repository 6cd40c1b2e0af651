"""Made-up rows: the same at each replay, due by the clock alone, and a function's mistakes named after it."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import UserActionError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.generator import GeneratedStream, Generator, Pace
from holdfast_runtime.streams.records import FETCHED, OffsetBounds, OffsetRange, StreamMissingError, written_batch
from tests.error_codes import has_code

SECOND = 1000


def rows(partition: int, offset: int, count: int) -> pa.RecordBatch:
    numbers = range(offset, offset + count)
    return pa.RecordBatch.from_pydict({"id": [f"{partition}-{i}" for i in numbers], "n": list(numbers)})


def generator(make: Callable[[int, int, int], Any] = rows, now: int = 10 * SECOND) -> Generator:
    stream = GeneratedStream("ads", 2, ("id",), lambda batch: batch.column("n").cast(pa.string()).cast(pa.binary()))
    return Generator("demo:ads", make, [stream], pace=Pace(3, 0), clock=lambda: now)


def of(partition: int, start: int, end: int) -> OffsetRange:
    return OffsetRange(StreamPartition("ads", partition), start, end)


def test_a_range_is_fetched_as_records() -> None:
    fetched = generator().fetch(of(1, 2, 4))
    assert fetched.schema == FETCHED
    assert fetched.to_pydict() == {
        "offset": [2, 3],
        "key": [b"1-2", b"1-3"],
        "value": [b"2", b"3"],
        "timestamp": [2000, 2666],
    }
    assert generator().fetch(of(1, 2, 2)).num_rows == 0


def test_the_end_follows_the_clock() -> None:
    ads = [StreamPartition("ads", i) for i in range(2)]
    assert generator(now=0).bounds("ads") == {ads[0]: OffsetBounds(0, 0), ads[1]: OffsetBounds(0, 0)}
    assert generator(now=334).bounds("ads") == {ads[0]: OffsetBounds(0, 1), ads[1]: OffsetBounds(0, 0)}
    assert generator(now=10 * SECOND).bounds("ads") == {ads[0]: OffsetBounds(0, 15), ads[1]: OffsetBounds(0, 15)}
    assert generator(now=-5).bounds("ads") == {ads[0]: OffsetBounds(0, 0), ads[1]: OffsetBounds(0, 0)}


@given(
    rate=st.integers(1, 10**6),
    other=st.integers(1, 10**6),
    count=st.integers(1, 50),
    times=st.lists(st.integers(0, 10**7)),
)
def test_all_partitions_together_keep_the_rate_and_never_go_back(
    rate: int, other: int, count: int, times: list[int]
) -> None:
    pace, before = Pace(rate, since=5), [0] * count
    for i, now in enumerate(sorted(times)):
        if i == len(times) // 2:
            pace = pace.changed(other, now)
        ends = [pace.end(partition, count, now) for partition in range(count)]
        assert sum(ends) == pace.total(now)
        assert max(ends) - min(ends) <= 1
        assert all(end >= old for end, old in zip(ends, before, strict=True))
        before = ends
    assert Pace(rate, 0).total(SECOND) == rate


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda p, o, n: rows(p, o, n + 1),
            r"demo:ads\(partition=1, offset=5, count=3\) for stream ads gave 4 rows wh",
        ),
        (lambda p, o, n: rows(p, o, n).to_pylist(), "gave a list; it must give a pyarrow.RecordBatch"),
        (lambda p, o, n: rows(p, o, n).select(["n"]), "gave no column id, which is the key of stream ads"),
        (lambda p, o, n: p // (o * n - o * n), "failed: ZeroDivisionError"),
    ],
)
def test_a_functions_mistake_names_the_call(make: Callable[[int, int, int], Any], message: str) -> None:
    with pytest.raises(UserActionError, match=message, check=has_code("GeneratorFunctionError")):
        generator(make).fetch(of(1, 5, 8))


def test_it_can_not_be_written() -> None:
    with pytest.raises(UserActionError, match="ads/0 can't be written", check=has_code("ReadOnlyError")):
        generator().append(StreamPartition("ads", 0), written_batch([None], [b""], 0))


def test_what_is_not_there_is_an_error() -> None:
    with pytest.raises(StreamMissingError, match="there is no such stream"):
        generator().bounds("clicks")
    with pytest.raises(StreamMissingError, match="ads has 2 partitions"):
        generator().fetch(of(2, 0, 1))
