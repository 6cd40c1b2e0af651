"""What a batch of very many tasks costs the driver, and what it sends: 10 000 tasks in 400 slots, without brokers.

The loop, the logs and the texts are the real ones; bounds of streams and answers of slots are made up. Two apps (one
input of so many partitions; two joined ones), each with records for all tasks, and for a hundredth of them. All times
are CPU of the driver's thread in milliseconds, medians over batches. `python bench/wide_plans.py --help`.
"""

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.planning.plan import PlanningFacts, plan
from holdfast.spec.app import API_VERSION, KIND
from holdfast.spec.parse import parse_app
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.checkpoint.offsets import DueJump, JumpFile
from holdfast_runtime.checkpoint.query_log import QueryLog
from holdfast_runtime.driver.app import collect_seldom
from holdfast_runtime.driver.attempt import Growth
from holdfast_runtime.inspection.spark_need import foreseen_columns
from holdfast_runtime.loop.batches import Batches, LoopParts
from holdfast_runtime.loop.fed_tables import DataSetsSeen
from holdfast_runtime.loop.joined_sides import joined_sides
from holdfast_runtime.loop.next_batch import AttemptInputs
from holdfast_runtime.loop.ranges import BatchLimits
from holdfast_runtime.loop.stopping import StopCondition, Totals
from holdfast_runtime.progress import BufferedRows
from holdfast_runtime.segments.compiling import compile_graph
from holdfast_runtime.slot.batch_plan import BatchPlan
from holdfast_runtime.slot.report import SlotReport, TaskReport
from holdfast_runtime.streams.records import OffsetBounds

SCHEMA = "id STRING, cents BIGINT, ts TIMESTAMP"
PHASES = ("look, next offsets", "log entry", "plan", "texts", "answers, progress", "log: done")


def spec_of(streams: Sequence[str], partitions: int) -> dict[str, Any]:
    """An app that counts one stream, or joins two."""
    inputs = [
        {"name": name, "system": "log", "partitions": partitions, "key": ["id"], "schema": SCHEMA}
        | {"eventTime": {"column": "ts"}}
        for name in streams
    ]
    step: dict[str, Any] = (
        {
            "name": "made",
            "from": list(streams),
            "aggregate": {"by": ["id"], "window": "1m", "compute": ["sum(cents) AS cents"]},
        }
        if len(streams) == 1
        else {
            "name": "made",
            "from": list(streams),
            "join": {"by": ["id"], "within": "10m", "select": ["id", "left.cents"]},
        }
    )
    return {
        "systems": [{"name": "log", "log": {}}],
        "streams": [*inputs, {"name": "out", "system": "log", "partitions": 16, "key": ["id"]}],
        "steps": [step, {"name": "written", "from": ["made"], "to": "out"}],
    }


@dataclass(slots=True)
class GrowingStreams:
    """The bounds of streams whose chosen partitions get records for each batch."""

    bounds: dict[StreamPartition, OffsetBounds]
    active: int
    """Every how-many-th task gets records."""

    def look(self) -> Mapping[StreamPartition, OffsetBounds]:
        """Return the bounds."""
        return self.bounds

    def grow(self) -> None:
        """Let a hundred records come for each chosen partition; all values are new, as those of brokers are."""
        self.bounds = {
            partition: OffsetBounds(0, bound.end + (0 if partition.partition % self.active else 100), 3)
            for partition, bound in self.bounds.items()
        }


@dataclass(slots=True)
class MadeUpSlots:
    """Slots that answer as if they had run; notes what passes between them and the driver."""

    slots: Sequence[tuple[str, ...]]
    streams: Sequence[str]
    spent: dict[str, float] = field(default_factory=dict)
    sent: int = 0
    received: int = 0
    parse: float = 0.0
    """Seconds of CPU that the slot with most to do needs for its plan."""
    called: float = 0.0
    answered: float = 0.0

    def run(self, batch: Any) -> list[str]:
        """Answer for all slots."""
        self.called = time.thread_time()
        texts = [batch] * len(self.slots) if isinstance(batch, str) else batch.texts(self.slots)
        self.spent["texts"] = time.thread_time() - self.called
        self.sent = sum(map(len, texts))
        parsed, parsing = None, list[float]()
        answers = []
        for text, tasks in zip(texts, self.slots, strict=True):
            if not isinstance(batch, str) or parsed is None:
                began = time.thread_time()
                parsed = BatchPlan.parse(text)
                parsing.append(time.thread_time() - began)
            reports = tuple(self._report(task, parsed) for task in tasks if task in parsed.turns)
            answers.append(SlotReport(reports, {"fetch": 1.0, "steps": 2.0, "commit": 3.0}).text())
        self.parse, self.received = max(parsing), sum(map(len, answers))
        self.answered = time.thread_time()
        return answers

    def end(self) -> None:
        """Nothing is left."""

    def _report(self, task: str, batch: BatchPlan) -> TaskReport:
        rows = sum(offset_range.end - offset_range.start for offset_range in batch.turns[task].ranges)
        return TaskReport(
            task,
            rows_in=dict.fromkeys(self.streams, rows // len(self.streams)),
            bytes_in=100 * rows,
            read=dict.fromkeys(self.streams, rows // len(self.streams)),
            bytes_read=dict.fromkeys(self.streams, 100 * rows // len(self.streams)),
            rows_out={"out": rows},
            bytes_out=90 * rows,
            watermark=batch.now - 5000,
            stream_marks=dict.fromkeys(self.streams, batch.now - 5000),
            held_back=f"{self.streams[0]} in {task} is the slowest",
            state_bytes=40_960,
            buffered={}
            if len(self.streams) == 1
            else {side: BufferedRows(rows, 60 * rows, batch.now - 5000) for side in ("made.left", "made.right")},
        )


def measured(streams: Sequence[str], tasks: int, slots: int, active: int, batches: int) -> Iterator[dict[str, float]]:
    """Run batches and yield what each took; the first one, in which all tasks take part, is left out."""
    tree = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "wide"}, "spec": spec_of(streams, tasks)}
    app = parse_app(tree)
    app_plan = plan(app, PlanningFacts())
    compiled = compile_graph(app.spec, app_plan, foreseen_columns)
    inputs = {task.name: task.inputs for task in app_plan.tasks}
    names = list(inputs)
    made_up = MadeUpSlots([tuple(names[i::slots]) for i in range(slots)], streams)
    partitions = [StreamPartition(name, i) for name in streams for i in range(tasks)]
    world = GrowingStreams({partition: OffsetBounds(0, 100, 3) for partition in partitions}, active)
    with tempfile.TemporaryDirectory() as directory:
        log = QueryLog(Path(directory) / "query")
        loop = LoopParts(
            interval=0,
            epoch=2,
            reading=AttemptInputs(inputs, frozenset(), BatchLimits(50_000, 256 << 20), joins=joined_sides(compiled)),
            bounds=world.look,
            written=dict,
            assumed_bytes=lambda _: {},
            grown=Growth(app, app_plan, lambda: None, lambda _: None).taken,
            ids=lambda: dict.fromkeys(streams, "an-id"),
            cut=lambda _: {},
            jump=DueJump(JumpFile.beside(Path(directory) / "query")),
            data_sets=lambda _: DataSetsSeen(),
            job=lambda: made_up,
            slots=lambda: made_up.slots,
            processed=lambda _: None,
            end=made_up.end,
            check=lambda: None,
            until=StopCondition(),
            listen=lambda _: None,
            drain=threading.Event(),
            totals=Totals(),
        )
        running, offsets = Batches(loop), log.begin().done
        for number in range(batches + 1):
            stamps = [time.thread_time()]
            after = running.after(offsets)
            stamps.append(time.thread_time())
            log.plan(after)
            stamps.append(time.thread_time())
            running.run(after, replay=False)
            stamps.append(time.thread_time())
            log.done()
            stamps.append(time.thread_time())
            began, planned, logged, ran, done = stamps
            entry = max((Path(directory) / "query" / "offsets").iterdir(), key=lambda path: path.stat().st_mtime_ns)
            if number:
                yield {
                    "look, next offsets": planned - began,
                    "log entry": logged - planned,
                    "plan": made_up.called - logged,
                    "texts": made_up.spent["texts"],
                    "answers, progress": ran - made_up.answered,
                    "log: done": done - ran,
                    "parse": made_up.parse,
                    "sent": made_up.sent,
                    "received": made_up.received,
                    "entry": entry.stat().st_size,
                }
            offsets = after
            world.grow()


def main() -> None:
    """Print a table with a column for each case."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=10_000, help="tasks, and partitions of each input (10000)")
    parser.add_argument("--slots", type=int, default=400, help="slots over which they are spread (400)")
    parser.add_argument("--batches", type=int, default=7, help="batches of each case (7)")
    options = parser.parse_args()
    collect_seldom()
    cases = {}
    for kind, streams in (("one input", ["events"]), ("a join", ["orders", "payments"])):
        for amount, active in (("all", 1), ("a hundredth", 100)):
            rows = list(measured(streams, options.tasks, options.slots, active, options.batches))
            cases[f"{kind}, {amount}"] = {name: statistics.median(row[name] for row in rows) for name in rows[0]}
    print(f"{options.tasks} tasks in {options.slots} slots".ljust(34), *(f"{name:>24}" for name in cases))
    for phase in PHASES:
        print(f"{phase}, ms".ljust(34), *(f"{case[phase] * 1000:>24.1f}" for case in cases.values()))
    whole = [sum(case[phase] for phase in PHASES) for case in cases.values()]
    print("the driver in all, ms".ljust(34), *(f"{seconds * 1000:>24.1f}" for seconds in whole))
    print("a slot reads its plan, ms".ljust(34), *(f"{case['parse'] * 1000:>24.2f}" for case in cases.values()))
    for name, what in (("sent", "sent to slots, kB"), ("received", "answered, kB"), ("entry", "log entry, kB")):
        print(what.ljust(34), *(f"{case[name] / 1000:>24,.1f}" for case in cases.values()))


if __name__ == "__main__":
    main()
