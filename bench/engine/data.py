"""The input of every engine: deterministic, made once without a Python step per row.

Must not know an engine.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from bench.engine.files import (
    FIRST_TIME,
    cached,
    dated,
    hexadecimal,
    quoted,
    stamps,
    text,
    write_lines,
)

CLICK = "ad_id STRING, campaign STRING, user STRING, ts TIMESTAMP, price DOUBLE, count BIGINT"
KEEP = "price >= 25 AND count % 10 <> 0"
SELECT = ("ad_id", "upper(campaign) AS campaign", "ts", "price * count AS worth", "count")
KEPT = pa.schema(
    {
        "ad_id": pa.string(),
        "campaign": pa.string(),
        "ts": pa.timestamp("us", "UTC"),
        "worth": pa.float64(),
        "count": pa.int64(),
    }
)
AMOUNT = "key STRING, amount BIGINT"
TOTAL = pa.schema({"key": pa.string(), "rows": pa.int64(), "amount": pa.int64()})
VISIT = "key STRING, amount BIGINT, ts TIMESTAMP"
COUNTED = pa.schema(
    {
        "key": pa.string(),
        "window_start": pa.timestamp("us", "UTC"),
        "window_end": pa.timestamp("us", "UTC"),
        "n": pa.int64(),
        "total": pa.int64(),
    }
)
EVENT = "id STRING, number BIGINT, ts TIMESTAMP"
SINGLE = pa.schema({"id": pa.string(), "number": pa.int64(), "ts": pa.timestamp("us", "UTC")})
NAMED = pa.schema({"key": pa.string(), "amount": pa.int64(), "name": pa.string()})
ORDER = "id STRING, amount BIGINT, ts TIMESTAMP"
PAYMENT = "id STRING, code BIGINT, ts TIMESTAMP"
PAID = pa.schema({"id": pa.string(), "amount": pa.int64(), "ts": pa.timestamp("us", "UTC"), "code": pa.int64()})
ROW = "key BIGINT, payload STRING"
LATEST = pa.schema({"key": pa.int64(), "payload": pa.string(), "rows": pa.int64()})
PAYLOAD = 100
"""Characters of a payload: random hexadecimal digits, which zstd halves and LZ4, Spark's choice, leaves as they are."""
MINUTE = 60
TOGETHER = 64
"""The most tasks that get equally many visits, if ten times as many divide the counts of a batch."""


@dataclass(frozen=True, slots=True)
class Clicks:
    """JSON lines of about 150 bytes for the stateless benchmark."""

    files: int
    rows: int
    """Of one file."""

    def directory(self) -> Path:
        """Where they are; made if they are not there."""
        return cached(f"clicks-{self.files}x{self.rows}", self._write)

    def _write(self, folder: Path) -> None:
        for number in range(self.files):
            write_lines(folder, number, self._columns(number))

    def _columns(self, number: int) -> dict[str, Any]:
        chance = np.random.default_rng([1, number])
        millis = FIRST_TIME * 1000 + (np.arange(self.rows) + number * self.rows) * 37
        return {
            "ad_id": quoted("ad-", pc.utf8_lpad(text(chance.integers(0, 10**6, self.rows)), 7, "0")),
            "campaign": quoted("campaign-", text(chance.integers(0, 5000, self.rows))),
            "user": quoted("user-", hexadecimal(chance, self.rows, 16)),
            "ts": quoted("", stamps(millis), "Z"),
            "price": text(np.round(chance.random(self.rows) * 100, 4)),
            "count": text(chance.integers(0, 10**6, self.rows)),
        }


@dataclass(frozen=True, slots=True)
class Amounts:
    """JSON lines for the stateful benchmark: in each batch two rows of each key, in two files by halves of the keys."""

    batches: int
    keys: int

    def directory(self) -> Path:
        """Where they are; made if they are not there."""
        return cached(f"amounts-{self.batches}x{self.keys}", self._write)

    def _write(self, folder: Path) -> None:
        for number in range(self.batches * 2):
            chance = np.random.default_rng([2, number])
            keys = chance.permutation(np.repeat(np.arange(number % 2, self.keys, 2), 2))
            amounts = chance.integers(0, 10**6, len(keys))
            write_lines(folder, number, {"key": quoted("key-", text(keys)), "amount": text(amounts)})


@dataclass(frozen=True, slots=True)
class Events:
    """JSON lines for deduplication: in each batch a minute of new events, and one in five that came in the ten before.

    A row that comes again is the same to the last bit, so whichever passes, what comes out is the same. Two files per
    batch, by halves of the numbers.
    """

    batches: int
    rows: int
    """Of one batch."""

    def directory(self) -> Path:
        """Where they are; made if they are not there."""
        return cached(f"events-{self.batches}x{self.rows}", self._write)

    def _write(self, folder: Path) -> None:
        again, new = self.rows // 10, self.rows * 2 // 5
        for number in range(self.batches * 2):
            batch, half = divmod(number, 2)
            chance = np.random.default_rng([5, number])
            first = batch * new
            fresh = np.arange(first, first + new)
            known = chance.integers(max(0, first - 10 * new), max(first, new), again)
            numbers = chance.permutation(np.concatenate([fresh, known])) * 2 + half
            millis = (FIRST_TIME + numbers // 2 // new * 60) * 1000
            columns = {
                "id": quoted("event-", text(numbers)),
                "number": text(numbers),
                "ts": quoted("", stamps(millis), "Z"),
            }
            write_lines(folder, number, columns)


@dataclass(frozen=True, slots=True)
class Sales:
    """JSON lines whose keys are named in a table, and that table in Parquet. Two files per batch, by halves of keys.

    One in eight keys is not in the table.
    """

    batches: int
    rows: int
    """Of one batch."""
    names: int
    """Rows of the table."""

    def directory(self) -> Path:
        """Where `sales` and `names` are; made if they are not there."""
        return cached(f"sales-{self.batches}x{self.rows}-{self.names}", self._write)

    def _write(self, folder: Path) -> None:
        for name in ("sales", "names"):
            (folder / name).mkdir()
        numbers = text(np.arange(self.names))
        names = {
            "key": pc.binary_join_element_wise("key-", numbers, ""),
            "name": pc.binary_join_element_wise("the name of number ", numbers, ""),
        }
        parquet.write_table(pa.table(names), folder / "names" / "names.parquet")
        for number in range(2 * self.batches):
            chance = np.random.default_rng([9, number])
            keys = chance.integers(0, self.names * 4 // 7, self.rows // 2) * 2 + number % 2
            columns = {"key": quoted("key-", text(keys)), "amount": text(chance.integers(0, 10**6, len(keys)))}
            write_lines(folder / "sales", number, columns)


@dataclass(frozen=True, slots=True)
class Visits:
    """JSON lines for windows of a minute: first counts that are held, then a minute in each batch.

    A count is of a key in a window. Nine in ten counts of a batch are of its own minute, and new; the others are of
    windows before it that are still open, at random. So each batch opens, changes and closes as many counts as the one
    before, and what is held stays as it is. No row is late for anybody: none is more than `lateness` minutes behind
    what earlier batches had. Keys come again when their window has closed. Two files per batch, by halves of the keys.
    """

    batches: int
    """Those with a minute each."""
    rows: int
    """Of one batch."""
    counts: int
    """Of keys in windows that one batch touches."""
    held: int
    """Counts in windows before that of the batch."""

    @property
    def fresh(self) -> int:
        """The keys of a minute."""
        return self.counts * 9 // 10

    @property
    def lateness(self) -> int:
        """Minutes: how many windows are open before that of the batch."""
        return max(1, round(self.held / self.fresh))

    @property
    def filling(self) -> int:
        """The first batches: each of the held counts gets at least a row."""
        return math.ceil(self.lateness * self.fresh / self.rows)

    @property
    def all_rows(self) -> int:
        """Of all batches."""
        return (self.filling + self.batches) * self.rows

    @property
    def closed(self) -> int:
        """The end of the last window that everybody has put out, in seconds: the last but one batch has closed it."""
        return FIRST_TIME + (self.batches - 2) * MINUTE

    def directory(self) -> Path:
        """Where they are; made if they are not there."""
        return cached(f"visits-{self.batches}x{self.rows}-{self.counts}of{self.held}", self._write)

    def batch(self, number: int) -> tuple[Any, Any, Any]:
        """Numbers of keys, amounts, and times in milliseconds since 1970."""
        chance = np.random.default_rng([7, number])
        keys, minutes = self._filling(number) if number < self.filling else self._minute(number, chance)
        millis = (FIRST_TIME + minutes * MINUTE) * 1000 + chance.integers(0, MINUTE * 1000, self.rows)
        order = chance.permutation(self.rows)
        return keys[order], chance.integers(0, 10**6, self.rows), millis[order]

    def _filling(self, number: int) -> tuple[Any, Any]:
        keys = np.arange(number * self.rows, (number + 1) * self.rows) % (self.lateness * self.fresh)
        return keys, keys // self.fresh

    def _minute(self, number: int, chance: np.random.Generator) -> tuple[Any, Any]:
        minute, known = self.lateness + number - self.filling, self.lateness * self.fresh
        fresh = minute * self.fresh % known + np.arange(self.fresh)
        # Keys that follow each other are taken together: tasks, if a power of two, get equally many rows.
        together = math.gcd(known, self.counts - self.fresh, TOGETHER)
        firsts = chance.choice(known // together, (self.counts - self.fresh) // together, replace=False) * together
        before = (firsts[:, None] + np.arange(together)).ravel()
        behind = (minute - 1 - before // self.fresh) % self.lateness + 1
        minutes = np.concatenate([np.full(self.fresh, minute), minute - behind])
        each = self.rows // self.counts
        return np.repeat(np.concatenate([fresh, before]), each), np.repeat(minutes, each)

    def _write(self, folder: Path) -> None:
        for number in range(self.filling + self.batches):
            keys, amounts, millis = self.batch(number)
            for half in range(2):
                in_half = keys % 2 == half
                columns = {
                    "key": quoted("key-", text(keys[in_half])),
                    "amount": text(amounts[in_half]),
                    "ts": quoted("", stamps(millis[in_half]), "Z"),
                }
                write_lines(folder, 2 * number + half, columns)


@dataclass(frozen=True, slots=True)
class Orders:
    """JSON lines of two streams for joins within ten minutes: a minute of each in each batch, half of the rows each.

    Each order is new. Four in five payments are for an order of the nine minutes around them, at random: so an order
    has none, one or some, and they come before it or behind it. The others are for no order at all. Two files per
    batch and side, by halves of the numbers.
    """

    batches: int
    rows: int
    """Of one batch, orders and payments."""
    within: int = 10
    """Minutes."""

    @property
    def filling(self) -> int:
        """Batches until as much waits as the bounds of time let wait, where that is what is measured."""
        return self.within + 2 if self.within > 10 else 0

    @property
    def closed(self) -> int:
        """The time, in seconds, up to which orders have no partner to wait for in any engine's last batch but two."""
        return FIRST_TIME + (self.batches - 3 - self.within) * MINUTE

    def directory(self) -> Path:
        """Where they are, in `orders` and `payments`; made if they are not there."""
        return cached(f"orders-{self.batches}x{self.rows}", self._write)

    @property
    def all_rows(self) -> int:
        """Of all batches."""
        return self.batches * self.rows

    def side(self, name: str, batch: int, half: int) -> tuple[Any, Any, Any]:
        """Numbers, amounts or codes, and times in milliseconds since 1970, of a half of a batch of a side."""
        share = self.rows // 4
        chance = np.random.default_rng([8, batch, half, name == "orders"])
        if name == "orders":
            numbers = np.arange(batch * share, (batch + 1) * share)
        else:
            around = np.clip([batch - 4, batch + 5], 0, self.batches) * share
            numbers = chance.integers(around[0], around[1], share)
            numbers[::5] += self.batches * share
        millis = (FIRST_TIME + batch * MINUTE) * 1000 + chance.integers(0, MINUTE * 1000, share)
        return chance.permutation(numbers) * 2 + half, chance.integers(0, 10**6, share), millis

    def _write(self, folder: Path) -> None:
        for side, value in (("orders", "amount"), ("payments", "code")):
            (folder / side).mkdir()
            for number in range(self.batches * 2):
                numbers, values, millis = self.side(side, *divmod(number, 2))
                columns = {
                    "id": quoted("order-", text(numbers)),
                    value: text(values),
                    "ts": quoted("", stamps(millis), "Z"),
                }
                write_lines(folder / side, number, columns)


@dataclass(frozen=True, slots=True)
class Rows:
    """Parquet files that fill a state, a few that then touch some of its keys, and one, `restart`, for the restart."""

    keys: int
    files: int = 8
    touches: int = 15
    touched: int = 1000

    def directory(self) -> Path:
        """Where they are; made if they are not there."""
        return cached(f"rows-{self.keys}-{self.files}-{self.touches}x{self.touched}", self._write)

    def _write(self, folder: Path) -> None:
        share = self.keys // self.files
        for number in range(self.files):
            self._file(folder, number, np.arange(number * share, (number + 1) * share) * 0x9E3779B1)
        last = self.files + self.touches
        for number in range(self.files, last + 1):
            chosen = np.random.default_rng([4, number]).choice(share * self.files, self.touched, replace=False)
            self._file(folder, number, chosen * 0x9E3779B1, "restart" if number == last else None)

    def _file(self, folder: Path, number: int, keys: Any, name: str | None = None) -> None:
        payload = hexadecimal(np.random.default_rng([3, number]), len(keys), PAYLOAD)
        path = folder / f"{name or format(number, '05d')}.parquet"
        parquet.write_table(pa.table({"key": pa.array(keys, pa.int64()), "payload": payload}), path)
        dated(path, number)
