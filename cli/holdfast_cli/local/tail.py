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
from holdfast.one_line import escaped, printable_json
from holdfast.tasks.partitions import StreamPartition
from holdfast_cli.output.amounts import many
from holdfast_runtime.inspection.local_app import LocalApp
from holdfast_runtime.inspection.open_streams import ReadableStream
from holdfast_runtime.inspection.record_filter import RecordFilter, UnjudgedRecord, shown_key
from holdfast_runtime.inspection.schema_values import SchemaValues

_AT_ONCE = 1000


@dataclass(slots=True)
class UnjudgedCount:
    """The records of which `--where` could not say anything."""

    records: int = 0
    first: UnjudgedRecord | None = None


@dataclass(slots=True)
class Tail:
    """Prints the records of a stream from given positions on."""

    stored: ReadableStream
    stream: str
    typed: bool
    schema_values: SchemaValues | None
    """What reads its values, if these have a schema and their columns are known."""
    record_filter: RecordFilter
    positions: dict[StreamPartition, int] = field(default_factory=dict)
    """The next offset of each partition; partitions not listed start at their oldest record."""
    ends: Mapping[StreamPartition, int] | None = None
    """Where each partition ended at the start, to stop there; None: wait for new records."""
    unjudged: UnjudgedCount = field(default_factory=UnjudgedCount)

    @staticmethod
    def of(
        local_app: LocalApp,
        name: str,
        stored: ReadableStream,
        record_filter: RecordFilter,
        *,
        from_beginning: bool,
        until_end: bool,
    ) -> "Tail":
        """Return a tail that starts at the beginning of a stream, or at its end."""
        tail = Tail(stored, name, local_app.has_type_bytes(name), SchemaValues.of(local_app, name), record_filter)
        ends = {partition: bounds.end for partition, bounds in stored.bounds().items()}
        if not from_beginning:
            tail.positions = dict(ends)
        if until_end:
            tail.ends = ends
        return tail

    def print(self, most: int | None, *, as_json: bool) -> None:
        """Print records, waiting for new ones, until `most` are printed or the end is reached."""
        left = most
        try:
            while left is None or left > 0:
                positions_before = dict(self.positions)
                for record in islice(self._next(), left):
                    sys.stdout.write(self._json(record) if as_json else self._text(record))
                    left = None if left is None else left - 1
                sys.stdout.flush()
                if self.positions != positions_before:
                    continue
                if self.ends is not None:
                    return
                time.sleep(self.stored.pause)
        finally:
            self._report_unjudged()

    def _next(self) -> Iterator[dict[str, Any]]:
        """Yield the wanted ones among some existing records of every partition."""
        # Where records come faster than they are printed, the end of now would never be reached.
        for chunk in self.stored.records(self.positions, self.ends, _AT_ONCE):
            partition, start, end, _ = chunk.offsets
            if lost := start - chunk.since:
                sys.stderr.write(f"holdfast: {partition}: {lost} records from {chunk.since} on are no longer kept\n")
            self.positions[partition] = end
            chosen = self.record_filter.chosen(partition, chunk.records)
            if chosen.unjudged:
                self.unjudged.records += len(chosen.unjudged)
                self.unjudged.first = self.unjudged.first or chosen.unjudged[0]
            for record in chosen.records.to_pylist():
                yield {"partition": partition.partition, **record}

    def _report_unjudged(self) -> None:
        if (first := self.unjudged.first) is not None:
            sys.stderr.write(
                f"holdfast: {many(self.unjudged.records, 'record')} left out, as --where can't be computed: the first "
                f"is {self.stream}/{first.partition} at offset {first.offset}: {first.reason}\n"
            )

    def _json(self, record: dict[str, Any]) -> str:
        control, value = self._shown(record)
        members = {"partition": record["partition"], "offset": record["offset"], "key": shown_key(record["key"])}
        members |= {"control": control} if control else {}
        return printable_json(f'{json.dumps(members, ensure_ascii=False)[:-1]}, "value": {value}}}') + "\n"

    def _text(self, record: dict[str, Any]) -> str:
        control, value = self._shown(record)
        key = escaped(shown_key(record["key"]) or "") if record["key"] is not None else "-"
        mark = f"{control} " if control else ""
        return f"{self.stream}/{record['partition']}\t{record['offset']}\t{key}\t{mark}{printable_json(value)}\n"

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
        values = self.schema_values
        return value_as_json(value if values is None or value is None else values.shown(value) or value)


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
