"""Latency at a steady rate: from the moment a row is made to the moment another program has it.

Clicks come with the time of their making as `ts`, so many a second in steps of ten milliseconds; a reader of committed
records takes the time when it gets what was made of them. Engines filter and select as in `stateless`, and no row is
dropped. All are asked to go on as soon as they can: a trigger of 0 s; real-time mode where Spark has it; producers of
Kafka Streams that wait 5 ms, with transactions each 100 ms, as it comes, and each 20 ms. Pairs are measured alike: half
of the rows are orders, half their payments, made at the same moment, which is the pair's. Must not know how an engine
works.
"""

import json
import os
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, TopicPartition

from bench.engine.files import quoted, text
from bench.engine.fresh import Measurement, launched
from bench.engine.peers import SAME, TUNED
from bench.kafka.given import PARTITIONS
from bench.kafka.jars import jars
from bench.kafka.streams import command
from bench.kafka.topics import Filler, filler
from bench.kafka.ways import ALO, EOS, Work, removed
from bench.objects import DELAY
from holdfast_runtime.streams.record_keys import place, split
from holdfast_runtime.streams.records import written_batch
from tests.api.proxy import Proxy
from tests.kafka.broker import Broker
from tests.s3.gateway import CREDENTIALS, Gateway

STEP = 0.01
PATIENCE = 120.0
NAMES = ("p50", "p90", "p99", "p99.9", "most")
_SHARES = (50, 90, 99, 99.9, 100)


@dataclass(frozen=True, slots=True)
class Rate:
    """How much, for how long, and how many seconds of it don't count."""

    broker: Broker
    rows_per_second: int
    seconds: int
    warm: int
    work: Work = "stateless"


class Reader(threading.Thread):
    """Reads all that is written to a topic, and takes the time."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        config = {"bootstrap.servers": bootstrap, "group.id": "latency", "enable.auto.commit": False}
        self._consumer = Consumer({**config, "isolation.level": "read_committed", "fetch.wait.max.ms": 10})
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        self.made: list[float] = []
        self.late: list[float] = []
        self.over = threading.Event()

    def run(self) -> None:
        """Until it is over."""
        while not self.over.is_set():
            messages = self._consumer.consume(10_000, 0) or [
                message for message in [self._consumer.poll(0.1)] if message is not None
            ]
            now = time.time()
            values = [value for one in messages if one.error() is None and (value := one.value())]
            times = [np.datetime64(json.loads(value)["ts"].rstrip("Z"), "ms").astype(int) / 1e3 for value in values]
            self.made += times
            self.late += [now - one for one in times]
        self._consumer.close()


def measured(rate: Rate, way: str, start: Callable[[dict[str, Any], Path], list[str]]) -> Measurement:
    """One way: started, given rows, read, ended. `start`: makes its command line from a request and a directory."""
    name = secrets.token_hex(4)
    inputs, out = [f"lat-in-{name}"], f"lat-out-{name}"
    if rate.work == "join":
        inputs.append(f"lat-paid-{name}")
    for topic in (*inputs, out):
        rate.broker.create_topic(topic, PARTITIONS)
    request: dict[str, Any] = {"bootstrap": rate.broker.bootstrap, "work": rate.work, "lateness": 2, "within": 10}
    request |= {"rows_in": inputs[0], "names": inputs[-1], "out": out}
    reader = Reader(rate.broker.bootstrap, out)
    reader.start()
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as scratch:
        process = launched(start(request, Path(scratch)), Path(scratch))
        try:
            _feed(rate.broker.bootstrap, inputs, 10, 1)  # it is there when this comes out
            _wait(lambda: len(reader.late) >= 10, process, Path(scratch) / "log")
            began = time.time()
            per_second = rate.rows_per_second // len(inputs)
            sent = 10 + _feed(rate.broker.bootstrap, inputs, per_second, rate.seconds + rate.warm)
            _wait(lambda: len(reader.late) >= sent, process, Path(scratch) / "log")
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            reader.over.set()
            reader.join()
    removed(rate.broker, "lat-")
    if len(reader.late) != sent:
        sys.exit(f"{way} wrote {len(reader.late)} rows of {sent}")
    counted = [1e3 * late for made, late in zip(reader.made, reader.late, strict=True) if made >= began + rate.warm]
    notes = dict(zip(NAMES, np.percentile(counted, _SHARES).tolist(), strict=True))
    return Measurement(way, len(counted), rate.seconds, 0.0, (statistics.median(counted) / 1e3,), str(sent), notes)


def by_place(rate: Rate) -> list[partial[Measurement]]:
    """Holdfast with its checkpoint on a disk, in an object store, and there with a changelog in Kafka."""
    return [
        partial(measured, rate, "Holdfast, exactly once, checkpoint on a disk", partial(_ours, "ExactlyOnce")),
        partial(in_objects, rate, changelog=False),
        partial(in_objects, rate, changelog=True),
    ]


def all_ways(rate: Rate) -> list[partial[Measurement]]:
    """Each of them."""
    ways = [
        partial(measured, rate, f"Holdfast, {words}", partial(_ours, delivery))
        for delivery, words in (("ExactlyOnce", "exactly once"), ("AtLeastOnce", "at least once"))
    ]
    ways.append(partial(measured, rate, "stock Spark, at least once", partial(_stock, real_time=False)))
    if rate.work != "join":
        ways.append(partial(measured, rate, "Spark in real time, at least once", partial(_stock, real_time=True)))
    ways += [
        partial(measured, rate, f"Kafka Streams, {words}", partial(_streams, guarantee, commit))
        for guarantee, commit, words in (
            (EOS, "", "exactly once"),
            (EOS, "20", "exactly once, each 20 ms"),
            (ALO, "", "at least once"),
        )
    ]
    return ways


def in_objects(rate: Rate, *, changelog: bool) -> Measurement:
    """Holdfast, exactly once, with all that lasts in an S3 server whose answers come later, or with a changelog."""
    os.environ |= CREDENTIALS
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder,
        Gateway(Path(folder)) as gateway,
        Proxy(int(gateway.address.rpartition(":")[2]), delay=DELAY) as proxy,
    ):
        conf = {"spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{proxy.port}"}
        place = {"objects": {"location": gateway.bucket().location, "conf": conf, "changelog": changelog}}
        way = f"Holdfast, exactly once, checkpoint in S3, {1000 * DELAY:.0f} ms an answer"
        way += ", changelog in Kafka" if changelog else ""
        return measured(rate, way, lambda request, scratch: _ours("ExactlyOnce", request | place, scratch))


def _ours(delivery: str, request: Mapping[str, Any], scratch: Path) -> list[str]:
    return _child("ours", {**request, "delivery": delivery, "per_batch": 400_000, "rows": 0}, scratch)


def _stock(request: Mapping[str, Any], scratch: Path, *, real_time: bool) -> list[str]:
    more = {"settings": SAME | TUNED, "jars": jars("spark-kafka"), "per_batch": 0, "real_time": real_time}
    return _child("stock", {**request, **more}, scratch)


def _streams(guarantee: str, commit: str, request: Mapping[str, Any], scratch: Path) -> list[str]:
    more = {"values": "json", "guarantee": guarantee, "rows": 0, "warm": 0, "per_batch": 0}
    more |= {"commit": commit, "linger": "5"}
    return command({**request, **more, "jars": jars("kafka-streams")}, scratch)


def _child(module: str, request: Mapping[str, Any], scratch: Path) -> list[str]:
    return [sys.executable, "-m", f"bench.kafka.{module}", json.dumps({**request, "warm": 0}), str(scratch)]


def _feed(bootstrap: str, topics: list[str], per_second: int, seconds: int) -> int:
    """Rows at a steady rate, or orders and payments; how many of each."""
    sent, begin = 0, time.time()
    with ExitStack() as stack:
        to = [stack.enter_context(filler(bootstrap, topic, linger=0)) for topic in topics]
        for step in range(int(seconds / STEP)):
            time.sleep(max(0.0, begin + step * STEP - time.time()))
            due = int((step + 1) * STEP * per_second) - sent
            if due and len(to) == 1:
                to[0].send(step % PARTITIONS, pa.nulls(due, pa.binary()), _clicks(due))
            elif due:
                _send_pairs(to, sent, due)
            sent += due
    return sent


def _send_pairs(to: Sequence[Filler], first: int, count: int) -> None:
    """Orders, and their payments, made now."""
    millis = int(time.time() * 1e3)
    ids = pc.binary_join_element_wise(f"{secrets.token_hex(4)}-", text(np.arange(first, first + count)), "")
    keys, stamp = ids.cast(pa.binary()), str(np.datetime64(millis, "ms")) + "Z"
    places = place(keys, PARTITIONS)
    for side, value in zip(to, ("amount", "code"), strict=True):
        rows = pc.binary_join_element_wise('{"id":"', ids, f'","{value}":7,"ts":"{stamp}"}}', "").cast(pa.binary())
        for partition, part in split(written_batch(keys, rows, np.full(count, millis)), places):
            side.send(partition, part.column("key"), part.column("value"), millis)


def _clicks(count: int) -> pa.Array:
    """Made now."""
    stamp = str(np.datetime64(int(time.time() * 1e3), "ms")) + "Z"
    numbers = text(np.arange(count) * 10 + 1)
    parts = (
        '{"ad_id":', quoted("ad-", numbers), ',"campaign":"campaign-1","user":"user-1","ts":"', stamp,
        '","price":50.5,"count":', numbers, "}",
    )  # fmt: skip
    return pc.binary_join_element_wise(*parts, "").cast(pa.binary())


def _wait(condition: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if process.poll() is not None or time.monotonic() > deadline:
            sys.exit(f"ended or hung ({process.poll()}):\n{log.read_text()[-4000:]}")
        time.sleep(0.05)
