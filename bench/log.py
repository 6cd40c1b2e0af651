"""What the embedded log and the partitioner cost: appends and fetches of 10 000 rows of 200 bytes, keys per second.

Each figure is the median of some runs; the vectorised partitioner is checked against the plain one before it is timed.
`python bench/log.py`.
"""

import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.log.embedded_log import EmbeddedLog, close_all
from holdfast_runtime.streams.record_keys import crc32, murmur2, place, split
from holdfast_runtime.streams.records import Marker, OffsetRange, written_batch

RUNS = 41
ROWS, BYTES = 10_000, 200
KEYS = 200_000
SEED, FACTOR, WORD = 0x9747B28C, 0x5BD1E995, 0xFFFFFFFF


def median_of(call: Callable[[int], object], runs: int = RUNS) -> float:
    """Median seconds of calls with 0, 1, ..."""
    seconds = []
    for run in range(runs):
        started = time.perf_counter()
        call(run)
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def plain_murmur2(data: bytes) -> int:
    """The same hash, key by key in plain Python."""
    length = len(data)
    state = (SEED ^ length) & WORD
    for i in range(0, length - length % 4, 4):
        block = int.from_bytes(data[i : i + 4], "little") * FACTOR & WORD
        state = (state * FACTOR & WORD) ^ ((block ^ block >> 24) * FACTOR & WORD)
    if length % 4:
        state = (state ^ int.from_bytes(data[length - length % 4 :], "little")) * FACTOR & WORD
    state = (state ^ state >> 13) * FACTOR & WORD
    return state ^ state >> 15


def log_rows(*, sync: bool) -> None:
    """Appends and fetches of one partition."""
    partition = StreamPartition("s", 0)
    rows = written_batch([os.urandom(8) for _ in range(ROWS)], [os.urandom(BYTES) for _ in range(ROWS)], 0)
    row = rows.slice(0, 1)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        log = EmbeddedLog(Path(folder), sync=sync)
        log.ensure("s", 1, now=0)
        append = median_of(lambda run: log.append(partition, rows, Marker("a/1", "t", run, 1, "life", "digest")))
        fetch = median_of(lambda run: log.fetch(OffsetRange(partition, run * ROWS // 2, run * ROWS // 2 + ROWS)))
        single = median_of(lambda run: log.append(partition, row, Marker("a/1", "u", run, 1, "life", "digest")))
        bounds = median_of(lambda _: log.bounds("s"))
        close_all()
    print(
        f"{'yes' if sync else 'no':>5} {append * 1e3:>10.2f} {ROWS / append / 1e6:>14.2f} {fetch * 1e3:>9.2f} "
        f"{ROWS / fetch / 1e6:>13.2f} {single * 1e3:>14.3f} {bounds * 1e6:>10.1f}"
    )


def main() -> None:
    """Print the log's table and the partitioner's."""
    print(f"one partition, batches of {ROWS} rows of {BYTES} bytes")
    heads = ("append ms", "append Mrows/s", "fetch ms", "fetch Mrows/s", "one record ms", "bounds us")
    print(f"{'fsync':>5} {heads[0]:>10} {heads[1]:>14} {heads[2]:>9} {heads[3]:>13} {heads[4]:>14} {heads[5]:>10}")
    for sync in (True, False):
        log_rows(sync=sync)
    chance = random.Random(1)
    print(f"\n{'keys':<14} {'plain M/s':>10} {'murmur2 M/s':>12} {'crc32 M/s':>10} {'place+split M/s':>16}")
    for name, least, most in (("8 bytes", 8, 8), ("1-40 bytes", 1, 40), ("100-400 bytes", 100, 400)):
        keys = [chance.randbytes(chance.randint(least, most)) for _ in range(KEYS)]
        array = pa.array(keys, pa.binary())
        if murmur2(array).tolist() != [plain_murmur2(key) for key in keys]:
            message = "the two hashes differ"
            raise SystemExit(message)
        records = written_batch(array, array, 0)
        seconds = [
            median_of(lambda _: [plain_murmur2(key) for key in keys], 3),  # noqa: B023 - called at once
            median_of(lambda _: murmur2(array), 7),  # noqa: B023
            median_of(lambda _: crc32(array), 7),  # noqa: B023
            median_of(lambda _: list(split(records, place(records.column("key"), 16))), 7),  # noqa: B023
        ]
        plain, fast, crc, whole = (KEYS / second / 1e6 for second in seconds)
        print(f"{name:<14} {plain:>10.2f} {fast:>12.2f} {crc:>10.2f} {whole:>16.2f}")


if __name__ == "__main__":
    main()
