"""Cases that are only data: an app, what arrives on its streams, and what has to come out.

    NAME/app.yaml          the app
    NAME/in/STREAM.jsonl   what arrives: an object is a row; [key, value] a record as it is, whose value may be null;
                           a text the moment at which what stands below it arrives, "2026-01-01T00:00:00Z" at first
    NAME/out/STREAM.jsonl  the rows that come out, those of one key in their order; [key, null] a record without value

What arrives at one moment, on all streams, is run until nothing is left to do. Bounded streams end at the last moment.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from holdfast.planning.schema_streams import schema_rows
from holdfast.planning.types.ddl import parse_schema
from holdfast.spec.app import StreamApp
from holdfast.spec.streams import SHOWN_AS_JSON, Stream
from holdfast_runtime.streams.codecs import JsonCodec, arrow_schema
from holdfast_runtime.streams.stream_codecs import stream_codec
from holdfast_runtime.testing import Record, TestDriver
from holdfast_runtime.testing.stand_ins import app_of

START = "2026-01-01T00:00:00Z"
FOLDER = Path(__file__).parent
Rows = Mapping[Any, list[str]]
"""Key -> its rows as canonical JSON, in their order."""


@dataclass(frozen=True)
class Case:
    """One folder."""

    folder: Path

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.name

    @cached_property
    def app(self) -> StreamApp:
        """The app."""
        return app_of(self.folder / "app.yaml")

    @cached_property
    def declared(self) -> Mapping[str, Stream]:
        """Its streams by name."""
        return {stream.name: stream for stream in self.app.spec.streams}

    @cached_property
    def inputs(self) -> list[Stream]:
        """Streams on which rows arrive."""
        return [self.declared[file.stem] for file in sorted((self.folder / "in").iterdir())]

    @cached_property
    def arrivals(self) -> list[tuple[datetime, list["Arrival"]]]:
        """What arrives, moment by moment; rows of a stream that follow each other come together."""
        by_moment: dict[str, list[Arrival]] = defaultdict(list)
        for file in sorted((self.folder / "in").iterdir()):
            moment = START
            for kind, group in groupby(_lines(file), type):
                if kind is str:
                    *_, moment = group
                else:
                    by_moment[moment].append(Arrival(self.declared[file.stem], list(group)))
        return [(datetime.fromisoformat(moment), by_moment[moment]) for moment in sorted(by_moment)]

    @cached_property
    def expected(self) -> Mapping[str, Rows]:
        """What has to come out, by stream."""
        return {file.stem: self._by_key(file.stem, _lines(file)) for file in sorted((self.folder / "out").iterdir())}

    def result(self, driver: TestDriver) -> Mapping[str, Rows]:
        """What has come out of the streams of which the case says something."""
        return {stream: self._by_key(stream, self._lines_of(driver, stream)) for stream in self.expected}

    def _lines_of(self, driver: TestDriver, stream: str) -> Iterable[Any]:
        declared, records = self.declared[stream], driver.records(stream)
        if declared.format not in SHOWN_AS_JSON:
            return map(_line, records)
        decoded = stream_codec(declared, columns(declared)).decode(pa.array([record.value for record in records]))
        assert not decoded.bad
        return [json.loads(line) for line in JsonCodec(decoded.rows.schema).encode(decoded.rows).to_pylist()]

    def _by_key(self, stream: str, lines: Iterable[Any]) -> Rows:
        """Rows of streams without key have no order."""
        key = self.declared[stream].key or ()
        rows: dict[Any, list[str]] = defaultdict(list)
        for line in lines:
            cells = [line.get(column) for column in key] if isinstance(line, dict) else line[:1]
            rows[json.dumps(cells) if key else None].append(json.dumps(line, sort_keys=True))
        return rows if key else {None: sorted(rows[None])}


@dataclass(frozen=True)
class Arrival:
    """Rows, or records, that come in one after the other."""

    stream: Stream
    lines: list[Any]

    def feed(self, driver: TestDriver) -> None:
        """Write them to their stream."""
        if isinstance(self.lines[0], list):
            for key, value in self.lines:
                stored = None if value is None else str(value).encode()
                driver.feed_bytes(self.stream.name, [stored], None if key is None else str(key).encode())
            return
        codec = JsonCodec(columns(self.stream))
        decoded = codec.decode(pa.array([json.dumps(line).encode() for line in self.lines], pa.binary()))
        assert not decoded.bad, f"{self.stream.name} gets {self.lines[decoded.bad[0].index]}: {decoded.bad[0].reason}"
        driver.feed(self.stream.name, decoded.rows)


def columns(stream: Stream) -> pa.Schema:
    """The columns that a stream declares."""
    return arrow_schema(parse_schema(stream.schema_) if stream.schema_ else schema_rows(stream, needed=True)[0])


def cases() -> list[Case]:
    """All of them."""
    return [Case(file.parent) for file in sorted(FOLDER.glob("*/app.yaml"))]


def _lines(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line]


def _line(record: Record) -> Any:
    if record.value is None:
        return [None if record.key is None else record.key.decode(), None]
    return json.loads(record.value.removeprefix(b"\0"))
