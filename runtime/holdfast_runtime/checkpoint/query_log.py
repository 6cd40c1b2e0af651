"""The two logs of a run, written without Spark's query, in Spark's format: either can go on where the other stopped.

    plan -> (the batch runs) -> done

An entry is written once and whole; the driver that finds it there was overtaken. It outlives its process, but need not
outlive a power cut: elsewhere than on a laptop the next attempt reads a copy (`query_copy`). That a batch is done may
be lost: then it is run again, and finds what it has written. Must not run batches.
"""

import json
from pathlib import Path
from uuid import uuid4

from holdfast.errors import RetrySoonError
from holdfast_runtime.checkpoint.offset_log import VERSION, OffsetLogState, last_entry, read_offset_log
from holdfast_runtime.checkpoint.offsets import Offsets
from holdfast_runtime.state.durable.storage import DirectoryStorage

_BEFORE_OFFSETS = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}})
_DONE = f"{VERSION}\n" + json.dumps({"nextBatchWatermarkMs": 0})
_LEFT = 100
"""How many entries stay, as many as Spark leaves."""


def overtaken() -> RetrySoonError:
    """Return the error of a driver that finds its batch planned by another."""
    message = (
        "another attempt of this app has finished the batch that this attempt was running. Nothing is lost or doubled. "
        "Stop one of the two. If no other attempt runs, start again"
    )
    return RetrySoonError(message, code="AttemptOvertakenError")


class QueryLog:
    """The logs in one directory, as one attempt writes them."""

    def __init__(self, query: Path) -> None:
        self._query = query
        self._offsets, self._commits = (DirectoryStorage(query / log, sync=False) for log in ("offsets", "commits"))
        self._entry = -1

    def begin(self) -> OffsetLogState:
        """Return the state of the run."""
        for storage in (self._offsets, self._commits):
            storage.root.mkdir(parents=True, exist_ok=True)
        DirectoryStorage(self._query).write("metadata", [json.dumps({"id": str(uuid4())}).encode()])
        last = last_entry(self._offsets.root)
        self._entry = -1 if last is None else last
        return read_offset_log(self._query) or OffsetLogState(Offsets())

    def plan(self, offsets: Offsets) -> None:
        """Note the next batch; raise `AttemptOvertakenError` if another attempt has planned it."""
        entry = self._entry + 1
        lines = (VERSION, _BEFORE_OFFSETS, json.dumps({"offsets": offsets.text()}, separators=(",", ":")))
        if self._offsets.write(str(entry), ["\n".join(lines).encode()]) is None:
            raise overtaken()
        self._entry = entry

    def done(self) -> None:
        """Note that the planned batch is done, unless another attempt has; remove what nobody reads any more."""
        if self._commits.write(str(self._entry), [_DONE.encode()]) is None:
            raise overtaken()
        for storage in (self._offsets, self._commits):
            for _ in storage.delete([str(self._entry - _LEFT), f".{self._entry - _LEFT}.crc"]):
                pass
