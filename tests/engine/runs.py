"""Runs of `holdfast run` as processes, watched by their events, and an app that shows what was lost or doubled."""

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Self

import pyarrow as pa

from holdfast_cli.main import main
from holdfast_runtime.checkpoint.directories import DataDir
from holdfast_runtime.streams.log.embedded_log import EmbeddedLog
from holdfast_runtime.streams.record_keys import place, split
from holdfast_runtime.streams.records import OffsetRange, written_batch
from tests.forked import ForkedProcess
from tests.processes import processes_below
from tests.waiting import patience

KEYS = 12
DEADLINE = patience(120.0)
APP = """
apiVersion: holdfast.dev/v1alpha1
kind: StreamApp
metadata: {name: counted}
spec:
  systems:
  - {name: here, log: {}}
  streams:
  - {name: rows, system: here, partitions: 2, key: [k], schema: "id BIGINT, k STRING, ts TIMESTAMP",
     eventTime: {column: ts}}
  - {name: numbered, system: here, partitions: 2, key: [k]}
  steps:
  - {name: kept, from: [rows], filter: "id % 10 <> 3"}
  - {name: named, from: [kept], select: ["id", "k", "concat('key-', k) AS name", "ts"]}
  - {name: stamped, from: [named], apply: {function: "f:stamp", schema: "id BIGINT, name STRING, stamp STRING"}}
  - {name: moved, from: [stamped], repartition: {by: [name]}}
  - name: counting
    from: [moved]
    process:
      {function: "f:number", by: [name], schema: "id BIGINT, k STRING, nth BIGINT, stamp STRING, before STRING"}
  - {name: out, from: [counting], to: numbered}
  planning: {intermediatePartitions: 3}
  runtime:
    trigger: {interval: 0s, maxRecordsPerPartition: 400}
    code:
      f: |
        import uuid
        import pyarrow as pa

        def stamp(batch):
            # Another one at each call: what is computed twice shows.
            stamps = pa.array([uuid.uuid4().hex for _ in range(batch.num_rows)])
            return batch.select(["id", "name"]).append_column("stamp", stamps)

        def number(name, rows, state):
            for row in rows:
                state["n"] = state.get("n", 0) + 1
                before, state["stamp"] = state.get("stamp", ""), row["stamp"]
                yield {"id": row["id"], "k": name, "nth": state["n"], "stamp": row["stamp"], "before": before}
"""
"""Its rows pass through Python alone: slots stay from batch to batch."""
SQL_APP = APP.replace("id % 10 <> 3", "id % 10 <> 3 AND length(repeat(k, 2)) > 0")
"""Its rows pass through Spark SQL: each batch is a job, and Spark's query asks for it."""


def feed(data: Path, count: int, first: int = 0) -> None:
    """Rows `first` to `first + count`, the key of each by its number."""
    ids = range(first, first + count)
    keys = pa.array([b"%d" % (one % KEYS) for one in ids])
    values = pa.array(
        [b'{"id":%d,"k":"%d","ts":"2026-01-01T00:%02d:%02dZ"}' % (n, n % KEYS, n // 60 % 60, n % 60) for n in ids],
        pa.binary(),
    )
    append(data, "rows", keys, values)


def append(data: Path, stream: str, keys: pa.Array, values: pa.Array) -> None:
    """Records of a stream of two partitions, each where its key belongs."""
    log = EmbeddedLog(data / "log", sync=False)
    log.ensure(stream, 2, now=0)
    for partition, part in split(written_batch(keys, values, 0), place(keys, 2)):
        (stream_partition,) = [one for one in log.bounds(stream) if one.partition == partition]
        log.append(stream_partition, part)


def check(data: Path, count: int) -> None:
    """Every row that is kept once, numbered without a gap, in order for each key, on the state that wrote the last."""
    check_rows(written(data), count)


def written(data: Path, stream: str = "numbered") -> list[dict[str, Any]]:
    """What the app has written, in the order of each partition."""
    log = EmbeddedLog(data / "log")
    rows: list[dict[str, Any]] = []
    for partition, (oldest, end, _) in sorted(log.bounds(stream).items()):
        fetched = log.fetch(OffsetRange(partition, oldest, end))
        rows += [json.loads(value) for value in fetched.column("value").to_pylist()]
    return rows


def check_rows(rows: list[dict[str, Any]], count: int) -> None:
    """The same of rows in the order of each partition."""
    expected = [number for number in range(count) if number % 10 != 3]
    assert sorted(row["id"] for row in rows) == expected
    assert len({row["stamp"] for row in rows}) == len(rows)
    for key in range(KEYS):
        key_rows = [row for row in rows if row["k"] == f"key-{key}"]
        ids = [row["id"] for row in key_rows]
        assert ids == sorted(ids), f"key {key}: {[pair for pair in pairwise(ids) if pair[0] > pair[1]]}"
        assert ids == [number for number in expected if number % KEYS == key]
        assert [row["nth"] for row in key_rows] == list(range(1, len(key_rows) + 1))
        assert [row["before"] for row in key_rows[1:]] == [row["stamp"] for row in key_rows[:-1]]


class Run:
    """One `holdfast run`, in a process of its own that is forked; `tests/cli` starts it as people do."""

    def __init__(self, app: Path, data: Path, *options: str, prepare: Callable[[], None] | None = None) -> None:
        """`prepare`: what the process does before."""
        arguments = ("run", str(app), "--data", str(data), "--no-ui", "-o", "json", *options)
        self._errors = NamedTemporaryFile(prefix="holdfast-errors-")  # noqa: SIM115 - open as long as this is
        self.process = ForkedProcess(_holdfast, arguments, self._errors.name, prepare)
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.events: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.exit_code()
        self._reader.join()
        self.process.stdout.close()
        self._errors.close()

    def until(self, event: str, times: int = 1) -> dict[str, Any]:
        """Wait for an event of this kind, so many times; the last of them."""
        deadline = time.monotonic() + DEADLINE
        while True:
            next_event = self.next(deadline, event)
            times -= next_event["event"] == event
            if not times:
                return next_event

    def until_begun_after(self, moment: float) -> None:
        """Wait for the progress of a batch that began after this moment."""
        while (event := self.until("progress"))["at"] / 1000 - event["seconds"] < moment:
            pass

    def next(self, deadline: float, awaited: str) -> dict[str, Any]:
        """The next event, whatever it is; `awaited` is what is said to be missing where there is none."""
        try:
            event = self._events.get(timeout=max(0.1, deadline - time.monotonic()))
        except queue.Empty:
            message = f"no {awaited} in time: {self.events[-3:]} {self.said()}"
            raise TimeoutError(message) from None
        if event is None:
            message = f"ended with {self.exit_code()} before {awaited}: {self.events[-3:]} {self.said()}"
            raise AssertionError(message)
        self.events.append(event)
        return event

    def arrived(self) -> list[dict[str, Any]]:
        """The events that have come since one was asked for."""
        events = []
        while not self._events.empty():
            if (event := self._events.get()) is None:
                self._events.put(None)  # for who asks next
                break
            events.append(event)
        self.events += events
        return events

    def ended(self) -> dict[str, Any]:
        """Wait until it ends well; its last event."""
        last = self.until("ended")
        assert self.exit_code() == 0
        return last

    def exit_code(self) -> int:
        """Wait until it ends, well or not; how."""
        ended = self.process.ended(DEADLINE)
        assert ended is not None, f"not ended in time: {self.events[-3:]} {self.said()}"
        return ended

    def killed(self) -> None:
        """End it as a power cut of this one process would."""
        self.process.kill()
        self.exit_code()

    def children(self, text: str) -> list[int]:
        """Its processes, however deep, whose command line has this text."""
        return processes_below(self.process.pid, text)

    def _read(self) -> None:
        for line in self.process.stdout:
            self._events.put(json.loads(line))
        self._events.put(None)

    def said(self) -> str:
        """The end of what it has said on stderr."""
        return Path(self._errors.name).read_text(errors="replace")[-4000:]


def _holdfast(arguments: Sequence[str], errors: str, prepare: Callable[[], None] | None) -> None:
    os.setsid()
    with Path(errors).open("wb") as file:
        os.dup2(file.fileno(), 2)
    sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 - as `_speaking` does with the output
    if prepare is not None:
        prepare()
    sys.argv = ["holdfast", *arguments]  # what it is called by who finds its data in use
    sys.exit(main(arguments))


def unfinished(data: Path, run_id: str = "1") -> bool:
    """Whether Spark's logs have a batch that was begun and is not done."""
    query = DataDir(data).app("counted").run(run_id).query
    planned, done = (set(_numbers(query / name)) for name in ("offsets", "commits"))
    return bool(planned - done)


def _numbers(folder: Path) -> Iterator[int]:
    return (int(path.name) for path in folder.iterdir() if path.name.isdigit())
