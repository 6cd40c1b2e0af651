"""The views of a log that a process has, kept up to date by what it reads and by what it writes itself.

A writer whose record came to stand right behind what is known need not read anything. Must not know what the objects
mean.
"""

import threading
from dataclasses import dataclass, field
from typing import Final

from holdfast.errors import UserActionError
from holdfast_runtime.per_process import PerProcess
from holdfast_runtime.shared_log import LogRecord, RecordsForgottenError, SharedLog
from holdfast_runtime.state.durable.changelog.log_view import Deed, LogKey, LogView

_KEPT_BYTES: Final = 32 << 20
"""How much of what was read to learn of objects is kept, since it will be asked for: a restore reads all deltas."""
_WASTE: Final = 4 << 20
"""Obsolete bytes of a partition that are not worth a deletion."""
_MOVES: Final = 20
"""How many objects are moved at once: a batch may wait for them."""


@dataclass(slots=True)
class _Partition:
    view: LogView | None = None
    acknowledged: dict[int, LogRecord] = field(default_factory=dict)
    """Records of this process that stand behind what the view has seen."""
    contents: dict[int, bytes] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)


class LogReader:
    """The views of one log in one process. Threads may use them at once."""

    def __init__(self, log: SharedLog) -> None:
        self._log = log
        self._partitions = [_Partition() for _ in range(log.partitions)]
        self._kept = 0

    def fresh(self, partition: int) -> LogView:
        """Return the view of all that stands in a partition now."""
        state = self._partitions[partition]
        with state.lock:
            oldest, end = self._log.bounds(partition)
            while True:
                try:
                    return self._read_to(partition, oldest, end)
                except RecordsForgottenError:
                    oldest, end = self._log.bounds(partition)

    def known(self, partition: int) -> LogView:
        """Return the view of what stood in a partition when this process last wrote there, or later."""
        state = self._partitions[partition]
        with state.lock:
            return self.fresh(partition) if state.view is None else state.view

    def write(self, partition: int, key: LogKey, value: bytes) -> int:
        """Write a record; return its offset once the view has it."""
        state = self._partitions[partition]
        self.known(partition)
        record = self._log.append(partition, key.packed(), value)
        with state.lock:
            view = self.known(partition)
            if record.offset >= view.end:
                state.acknowledged[record.offset] = record
                while view.end in state.acknowledged:
                    view.add(state.acknowledged.pop(view.end))
            if record.offset >= view.end:
                self.fresh(partition)
        return record.offset

    def content(self, partition: int, offset: int) -> bytes:
        """Return the value of a record; raise `RecordsForgottenError` if it is gone."""
        state = self._partitions[partition]
        with state.lock:
            if offset in state.contents:
                return state.contents[offset]
        (record,) = self._log.records(partition, offset, offset + 1)
        return record.value

    def tidy(self, partition: int) -> None:
        """Delete records that say nothing that counts, if they are many; what counts between them is moved."""
        state = self._partitions[partition]
        with state.lock:
            view = self.known(partition)
            if view.obsolete_bytes <= max(_WASTE, view.live_bytes):
                return
            view = self.fresh(partition)
            for directory, name, entry in view.oldest(view.obsolete_bytes // 2)[:_MOVES]:
                content = self.content(partition, entry.offset)
                key = LogKey(Deed.MOVE, directory, name, entry.digest, entry.place, entry.offset)
                self.write(partition, key, content)
            needed = view.needed_from()
            self._log.forget(partition, needed)
            view.forget(needed)

    def _read_to(self, partition: int, oldest: int, end: int) -> LogView:
        state = self._partitions[partition]
        if state.view is None or state.view.end < oldest:
            # What is known of older records may have been deleted, and can't be told from what was moved.
            state.view = LogView(oldest)
            self._kept -= sum(map(len, state.contents.values()))
            state.contents.clear()
        view = state.view
        if view.end < end:
            for record in self._log.records(partition, view.end, end):
                try:
                    view.add(record)
                except ValueError as error:
                    raise self._foreign(partition, record.offset) from error
                if self._kept + len(record.value) <= _KEPT_BYTES:
                    state.contents[record.offset] = record.value
                    self._kept += len(record.value)
            view.end = max(view.end, end)
        for offset in [offset for offset in state.acknowledged if offset < view.end]:
            del state.acknowledged[offset]
        view.forget(oldest)
        return view

    def _foreign(self, partition: int, offset: int) -> UserActionError:
        return UserActionError(
            f"{self._log.title}: record {offset} of partition {partition} was not written by this release of Holdfast. "
            "Run the release that wrote it, or start under a new spec.runId with a topic of which nobody else knows",
            code="ChangelogUnreadableError",
        )


_READERS: PerProcess[SharedLog, LogReader] = PerProcess(LogReader)


def reader_of(log: SharedLog) -> LogReader:
    """Return this process's views of a log."""
    return _READERS.of(log)
