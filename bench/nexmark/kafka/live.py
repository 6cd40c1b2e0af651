"""Events of Nexmark that come at a steady rate, and since when each row of an answer could have been known.

Events have the times at which they are sent, to the topics that `fill` would have filled; some seconds of them have
been there before. A result can be known when the last event has come that it is made of: then its way begins. Must not
know an engine.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bench.kafka.topics import filler
from bench.nexmark.events import EPOCH, Nexmark
from bench.nexmark.kafka.topics import encoded
from bench.nexmark.market import KEYS, PARTS
from holdfast_runtime.streams.record_keys import key_bytes, place, split

LINGER = 2
"""Milliseconds for which records wait for each other; without, many small batches cost the broker a core."""
STEP = 0.01
"""Seconds between two sendings."""
_SECOND = 1_000_000
_WINDOW, _DAY = 10 * _SECOND, 86_400 * _SECOND
Micros = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Part:
    """The records of a partition, in their order, with the times at which they are due."""

    stream: str
    partition: int
    keys: pa.Array
    values: pa.Array
    millis: npt.NDArray[np.int64]
    due: Micros


@dataclass(frozen=True)
class Live:
    """Events of these streams, from a while before `began` until a while after it."""

    streams: tuple[str, ...]
    rate: int
    """Events in a second."""
    began: int
    """When the first one is sent of those that were not there before, in microseconds since 1970."""
    before: int
    """Seconds of events that were there."""
    seconds: int

    @cached_property
    def events(self) -> Mapping[str, pa.RecordBatch]:
        """All of them, by stream."""
        nexmark = Nexmark(rate=self.rate, began=self.began - self.before * _SECOND)
        count = (self.before + self.seconds) * self.rate // EPOCH * EPOCH
        return {name: nexmark.rows(name, range(count)) for name in self.streams}

    @cached_property
    def parts(self) -> list[Part]:
        """The same as records."""
        return [
            Part(name, partition, *encoded(name, part_rows), _micros(part_rows["date_time"]))
            for name, rows in self.events.items()
            for partition, part_rows in split(rows, place(key_bytes(rows, [KEYS[name]]), PARTS))
        ]

    def send_before(self, bootstrap: str) -> None:
        """What was there before."""
        for part in self.parts:
            with filler(bootstrap, part.stream) as to:
                count = int(np.searchsorted(part.due, self.began))
                to.send(part.partition, part.keys[:count], part.values[:count], part.millis[:count])

    def send(self, bootstrap: str) -> float:
        """The rest, each when it is due; by how many seconds the latest was late."""
        sent = [int(np.searchsorted(part.due, self.began)) for part in self.parts]
        latest = 0.0
        with ExitStack() as stack:
            to = {name: stack.enter_context(filler(bootstrap, name, linger=LINGER)) for name in self.streams}
            for step in range(1, int(self.seconds / STEP) + 1):
                due = self.began / _SECOND + step * STEP
                time.sleep(max(0.0, due - time.time()))
                ends = [int(np.searchsorted(part.due, int(due * _SECOND))) for part in self.parts]
                for part, start, end in zip(self.parts, sent, ends, strict=True):
                    span = slice(start, end)
                    to[part.stream].send(part.partition, part.keys[span], part.values[span], part.millis[span])
                sent = ends
                latest = max(latest, time.time() - due)
        return latest


def since(query: str, rows: pa.Table, events: Mapping[str, pa.RecordBatch]) -> Micros:
    """When each row could have been known, in microseconds since 1970; 0 where that is not told by it."""
    return _SINCE[query](rows, events)


def _by_time(rows: pa.Table, _: Mapping[str, pa.RecordBatch]) -> Micros:
    return _micros(rows["date_time"])


def _by_window(rows: pa.Table, _: Mapping[str, pa.RecordBatch]) -> Micros:
    return _micros(rows["window_end"])


def _by_both(rows: pa.Table, _: Mapping[str, pa.RecordBatch]) -> Micros:
    return np.maximum(_micros(rows["date_time"]), _micros(rows["auction_date_time"]))


def _by_count(rows: pa.Table, events: Mapping[str, pa.RecordBatch]) -> Micros:
    """An update of query 17 is that of the n-th bid for its auction on its day."""
    bids = events["bid"]
    auctions, times = bids["auction"].to_numpy(), _micros(bids["date_time"])
    order = np.lexsort((times, auctions, times // _DAY))
    starts = np.flatnonzero(np.diff(auctions[order], prepend=-1) | np.diff(times[order] // _DAY, prepend=-1))
    nth = np.arange(len(order)) - np.repeat(starts, np.diff([*starts, len(order)])) + 1
    causes = pa.table({"auction": auctions[order], "day": times[order] // _DAY, "nth": nth, "since": times[order]})
    days = _micros(rows["window_start"]) // _DAY
    keys = pa.table({"auction": rows["auction"], "day": days, "nth": rows["total_bids"].cast(pa.int64())})
    return _looked_up(keys, causes)


def _by_partner(rows: pa.Table, events: Mapping[str, pa.RecordBatch]) -> Micros:
    """A person of query 8 who has come and opened an auction."""
    people, auctions = events["person"], events["auction"]
    came, opened = _micros(people["date_time"]), _micros(auctions["date_time"])
    first = pa.table({"id": auctions["seller"], "window": opened // _WINDOW, "opened": opened})
    first = first.group_by(["id", "window"]).aggregate([("opened", "min")])
    causes = pa.table({"id": people["id"], "window": came // _WINDOW, "came": came}).join(
        first, ["id", "window"], None, "inner"
    )
    causes = causes.append_column("since", pc.max_element_wise(causes["came"], causes["opened_min"]))
    keys = pa.table({"id": rows["id"], "window": _micros(rows["starttime"]) // _WINDOW})
    return _looked_up(keys, causes.select(["id", "window", "since"]))


def _looked_up(keys: pa.Table, causes: pa.Table) -> Micros:
    """The `since` of each row of `keys`, in its order."""
    numbered = keys.append_column("row", pa.array(np.arange(len(keys))))
    joined = numbered.join(causes, keys.schema.names, None, "left outer").sort_by("row")
    moments: Micros = joined["since"].fill_null(0).to_numpy()
    return moments


def _micros(times: pa.Array | pa.ChunkedArray) -> Micros:
    whole: Micros = times.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
    return whole


_SINCE: Mapping[str, Callable[[pa.Table, Mapping[str, pa.RecordBatch]], Micros]] = {
    "q1": _by_time,
    "q5": _by_window,
    "q8": _by_partner,
    "q17": _by_count,
    "q18": _by_time,
    "q20": _by_both,
}
