"""The process of a Holdfast measurement: one app by `run_app`, timed by the batches' ends.

Started by `fresh.measure` as `python -m bench.engine.holdfast_run REQUEST SCRATCH`. Input is fed into the embedded log
before the app starts. A batch lasts from the end of the one before to its own, so it has all that Spark does in between
too. Which settings it gets, and why, stands in `holdfast`. Must not use anything of Spark but its progress.
"""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as lines
from pyarrow import parquet
from pyspark.sql import SparkSession

from bench.engine import answers, data
from bench.engine.files import records
from bench.engine.fresh import answer, process_started
from holdfast.spec.parse import parse_app
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.checkpoint.directories import DataDir
from holdfast_runtime.driver import app as engine
from holdfast_runtime.driver.local_run import RunOptions, run_app
from holdfast_runtime.inspection.streams import StoredStream
from holdfast_runtime.loop import batches
from holdfast_runtime.progress import Event, Progress
from holdfast_runtime.slot.report import SlotReport
from holdfast_runtime.streams.log.embedded_log import EmbeddedLog, close_all
from holdfast_runtime.streams.records import written_batch

GIVEN, MADE = "given", "made"
SIDES = ("orders", "payments")
WARM = 3
PHASES = ("plan", "spark", "open", "fetch", "steps", "encode", "write", "commit", "snapshot")
SPARKS = ("addBatch", "walCommit", "commitOffsets")


@dataclass(slots=True)
class Watch:
    """Notes when batches end; `each` is called then, still within the batch."""

    batches: int | None = None
    """After how many the run ends; None: when nothing is left to read."""
    each: Callable[[int], object] = lambda _: None
    opened: float = 0.0
    """When Spark was there, and nothing of the app yet."""
    ends: list[float] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)
    sparks: list[Mapping[str, float]] = field(default_factory=list)
    slots: list[tuple[float, ...]] = field(default_factory=list)
    """Of each batch, for how many milliseconds each slot worked."""

    def __call__(self, event: Event) -> None:
        """Take note."""
        if isinstance(event, Progress):
            self.ends.append(time.time())
            self.progress.append(event)
            self.each(len(self.progress))
            if len(self.progress) == self.batches:
                queries = SparkSession.builder.getOrCreate().streams.active
                durations = [json.loads(one.json)["durationMs"] for query in queries for one in query.recentProgress]
                self.sparks = [one for one in durations if "addBatch" in one]

    def run(self, request: Mapping[str, Any], place: Path) -> None:
        """Run the app on this directory."""
        open_session = vars(engine)["open_session"]

        def opened(*args: Any, **more: Any) -> SparkSession:
            spark: SparkSession = open_session(*args, **more)
            self.opened = time.time()
            return spark

        read_reports = vars(batches)["read_reports"]

        def reported(texts: Iterable[str]) -> tuple[SlotReport, ...]:
            reports: tuple[SlotReport, ...] = read_reports(texts)
            self.slots.append(tuple(sum(report.phases.values()) for report in reports))
            return reports

        vars(engine)["open_session"], vars(batches)["read_reports"] = opened, reported
        options = RunOptions(place, self.batches is None, self.batches, master=request["master"], ui=False)
        run_app(parse_app(request["app"]), options, self, threading.Event())

    def answer(self, scratch: Path, warm: int, rows: int, digest: str = "") -> None:
        """Report all batches but the first few; `rows` is what each has read.

        The last one may have read a little less, if keys fall unevenly on many partitions.
        """
        counted, least = self.progress[warm:], rows * 9 // 10
        full = all(one.rows_in == rows for one in counted[:-1]) and least <= counted[-1].rows_in <= rows
        if not full or any(one.restored for one in counted):
            message = f"batches should read {rows} rows: {[(one.rows_in, one.restored) for one in counted]}"
            raise SystemExit(message)
        phases = {name: median([one.phases.get(name, 0.0) for one in counted]) for name in PHASES}
        sparks = {name: median([one[name] for one in self.sparks[warm:]]) for name in SPARKS if self.sparks}
        state = {"state MB": counted[-1].state_bytes / 1e6}
        answer(
            scratch,
            (self.ends[warm - 1], self.ends[-1]),
            sum(one.rows_in for one in counted),
            np.diff(self.ends[warm - 1 :]).tolist(),
            digest=digest,
            notes=phases | sparks | state,
        )


def latency(scratch: Path, request: Mapping[str, Any], *, batches: int, warm: int, parts: int) -> None:
    """One record for each task in each batch."""
    log = EmbeddedLog(scratch / "data" / "log", sync=False)
    count = batches + warm
    for part in range(parts):
        values = pa.array([b'{"key":%d}' % part] * count, pa.binary())
        feed(log, parts, part, values)
    watch = Watch(count)
    watch.run(request, scratch / "data")
    watch.answer(scratch, warm, parts)


def stateless(scratch: Path, request: Mapping[str, Any], *, files: str, per_batch: int, warm: int, parts: int) -> None:
    """Clicks, in equal shares."""
    log = EmbeddedLog(scratch / "data" / "log", sync=False)
    paths = sorted(Path(files).glob("*.json"))
    for start in range(0, len(paths), per_batch):
        values = pa.concat_arrays([records(path) for path in paths[start : start + per_batch]])
        share = len(values) // parts
        for part in range(parts):
            feed(log, parts, part, values.slice(part * share, share))
    watch = Watch(len(paths) // per_batch)
    watch.run(request, scratch / "data")
    rows = written(scratch / "data", data.KEPT)
    watch.answer(scratch, warm, share * parts, answers.digest(rows))


def stateful(scratch: Path, request: Mapping[str, Any], *, files: str, warm: int, parts: int) -> None:
    """Amounts, by keys."""
    watch, rows = _in_pairs(scratch, request, files, parts)
    watch.answer(scratch, warm, rows, answers.digest(written(scratch / "data", data.TOTAL)))


def deduplicate(scratch: Path, request: Mapping[str, Any], *, files: str, warm: int, parts: int) -> None:
    """Events, by ids."""
    watch, rows = _in_pairs(scratch, request, files, parts)
    watch.answer(scratch, warm, rows, answers.digest(written(scratch / "data", data.SINGLE)))


def lookup(scratch: Path, request: Mapping[str, Any], *, sales: Mapping[str, int], warm: int, parts: int) -> None:
    """Sales, by keys. A first batch reads nothing, as the table is not loaded yet."""
    dataset = data.Sales(**sales)
    log = EmbeddedLog(scratch / "data" / "log", sync=False)
    _feed_files(log, sorted((dataset.directory() / "sales").glob("*.json")), parts)
    watch = Watch(dataset.batches + 1)
    watch.run(request, scratch / "data")
    watch.answer(scratch, warm + 1, dataset.rows, answers.digest(written(scratch / "data", data.NAMED)))


def aggregate(scratch: Path, request: Mapping[str, Any], *, visits: Mapping[str, int], warm: int, parts: int) -> None:
    """Visits, by keys."""
    dataset = data.Visits(**visits)
    watch, rows = _in_pairs(scratch, request, str(dataset.directory()), parts)
    counts = answers.until(written(scratch / "data", data.COUNTED), dataset.closed)
    watch.answer(scratch, warm, rows, answers.digest(counts))


def join(scratch: Path, request: Mapping[str, Any], *, orders: Mapping[str, int], warm: int, parts: int) -> None:
    """Orders and payments, by ids."""
    dataset = data.Orders(**orders)
    log = EmbeddedLog(scratch / "data" / "log", sync=False)
    fed = sum(_feed_files(log, sorted((dataset.directory() / side).glob("*.json")), parts, side) for side in SIDES)
    watch = Watch(dataset.batches)
    watch.run(request, scratch / "data")
    paid = answers.settled(written(scratch / "data", data.PAID), dataset.closed)
    watch.answer(scratch, warm, fed // dataset.batches, answers.digest(paid))


def _in_pairs(scratch: Path, request: Mapping[str, Any], files: str, parts: int) -> tuple[Watch, int]:
    """Run over two files a batch, dealt by the number in the first column; return also the rows of a batch."""
    log = EmbeddedLog(scratch / "data" / "log", sync=False)
    paths = sorted(Path(files).glob("*.json"))
    fed = _feed_files(log, paths, parts)
    watch = Watch(len(paths) // 2)
    watch.run(request, scratch / "data")
    return watch, fed * 2 // len(paths)


def _feed_files(log: EmbeddedLog, paths: Sequence[Path], parts: int, stream: str = GIVEN) -> int:
    """Feed files of lines, dealt by the number in the first column; return their rows."""
    fed = 0
    for path in paths:
        values, rows = records(path), lines.read_json(path)
        numbers = pc.replace_substring_regex(rows.column(0), "[a-z]+-", "").cast(pa.int64())
        for part, mask in dealt(numbers, parts):
            feed(log, parts, part, values.filter(mask), stream)
        fed += len(values)
    return fed


def fill(scratch: Path, request: Mapping[str, Any], *, files: str, place: str, parts: int) -> None:
    """Make the state the restart begins with, a file per batch, and leave the restart's rows behind it in the log."""
    log = EmbeddedLog(Path(place) / "log", sync=False)
    paths = sorted(Path(files).glob("[0-9]*.parquet"))
    began = time.time()

    def add(number: int) -> None:
        if number < len(paths):
            feed_rows(log, paths[number], parts)

    add(0)
    Watch(each=add).run(request, Path(place))
    feed_rows(log, Path(files) / "restart.parquet", parts)
    answer(scratch, (began, time.time()), 0, [])


def fill_join(scratch: Path, request: Mapping[str, Any], *, orders: Mapping[str, int], place: str, parts: int) -> None:
    """Let orders and payments wait, but for those of the last batch, which are left in the log."""
    dataset, log, began = data.Orders(**orders), EmbeddedLog(Path(place) / "log", sync=False), time.time()
    files = {side: sorted((dataset.directory() / side).glob("*.json")) for side in SIDES}
    for side, paths in files.items():
        _feed_files(log, paths[:-2], parts, side)
    Watch(dataset.batches - 1).run(request, Path(place))
    for side, paths in files.items():
        _feed_files(log, paths[-2:], parts, side)
    answer(scratch, (began, time.time()), 0, [])


def restart(scratch: Path, request: Mapping[str, Any], *, place: str, lost: bool, pairs: bool = False) -> None:
    """From the JVM being there to the first batch in Spark's commit log."""
    commits = DataDir(Path(place)).app("bench").run("1").query / "commits"
    before = {path.name for path in commits.iterdir()}
    since = {partition: bounds.end for partition, bounds in EmbeddedLog(Path(place) / "log").bounds(MADE).items()}
    close_all()
    watch = Watch()
    watch.run(request, Path(place))
    (new,) = (path for path in commits.iterdir() if path.name not in before and path.name.isdigit())
    (first,) = watch.progress
    if bool(first.restored) != lost:
        message = f"local state was to be {'lost' if lost else 'there'}: {first.restored}"
        raise SystemExit(message)
    ended, opening = new.stat().st_mtime, first.phases["open"] / 1e3
    answer(
        scratch,
        (watch.opened, ended),
        first.rows_in,
        [first.seconds],
        digest=answers.digest(written(Path(place), data.PAID if pairs else data.LATEST, since)),
        notes={"state MB": first.state_bytes / 1e6, "from start": ended - process_started(), "state s": opening}
        | {name: first.phases.get(name, 0.0) for name in PHASES},
    )


def touches(scratch: Path, request: Mapping[str, Any], *, files: str, place: str, parts: int) -> None:
    """The small files again, one per batch, behind the restart's: with local state as the last run left it."""
    log, paths = EmbeddedLog(Path(place) / "log", sync=False), sorted(Path(files).glob("[0-9]*.parquet"))[8:]

    def add(number: int) -> None:
        if number <= len(paths):
            feed_rows(log, paths[number - 1], parts)

    watch = Watch(len(paths) + 1, add)
    watch.run(request, Path(place))
    watch.answer(scratch, WARM, parquet.read_metadata(paths[0]).num_rows)


def without_waiting(slots: Sequence[Sequence[float]]) -> float:
    """How many times as fast slots could be that never wait for each other: all batches at most, over what they take.

    A batch lasts as long as its slowest slot. Without waiting, all of them last as long as the slot with the most work.
    """
    return sum(max(batch) for batch in slots) / max(map(sum, zip(*slots, strict=True)))


def feed(log: EmbeddedLog, parts: int, part: int, values: pa.Array, stream: str = GIVEN) -> None:
    """Append records to a partition of an input."""
    log.ensure(stream, parts, now=0)
    log.append(StreamPartition(stream, part), written_batch(pa.nulls(len(values), pa.binary()), values, 0))


def feed_rows(log: EmbeddedLog, path: Path, parts: int) -> None:
    """A file of the restart's rows, as JSON lines."""
    rows = parquet.read_table(path)
    for part, mask in dealt(rows["key"], parts):
        part_rows = rows.filter(mask).combine_chunks()
        keys = part_rows["key"].cast(pa.string())
        text = pc.binary_join_element_wise('{"key":', keys, ',"payload":"', part_rows["payload"], '"}', "")
        feed(log, parts, part, text.combine_chunks().cast(pa.binary()))


def dealt(numbers: pa.ChunkedArray, parts: int) -> Iterable[tuple[int, pa.Array]]:
    """Partition and which rows are its."""
    of = numbers.to_numpy() % parts
    return ((part, pa.array(of == part)) for part in np.unique(of).tolist())


def written(place: Path, schema: pa.Schema, since: Mapping[StreamPartition, int] | None = None) -> pa.Table:
    """What the app has put out, from some offsets on."""
    tables, options = [], lines.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    for chunk in StoredStream(EmbeddedLog(place / "log", sync=False), MADE).records(since):
        values = chunk.records.column("value")
        for start in range(0, len(values), 200_000):
            text = pa.BufferReader(b"\n".join(values.slice(start, 200_000).to_pylist()))
            tables.append(lines.read_json(text, parse_options=options).select(schema.names))
    return pa.concat_tables(tables)


def median(values: list[float]) -> float:
    """Of some."""
    return float(np.median(values))


WAYS: dict[str, Callable[..., None]] = {
    way.__name__: way
    for way in (latency, stateless, stateful, deduplicate, lookup, aggregate, join, fill, fill_join, restart, touches)
}


def main() -> None:
    """Run what the request asks for."""
    request, scratch = json.loads(sys.argv[1]), Path(sys.argv[2])
    WAYS[request["way"]](scratch, request, **request["arguments"])


if __name__ == "__main__":
    main()
