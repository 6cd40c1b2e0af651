"""The events of Nexmark, people, auctions and bids, as Arrow columns: each a function of seed and number alone.

Proportions and distributions are those of the reference (github.com/nexmark/nexmark): of each 50 events one is a
person, three are auctions and 46 are bids; half of the bids are for a hot auction, three in four by a hot bidder, three
in four auctions are a hot seller's; ids may be a few ahead of what is there yet. Any range can be made alone, so that
readers need not agree on how they cut the events. Times differ from the reference's: they are evenly spaced
microseconds from half a minute before midnight on, so no two events have the same one and a day ends among them.

`python -m bench.nexmark.events FOLDER [--events N]` writes the streams as JSON lines for `holdfast feed`.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers = npt.NDArray[np.int64]
Draws = npt.NDArray[np.uint64]

PEOPLE, AUCTIONS, BIDS = 1, 3, 46
EPOCH = PEOPLE + AUCTIONS + BIDS
"""Events until the kinds of events repeat."""
FIRST_ID, FIRST_CATEGORY = 1000, 10
BEGAN = 1_767_225_570_000_000
"""2025-12-31 23:59:30 UTC, in microseconds since 1970."""
SIDE_KEYS = 10_000
"""Rows of the side input of query 13."""

_CATEGORIES = 5
_LEAD = 10
"""How many ids that do not exist yet may be named."""
_IN_FLIGHT, _ACTIVE = 100, 1000
"""Auctions that get bids, people who bid and sell."""
_BATCH = 100
"""Of so many auctions or people one is hot."""
_HOT_AUCTION, _HOT_SELLER, _HOT_BIDDER, _HOT_CHANNEL = 2, 4, 4, 2
"""One in so many is not hot."""
_HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_CHANNELS = 10_000
_FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
_LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
_CITIES = (
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
)
_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_LETTERS = 1 << 20
"""Random letters that texts are cut from."""
_TIME = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class Nexmark:
    """An endless sequence of events."""

    seed: int = 1
    rate: int = 1000
    """Events in a second of event time; divides a million, where times are to be evenly spaced."""
    began: int = BEGAN
    """Of the first event, in microseconds since 1970."""

    def person(self, first: int, count: int) -> pa.RecordBatch:
        """Rows `first` to `first + count` of all people."""
        numbers = np.arange(first, first + count) * EPOCH
        draw = self._draws(1, numbers)
        digits = [_padded(draw(place) % 10_000) for place in range(4)]
        return pa.RecordBatch.from_pydict(
            {
                "id": FIRST_ID + _last_person(numbers),
                "name": _joined(_one_of(_FIRST_NAMES, draw(4)), " ", _one_of(_LAST_NAMES, draw(5))),
                "email_address": _joined(self._text(draw(6), 3, 6), "@", self._text(draw(7), 3, 4), ".com"),
                "credit_card": pc.binary_join_element_wise(*digits, " "),
                "city": _one_of(_CITIES, draw(8)),
                "state": _one_of(_STATES, draw(9)),
                "date_time": self._times(numbers),
                "extra": self._text(draw(10), 104, 156),
            }
        )

    def auction(self, first: int, count: int) -> pa.RecordBatch:
        """Rows `first` to `first + count` of all auctions."""
        epochs, places = np.divmod(np.arange(first, first + count), AUCTIONS)
        numbers = epochs * EPOCH + PEOPLE + places
        draw = self._draws(2, numbers)
        hot = draw(0) % _HOT_SELLER > 0
        seller = np.where(hot, _last_person(numbers) // _BATCH * _BATCH, _any_person(numbers, draw(1)))
        initial, times = _prices(draw(2)), self._micros(numbers)
        horizon = _IN_FLIGHT * EPOCH // AUCTIONS * 1_000_000 // self.rate
        return pa.RecordBatch.from_pydict(
            {
                "id": FIRST_ID + _last_auction(numbers),
                "item_name": self._text(draw(3), 3, 19),
                "description": self._text(draw(4), 3, 99),
                "initial_bid": initial,
                "reserve": initial + _prices(draw(5)),
                "date_time": pa.array(times, _TIME),
                "expires": pa.array(times + 1 + (draw(6) % max(1, 2 * horizon)).astype(np.int64), _TIME),
                "seller": FIRST_ID + seller,
                "category": FIRST_CATEGORY + (draw(7) % _CATEGORIES).astype(np.int64),
                "extra": self._text(draw(8), 312, 468),
            }
        )

    def bid(self, first: int, count: int) -> pa.RecordBatch:
        """Rows `first` to `first + count` of all bids."""
        epochs, places = np.divmod(np.arange(first, first + count), BIDS)
        numbers = epochs * EPOCH + PEOPLE + AUCTIONS + places
        draw = self._draws(3, numbers)
        last = _last_auction(numbers)
        least = np.maximum(last - _IN_FLIGHT, 0)
        cold = least + (draw(1) % (last - least + 1 + _LEAD).astype(np.uint64)).astype(np.int64)
        auction = np.where(draw(0) % _HOT_AUCTION > 0, last // _BATCH * _BATCH, cold)
        hot = _last_person(numbers) // _BATCH * _BATCH + 1
        bidder = np.where(draw(2) % _HOT_BIDDER > 0, hot, _any_person(numbers, draw(3)))
        names, urls = _channels(self.seed)
        channel = np.where(
            draw(5) % _HOT_CHANNEL > 0,
            draw(6) % len(_HOT_CHANNELS),
            len(_HOT_CHANNELS) + draw(6) % _CHANNELS,
        )
        return pa.RecordBatch.from_pydict(
            {
                "auction": FIRST_ID + auction,
                "bidder": FIRST_ID + bidder,
                "price": _prices(draw(4)),
                "channel": names.take(pa.array(channel)),
                "url": urls.take(pa.array(channel)),
                "date_time": self._times(numbers),
                "extra": self._text(draw(7), 54, 81),
            }
        )

    def rows(self, kind: str, events: range) -> pa.RecordBatch:
        """The people, auctions or bids of a range of events that begins and ends with an epoch."""
        if events.start % EPOCH or events.stop % EPOCH:
            message = f"events come in epochs of {EPOCH}, so a range must begin and end with one: {events}"
            raise ValueError(message)
        first, end = (at // EPOCH * _SHARES[kind] for at in (events.start, events.stop))
        return _MAKERS[kind](self, first, end - first)

    def until(self, events: int) -> datetime:
        """The time of the event behind the first so many."""
        moment: datetime = pa.scalar(self.began + events * 1_000_000 // self.rate, _TIME).as_py()
        return moment

    def _micros(self, numbers: Numbers) -> Numbers:
        return self.began + numbers * 1_000_000 // self.rate

    def _times(self, numbers: Numbers) -> pa.Array:
        return pa.array(self._micros(numbers), _TIME)

    def _draws(self, kind: int, numbers: Numbers) -> Callable[[int], Draws]:
        """Random numbers by place: those of an event at different places have nothing to do with one another."""

        def draw(place: int) -> Draws:
            salt = ((self.seed * 64 + kind) * 64 + place) * 0xD1342543DE82EF95 % 2**64
            return _mixed(_mixed(numbers.astype(np.uint64) + np.uint64(salt)))

        return draw

    def _text(self, draws: Draws, shortest: int, longest: int) -> pa.Array:
        """Letters, so many or more, from a place that is drawn."""
        letters = _letters(self.seed)
        sizes = shortest + (draws % (longest - shortest + 1)).astype(np.int64)
        starts = (draws >> np.uint64(20)).astype(np.int64) % (len(letters) - longest)
        ends = np.concatenate([[0], np.cumsum(sizes)])
        data = letters[np.arange(ends[-1]) + np.repeat(starts - ends[:-1], sizes)]
        buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.string(), len(sizes), buffers)


def side_input() -> pa.RecordBatch:
    """The rows that query 13 looks up."""
    keys = pa.array(np.arange(SIDE_KEYS))
    return pa.RecordBatch.from_pydict({"key": keys, "value": keys.cast(pa.string())})


_SHARES = {"person": PEOPLE, "auction": AUCTIONS, "bid": BIDS}
_MAKERS: Mapping[str, Callable[[Nexmark, int, int], pa.RecordBatch]] = {
    "person": Nexmark.person,
    "auction": Nexmark.auction,
    "bid": Nexmark.bid,
}
KINDS = tuple(_SHARES)


def _last_person(numbers: Numbers) -> Numbers:
    """The newest person at an event, from 0."""
    return numbers // EPOCH


def _last_auction(numbers: Numbers) -> Numbers:
    """The newest auction at an event that is an auction or a bid, from 0."""
    return numbers // EPOCH * AUCTIONS + np.minimum(numbers % EPOCH - PEOPLE, AUCTIONS - 1)


def _any_person(numbers: Numbers, draws: Draws) -> Numbers:
    """One of those who are active, or a few who come next."""
    people = _last_person(numbers) + 1
    active = np.minimum(people, _ACTIVE)
    return people - active + (draws % (active + _LEAD).astype(np.uint64)).astype(np.int64)


def _prices(draws: Draws) -> Numbers:
    """From 100 to a hundred million, as many of each order of magnitude."""
    return np.round(10 ** (draws / 2**64 * 6) * 100).astype(np.int64)


def _mixed(words: Draws) -> Draws:
    """The finalizer of splitmix64: each bit of the result depends on all bits."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


@cache
def _letters(seed: int) -> npt.NDArray[np.uint8]:
    drawn = np.random.default_rng([seed, 1]).integers(ord("a"), ord("z") + 1, _LETTERS).astype(np.uint8)
    drawn.flags.writeable = False
    return drawn


@cache
def _channels(seed: int) -> tuple[pa.Array, pa.Array]:
    """Names and addresses of all channels: nine in ten of those that are not hot tell their id in the address."""
    chance, letters = np.random.default_rng([seed, 2]), _letters(seed).tobytes().decode()
    names = [*_HOT_CHANNELS, *(f"channel-{number}" for number in range(_CHANNELS))]
    urls = []
    for name, ends, ids in zip(
        names,
        chance.integers(0, _LETTERS - 5, (len(names), 3)).tolist(),
        chance.integers(0, 2**31, len(names)).tolist(),
        strict=True,
    ):
        folders = "/".join(letters[end : end + 5] for end in ends)
        parameter = f"&channel_id={ids}" if name not in _HOT_CHANNELS and ids % 10 else ""
        urls.append(f"https://www.nexmark.com/{folders}/item.htm?query=1{parameter}")
    return pa.array(names), pa.array(urls)


def _one_of(texts: Sequence[str], draws: Draws) -> pa.Array:
    return pa.array(texts).take(pa.array(draws % len(texts)))


def _joined(*parts: Any) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")


def _padded(numbers: Draws) -> pa.Array:
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 4, "0")


def main() -> None:
    """Write files."""
    parser = argparse.ArgumentParser(description="Write the events of Nexmark as JSON lines, a file for each stream.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--events", type=int, default=50_000, help=f"how many, in epochs of {EPOCH}")
    parser.add_argument("--rate", type=int, default=1000, help="events in a second of event time")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    nexmark = Nexmark(chosen.seed, chosen.rate)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    streams = {kind: nexmark.rows(kind, range(chosen.events)) for kind in KINDS}
    for name, rows in {**streams, "side-input": side_input()}.items():
        lines = (json.dumps(row, default=datetime.isoformat) + "\n" for row in rows.to_pylist())
        (chosen.folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
        print(f"{chosen.folder / name}.jsonl: {rows.num_rows:,} rows")


if __name__ == "__main__":
    main()
