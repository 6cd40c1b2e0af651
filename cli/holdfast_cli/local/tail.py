"""The records of a stream as lines: first the existing ones, then new ones as they arrive.

Needs the extra `runtime`; imported only by `holdfast tail`.
"""

import json
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from holdfast.control.messages import ControlRecordError, UserRecord, WatermarkMessage, decode
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.inspection.avro_values import AvroValues
from holdfast_runtime.inspection.local_app import LocalApp
from holdfast_runtime.inspection.streams import StoredStream

_AT_ONCE = 1000
_PAUSE = 0.05
"""Seconds between looks at a stream without new records."""


@dataclass(slots=True)
class Tail:
    """Prints the records of a stream from given positions on."""

    stored: StoredStream
    stream: str
    typed: bool
    avro: AvroValues | None = None
    """What reads its values, if they are Avro and their columns are known."""
    positions: dict[StreamPartition, int] = field(default_factory=dict)
    """The next offset of each partition; partitions not listed start at their oldest record."""
    ends: Mapping[StreamPartition, int] | None = None
    """Where each partition ended at the start, to stop there; None: wait for new records."""

    @staticmethod
    def of(local_app: LocalApp, name: str, *, from_beginning: bool, until_end: bool) -> "Tail":
        """Return a tail that starts at the beginning of a stream, or at its end."""
        stored = StoredStream.of(local_app, local_app.stream(name).name)
        tail = Tail(stored, name, local_app.has_type_bytes(name), AvroValues.of(local_app, name))
        ends = {partition: bounds.end for partition, bounds in stored.bounds().items()}
        if not from_beginning:
            tail.positions = dict(ends)
        if until_end:
            tail.ends = ends
        return tail

    def print(self, most: int | None, *, as_json: bool) -> None:
        """Print records, waiting for new ones, until `most` are printed or the end is reached."""
        left = most
        while left is None or left > 0:
            printed = 0
            for record in islice(self._next(), left):
                sys.stdout.write(self._json(record) if as_json else self._text(record))
                printed += 1
            left = None if left is None else left - printed
            sys.stdout.flush()
            if not printed and self.ends is not None:
                return
            if not printed:
                time.sleep(_PAUSE)

    def _next(self) -> Iterator[dict[str, Any]]:
        """Yield some existing records of every partition."""
        # Where records come faster than they are printed, the end of now would never be reached.
        for chunk in self.stored.records(self.positions, self.ends, _AT_ONCE):
            partition, start, end, _ = chunk.offsets
            if lost := start - chunk.since:
                sys.stderr.write(f"holdfast: {partition}: {lost} records from {chunk.since} on are no longer kept\n")
            self.positions[partition] = end
            for record in chunk.records.to_pylist():
                yield {"partition": partition.partition, **record}

    def _json(self, record: dict[str, Any]) -> str:
        control, value = self._shown(record)
        members = {"partition": record["partition"], "offset": record["offset"], "key": _key(record["key"])}
        members |= {"control": control} if control else {}
        return f'{json.dumps(members, ensure_ascii=False)[:-1]}, "value": {value}}}\n'

    def _text(self, record: dict[str, Any]) -> str:
        control, value = self._shown(record)
        key = "-" if record["key"] is None else _key(record["key"])
        mark = f"{control} " if control else ""
        return f"{self.stream}/{record['partition']}\t{record['offset']}\t{key}\t{mark}{value}\n"

    def _shown(self, record: dict[str, Any]) -> tuple[str | None, str]:
        """Return the kind of control message, if it is one, and the value as JSON."""
        value: bytes | None = record["value"]
        if not self.typed or not value:
            return None, self._user_value(value)
        try:
            message = decode(value)
        except ControlRecordError:
            return None, value_as_json(value)
        if isinstance(message, UserRecord):
            return None, self._user_value(message.payload)
        return "watermark" if isinstance(message, WatermarkMessage) else "endOfStream", value_as_json(value[1:])

    def _user_value(self, value: bytes | None) -> str:
        return value_as_json(value if self.avro is None or value is None else self.avro.shown(value) or value)


def _key(key: bytes | None) -> str | None:
    return None if key is None else key.decode(errors="backslashreplace")


def value_as_json(value: bytes | None) -> str:
    """Return a record's value as it is if it is JSON, else its text as JSON; on one line."""
    if value is None:
        return "null"
    try:
        tree = json.loads(value, parse_constant=_no_json)
        # Print it as it was written: parsing and writing numbers again may change them.
        return value.decode() if b"\n" not in value and b"\r" not in value else json.dumps(tree, ensure_ascii=False)
    except (ValueError, RecursionError):
        return json.dumps(value.decode(errors="backslashreplace"), ensure_ascii=False)


def _no_json(constant: str) -> None:
    raise ValueError(constant)
