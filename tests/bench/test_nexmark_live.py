"""Since when a row of an answer of Nexmark could have been known, by the events that it is made of."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from bench.nexmark.kafka.live import Live, since

MIDNIGHT = datetime(2026, 3, 2, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return MIDNIGHT + timedelta(seconds=seconds)


def micros(seconds: float) -> int:
    return int(at(seconds).timestamp() * 1e6)


def rows(**columns: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_an_update_is_known_with_its_auctions_nth_bid() -> None:
    bids = rows(auction=[7, 8, 7, 7, 7], date_time=[at(-5), at(-4), at(-3), at(1), at(2)])
    updates = pa.table(
        {"auction": [7, 7, 8, 7], "total_bids": [2, 1, 1, 2], "window_start": [at(0), at(0), at(-86_400), at(-86_400)]}
    )
    assert since("q17", updates, {"bid": bids}).tolist() == [micros(2), micros(1), micros(-4), micros(-3)]


def test_a_seller_is_known_with_person_and_first_auction() -> None:
    people = rows(id=[1, 2, 3], date_time=[at(1), at(9), at(12)])
    auctions = rows(seller=[1, 1, 2, 3], date_time=[at(5), at(6), at(2), at(25)])
    answer = pa.table({"id": [2, 1, 3], "starttime": [at(0), at(0), at(10)]})
    # The third opened nothing in the window in which it came.
    assert since("q8", answer, {"person": people, "auction": auctions}).tolist() == [micros(9), micros(5), 0]


def test_a_bid_with_its_auction_is_known_with_the_later() -> None:
    answer = pa.table({"date_time": [at(3), at(4)], "auction_date_time": [at(1), at(8)]})
    assert since("q20", answer, {}).tolist() == [micros(3), micros(8)]


def test_the_hottest_auction_is_known_when_its_window_ends() -> None:
    assert since("q5", pa.table({"window_end": [at(4)]}), {}).tolist() == [micros(4)]


@pytest.mark.parametrize("stream", ["person", "auction", "bid"])
def test_live_events_have_the_times_at_which_they_are_due(stream: str) -> None:
    live = Live((stream,), rate=1000, began=micros(0), before=2, seconds=3)
    times = sorted(time for part in live.parts for time in part.due.tolist())
    assert times[0] >= micros(-2)
    assert times[-1] < micros(3)
    assert len(times) == live.events[stream].num_rows
    for part in live.parts:
        assert part.due.tolist() == sorted(part.due.tolist())
