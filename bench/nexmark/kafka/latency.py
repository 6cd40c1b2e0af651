"""How long rows of Nexmark are on their way from Kafka to Kafka at half of the load that each engine can carry.

From the moment at which a result could have been known to the moment at which a reader of committed records has it.
Each way runs as it does where its rows per second are measured, with a broker of its own. The first seconds don't
count. Must not know how an engine works.
"""

import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition

from bench.engine.fresh import Measurement, launched
from bench.kafka.broker import BenchBroker
from bench.nexmark.kafka import flink, streams
from bench.nexmark.kafka.live import Live, since
from bench.nexmark.kafka.topics import parsed, typed
from bench.nexmark.market import PARTS

BEFORE, WARM, COUNTED, AFTER = 10, 30, 15, 3
"""Seconds of events: there already, not counted, counted, and behind them, so that windows close.

Half a minute isn't counted, as the JVMs of brokers and engines take that long to compile what they do.
"""
STARTS = 20.0
"""Seconds until an engine has started and read what was there."""
QUIET, PATIENCE = 8.0, 60.0
"""Seconds without a row after which all have come, and until that at most."""
LATE = 0.1
"""By how many seconds an event may be sent late."""
Command = Callable[[Mapping[str, Any], Path], list[str]]


class Reader(threading.Thread):
    """Reads all that is written to a topic, and takes the time."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        config = {"bootstrap.servers": bootstrap, "group.id": "latency", "enable.auto.commit": False}
        self._consumer = Consumer({**config, "isolation.level": "read_committed", "fetch.wait.max.ms": 10})
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTS)])
        self._seen: list[tuple[float, list[bytes]]] = []
        self._over = threading.Event()
        self.newest = 0.0
        """When a row came last."""

    def run(self) -> None:
        """Until it is over."""
        while not self._over.is_set():
            messages = self._consumer.consume(10_000, 0) or [
                message for message in [self._consumer.poll(0.1)] if message is not None
            ]
            if values := [value for one in messages if one.error() is None and (value := one.value())]:
                self.newest = time.time()
                self._seen.append((self.newest, values))
        self._consumer.close()

    def end(self) -> tuple[pa.Table, np.ndarray]:
        """All rows, and when each was seen, in microseconds since 1970."""
        self._over.set()
        self.join()
        rows = typed(parsed(b"\n".join(value for _, values in self._seen for value in values)))
        times = np.array([int(at * 1e6) for at, _ in self._seen])
        return rows, np.repeat(times, [len(values) for _, values in self._seen])


def measured(module: str, request: Mapping[str, Any], reads: tuple[str, ...], way: str, rate: int) -> Measurement:
    """One way: started, given events, read, ended."""
    began = time.time() + STARTS + 8e-6 * rate * (BEFORE + WARM + COUNTED)
    live = Live(reads, rate, int(began * 1e6), BEFORE, WARM + COUNTED + AFTER)
    with BenchBroker() as broker:
        for topic in (*reads, "out"):
            broker.create_topic(topic, PARTS)
        live.send_before(broker.bootstrap)
        reader = Reader(broker.bootstrap, "out")
        reader.start()
        live_request = {**request, "bootstrap": broker.bootstrap, "out": "out", "live": True}
        with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as scratch:
            process = launched(_COMMANDS.get(module, _child(module))(live_request, Path(scratch)), Path(scratch))
            try:
                late = live.send(broker.bootstrap)
                sent = time.time()
                while time.time() < min(max(sent, reader.newest) + QUIET, sent + PATIENCE):
                    time.sleep(0.1)
                if process.poll() is not None or not reader.newest:
                    sys.exit(f"{way} ended or wrote nothing:\n{(Path(scratch) / 'log').read_text()[-4000:]}")
            finally:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        rows, arrivals = reader.end()
    if late > LATE:
        print(f"{way}: events were sent up to {late:.2f} s late", flush=True)
    known = since(request["query"], rows, live.events)
    counted = (known >= live.began + WARM * 1e6) & (known < live.began + (WARM + COUNTED) * 1e6)
    took = (arrivals - known)[counted] / 1e3
    if not len(took):
        print(f"{way} wrote nothing of what counts within {PATIENCE:g} s", flush=True)
        took = np.array([np.nan])
    half, most = np.percentile(took, [50, 99]).tolist()
    notes = {"events/s": rate, "rows": int(np.isfinite(took).sum()), "p50 ms": half, "p99 ms": most}
    return Measurement(way, rate * COUNTED, COUNTED, 0.0, (half / 1e3,), "", notes)


def _child(module: str) -> Command:
    def command(request: Mapping[str, Any], scratch: Path) -> list[str]:
        return [sys.executable, "-m", f"bench.nexmark.kafka.{module}", json.dumps(request), str(scratch)]

    return command


_COMMANDS: Mapping[str, Command] = {"streams": streams.command, "flink": flink.command}
