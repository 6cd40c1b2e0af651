"""The app of tests/engine/runs.py on a broker: what was lost, doubled or disordered shows in its rows."""

import json
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from holdfast_runtime.streams.kafka.client.connection import QUIET
from tests.engine.runs import APP, KEYS, check_rows
from tests.kafka.reached import Reached
from tests.kafka.sent import seen_by_partition

_FIRST = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
KEEPING: dict[str, Any] = {"name": "seen", "from": ["rows"], "deduplicate": {"by": ["k", "id"], "within": "10s"}}
"""A step that keeps something by the keys of the input, which otherwise may grow by any number."""
ANY = -1
"""The partition is up to the producer."""


@dataclass(frozen=True)
class Counted:
    """Its topics are its own, so that tests can share a broker."""

    broker: Reached
    name: str

    @classmethod
    def new(cls, broker: Reached, partitions: int = 2) -> "Counted":
        """With an input of so many partitions; what it writes is Holdfast's to make."""
        made = cls(broker, f"counted-{uuid.uuid4().hex[:6]}")
        broker.create_topic(made.rows, partitions)
        return made

    @property
    def rows(self) -> str:
        """The topic it reads."""
        return f"{self.name}-rows"

    @property
    def numbered(self) -> str:
        """The topic it writes."""
        return f"{self.name}-numbered"

    def text(self) -> str:
        """Its YAML."""
        text = APP.replace("name: counted}", f"name: {self.name}}}")
        text = text.replace("log: {}", f'kafka: {{bootstrapServers: "{self.broker.bootstrap}"}}')
        for stream, topic in (("rows", self.rows), ("numbered", self.numbered)):
            text = text.replace(f"{{name: {stream},", f"{{name: {stream}, topic: {topic},")
        return text

    def file(self, folder: Path, *, keeping: bool = False) -> Path:
        """Its file; `keeping`: with `KEEPING`."""
        path, text = folder / f"{self.name}.yaml", self.text()
        path.write_text(text.replace("  steps:\n", f"  steps:\n  - {json.dumps(KEEPING)}\n") if keeping else text)
        return path

    def feed(self, count: int, first: int = 0, partition: int | None = None) -> None:
        """Rows `first` to `first + count`, the key of each by its number, as a Java client would place them.

        `partition`: into that one, all of them.
        """
        place = ANY if partition is None else partition
        # Idempotent, or a request that is sent again because its topic is so new comes behind the next one.
        settings = {"partitioner": "murmur2_random", "enable.idempotence": True}
        producer = Producer({"bootstrap.servers": self.broker.bootstrap, **settings}, logger=QUIET)
        for n in range(first, first + count):
            produce(producer, self.rows, n, place)
        assert producer.flush(60) == 0

    def written(self) -> list[dict[str, Any]]:
        """What a reader of committed records sees of it, in the order of each partition."""
        parts = sorted(seen_by_partition(self.broker, self.numbered).items())
        return [json.loads(value) for _, values in parts for value in values]

    def check(self, count: int) -> None:
        """Every row that is kept once, numbered without a gap, and in order for each key."""
        check_rows(self.written(), count)


def produce(producer: Producer, topic: str, n: int, place: int = ANY) -> None:
    """Row `n`, on its way."""
    stamp = datetime.fromtimestamp(_FIRST + n, UTC).strftime("%Y-%m-%dT%H:%M:%SZ").encode()
    value = b'{"id":%d,"k":"%d","ts":"%s"}' % (n, n % KEYS, stamp)
    producer.produce(topic, value, b"%d" % (n % KEYS), place, on_delivery=_well)
    producer.poll(0)


def _well(error: object, _: object) -> None:
    assert error is None, error
