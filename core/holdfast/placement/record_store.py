"""The placement record in a metadata store: one compressed value per run, with version and checksum.

The value is a line `holdfast-record 2 sha256=<64 digits>` and, compressed by gzip, one JSON document of columns:

    {"app": "ad-clicks", "runId": "1", "tasks": ["partition-0", ...], "grouped": 2,
     "places": [["claim-0", "exec-0"], ...], "placeOf": [0, ...],
     "inputs": {"clicks": [[task, ...], [partition, ...]]},
     "childAfter": {"clicks": [[child, ...], [parent, ...], [offset, ...]]}, "sideCounts": {"rates": 4},
     "state": {"count": "..."}, "givenUp": [], "madeBy": {"spec.steps[count]": {"aggregate.window": "..."}}}

The first `grouped` tasks are those of the grouping. `placeOf` has for each task a row of `places`: location and
processor. Numbers of tasks and partitions are differences to the number before: nearly all are 0 or 1, which is why
30 000 tasks fit one ConfigMap (docs/decisions/0027-a-record-is-one-object.md). The run is in the key, so runs never see
each other's records. Must not decide anything from a record, and must not overwrite content it could not read.
"""

import base64
import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Mapping
from itertools import accumulate, pairwise
from typing import Any

from holdfast import bounded_json
from holdfast.errors import UserActionError
from holdfast.one_line import printable
from holdfast.placement.metadata_store import MOST_VALUE_BYTES, MetadataStore, Version
from holdfast.spec.kept_state import KeptState
from holdfast.tasks.grouping import natural
from holdfast.tasks.partitions import StreamPartition
from holdfast.tasks.record import ParentEnd, PlacementRecord, RecordInvalidError, check_record

FORMAT = 2
"""Formats 0 and 1 were JSON, in several values."""
MOST_TASKS = 30_000
MOST_DOCUMENT_BYTES = 16 << 20
"""Most bytes of a document that is not compressed; 30 000 tasks of four streams that grew take 3 MB."""
_MOST_VALUES = 1_000_000
_MOST_PARTITION = 10**9
_FORMAT = re.compile(rb"holdfast-record ([1-9]\d{0,8}) ")
_HEADER = re.compile(rb"holdfast-record 2 sha256=([0-9a-f]{64})\n")
_PLAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_CODED, _MAX_NAME = "x-", 63
_MOST_SHOWN, _MOST_TOLD = 100, 500


class RecordStore:
    """The placement records of one app, one per run; no run ever sees another's.

    An instance is one saver: `save` replaces only the record that this instance loaded or saved last, and raises
    `VersionConflictError` if another saver was faster, until it loads that record. Make one instance per thread (they
    are cheap) and share none.
    """

    def __init__(self, store: MetadataStore, app: str) -> None:
        self._store, self._app = store, app
        self._seen: dict[str, Version | None] = {}
        """Run -> the version that this saver saw last, the only one it may replace; None: there was none."""

    def load(self, run_id: str) -> PlacementRecord | None:
        """Return the record of this run; None if nothing was saved."""
        stored = self._store.get(record_key(self._app, run_id))
        record = None if stored is None else read_record(self._app, run_id, stored.value)
        self._seen[run_id] = None if stored is None else stored.version
        return record

    def save(self, record: PlacementRecord) -> None:
        """Make this the record of its run. A saver that has not loaded a record loads it first, then replaces it."""
        value = record_bytes(self._app, record)
        if record.run_id not in self._seen:
            self.load(record.run_id)
        key = record_key(self._app, record.run_id)
        self._seen[record.run_id] = self._store.put(key, value, self._seen[record.run_id])


def record_key(app: str, run_id: str) -> str:
    """Return the key of a run's record."""
    # Older builds kept the first part of their records here. With another key an old record would look like none.
    return f"{key_part(app)}/record/{key_part(run_id)}/head"


def key_part(name: str) -> str:
    """Return the part of a key for this name; what keys may not have is written in base 32 after `x-`, reversibly."""
    raw = name.encode("utf-8", "surrogatepass")
    if not 0 < len(raw) <= _MAX_NAME:
        message = f"{name!r} has {len(raw)} bytes; the name of an app or a run has 1 to {_MAX_NAME}"
        raise UserActionError(message, code="KeyNameError")
    if _PLAIN.fullmatch(name) and not name.startswith(_CODED):
        return name
    return _CODED + base64.b32hexencode(raw).decode().rstrip("=").lower()


def record_bytes(app: str, record: PlacementRecord) -> bytes:
    """Return the stored form of a record; raise `ValueTooLargeError` with all numbers if it is too large to keep."""
    check_record(record)
    document = _document(app, record)
    text = json.dumps(document, sort_keys=True, separators=(",", ":")).encode("ascii")
    body = gzip.compress(text, mtime=0)
    value = b"holdfast-record %d sha256=%s\n" % (FORMAT, hashlib.sha256(body).hexdigest().encode()) + body
    tasks, values = len(document["tasks"]), text.count(b",")
    sizes = ((tasks, MOST_TASKS), (len(value), MOST_VALUE_BYTES), (len(text), MOST_DOCUMENT_BYTES))
    if any(size > most for size, most in (*sizes, (values, _MOST_VALUES))):
        partitions = sum(map(len, record.grouping.values()))
        message = (
            f"the placement record of {app}, run {record.run_id}, is too large: {tasks} tasks that read {partitions} "
            f"partitions, {len(value)} bytes compressed, {len(text)} bytes and {values} values before. The most "
            f"that is kept is {MOST_TASKS} tasks, {MOST_VALUE_BYTES} bytes compressed, {MOST_DOCUMENT_BYTES} bytes and "
            f"{_MOST_VALUES} values before; nothing was written. Split the app, or read streams with fewer partitions"
        )
        raise UserActionError(message, code="ValueTooLargeError")
    # A record that could not be loaded again must not replace one that can.
    read_record(app, record.run_id, value)
    return value


def read_record(app: str, run_id: str, value: bytes) -> PlacementRecord:
    """Return the record in these bytes; raise `ContentUnreadableError` if they are anything else."""
    try:
        document = _parsed(value)
        owner = document["app"], document["runId"]
        if owner != (app, run_id):
            owner_text = f"it belongs to app {_short(owner[0])}, run {_short(owner[1])}"
            message = f"{owner_text}, and not to app {app}, run {run_id}"
            raise ValueError(message)
        record = _record(document)
        check_record(record)
    except (LookupError, TypeError, ValueError, AttributeError, RecordInvalidError) as error:
        why = str(error) if isinstance(error, ValueError | RecordInvalidError) else f"its columns are wrong ({error!r})"
        message = (
            f"{record_key(app, run_id)} can't be used as the placement record: {_short(why, _MOST_TOLD)}; it is left "
            f"as it is. Restore it from a copy, or set a new spec.runId to start with empty state. Without it nobody "
            f"knows where state is and how inputs have grown"
        )
        raise UserActionError(message, code="ContentUnreadableError") from error
    return record


def _parsed(value: bytes) -> dict[str, Any]:
    _check_format(value)
    header = _HEADER.match(value)
    if header is None:
        message = "its first line is damaged"
        raise ValueError(message)
    body = value[header.end() :]
    if hashlib.sha256(body).hexdigest().encode() != header[1]:
        message = "its checksum is wrong"
        raise ValueError(message)
    try:
        # Bounded, since a small value can be made that decompresses to gigabytes.
        text = zlib.decompressobj(wbits=31).decompress(body, MOST_DOCUMENT_BYTES + 1)
    except zlib.error as error:
        message = f"it is not compressed as it should be ({error})"
        raise ValueError(message) from error
    # Parsed values take many times the memory of their text.
    if (values := text.count(b",")) > _MOST_VALUES:
        message = f"it holds {values} values, and at most {_MOST_VALUES} are read"
        raise ValueError(message)
    try:
        document = bounded_json.load(text, most_bytes=MOST_DOCUMENT_BYTES)
    except bounded_json.JsonTooBigError:
        raise
    except ValueError as error:
        message = f"it is not JSON: {error}"
        raise ValueError(message) from error
    if not isinstance(document, dict):
        message = f"it is a {type(document).__name__}"
        raise TypeError(message)
    return document


def _check_format(value: bytes) -> None:
    header = _FORMAT.match(value)
    if value.startswith(b"{"):
        message = (
            "it was written by an earlier build of Holdfast, which kept records in several parts; go on with that build"
        )
    elif header is None:
        message = f"it starts with {value[:16]!r} and is no placement record"
    elif int(header[1]) > FORMAT:
        message = f"it has format {int(header[1])}, and this Holdfast reads format {FORMAT}: upgrade Holdfast"
    else:
        return
    raise ValueError(message)


def _document(app: str, record: PlacementRecord) -> dict[str, Any]:
    grouped = sorted(record.grouping, key=natural)
    tasks = [*grouped, *sorted((record.task_location.keys() | record.task_processor.keys()) - record.grouping.keys())]
    placements: dict[tuple[str | None, str | None], int] = {}
    placement_indices = [
        placements.setdefault((record.task_location.get(task), record.task_processor.get(task)), len(placements))
        for task in tasks
    ]
    inputs: dict[str, list[tuple[int, int]]] = {}
    for number, task in enumerate(grouped):
        for partition in record.grouping[task]:
            inputs.setdefault(partition.stream, []).append((number, partition.partition))
    children: dict[str, list[tuple[int, int, int]]] = {}
    for child, end in sorted(record.child_after.items()):
        children.setdefault(child.stream, []).append((child.partition, end.parent.partition, end.offset))
    return {
        "app": app,
        "runId": record.run_id,
        "tasks": tasks,
        "grouped": len(grouped),
        "places": list(placements),
        "placeOf": placement_indices,
        "inputs": {stream: [*map(_differences, zip(*rows, strict=True))] for stream, rows in inputs.items()},
        "childAfter": {
            stream: [_differences(child), _differences(parent), offsets]
            for stream, rows in children.items()
            for child, parent, offsets in [zip(*rows, strict=True)]
        },
        "sideCounts": dict(record.side_counts),
        "state": dict(record.state.now),
        "givenUp": sorted(record.state.given_up),
        "madeBy": {path: dict(made) for path, made in record.state.made_by.items()},
    }


def _record(document: Mapping[str, Any]) -> PlacementRecord:
    tasks, placements = _texts(document["tasks"]), [_placement(pair) for pair in document["places"]]
    placement_of = dict(zip(tasks, [placements[row] for row in document["placeOf"]], strict=True))
    grouping: dict[str, list[StreamPartition]] = {task: [] for task in tasks[: document["grouped"]]}
    for stream, (numbers, partitions) in document["inputs"].items():
        for number, partition in zip(_numbers(numbers), _numbers(partitions), strict=True):
            grouping[tasks[number]].append(_partition(stream, partition))
    child_after = {
        _partition(stream, child): ParentEnd(_partition(stream, parent), offset)
        for stream, (children, parents, offsets) in document["childAfter"].items()
        for child, parent, offset in zip(_numbers(children), _numbers(parents), _whole(offsets), strict=True)
    }
    sides = document.get("sideCounts", {})
    kept_state = KeptState(
        _by_name(document["state"]),
        frozenset(_texts(document["givenUp"])),
        # Earlier builds kept neither it nor `sideCounts`: what they kept is compared, the next attempt keeps all.
        {path: _by_name(made) for path, made in document.get("madeBy", {}).items()},
    )
    return PlacementRecord(
        document["runId"],
        {task: tuple(sorted(partitions)) for task, partitions in grouping.items()},
        {task: location for task, (location, _) in placement_of.items() if location is not None},
        {task: processor for task, (_, processor) in placement_of.items() if processor is not None},
        child_after,
        dict(zip(sides, _whole(list(sides.values())), strict=True)),
        kept_state,
    )


def _differences(numbers: Iterable[int]) -> list[int]:
    return [after - before for before, after in pairwise([0, *numbers])]


def _numbers(differences: object) -> list[int]:
    return list(accumulate(_whole(differences)))


def _whole(numbers: object) -> list[int]:
    # Larger ones, added up a million times, would take gigabytes.
    if not isinstance(numbers, list) or any(type(number) is not int or abs(number) >> 64 for number in numbers):
        message = "a column of numbers holds something else"
        raise ValueError(message)
    return numbers


def _texts(texts: object) -> list[str]:
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        message = "a column of texts holds something else"
        raise ValueError(message)
    return texts


def _by_name(texts: Mapping[str, Any]) -> dict[str, str]:
    return dict(zip(texts, _texts(list(texts.values())), strict=True))


def _placement(pair: object) -> tuple[str | None, str | None]:
    match pair:
        case [str() | None as location, str() | None as processor]:
            return location, processor
    message = f"{_short(pair)} is no place"
    raise ValueError(message)


def _partition(stream: str, number: int) -> StreamPartition:
    if not stream or not 0 <= number < _MOST_PARTITION:
        message = f"{_short(stream)}/{number} does not name a stream partition"
        raise ValueError(message)
    return StreamPartition(stream, number)


def _short(value: object, most: int = _MOST_SHOWN) -> str:
    """Stored text, cut and cleaned for a message."""
    return printable(str(value)[:most])
