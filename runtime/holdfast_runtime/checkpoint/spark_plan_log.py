"""The last entry of Spark's offset log, taken out or replaced, while no query has the checkpoint.

Spark runs a batch again that has an entry there and none among the commits, as the entry says. Without the entry it
asks its source anew, from where the last committed batch ended. The checksum that Spark keeps beside an entry goes
first: an entry without one is read as it is. Must not touch an entry of a batch that is done.
"""

import json
from pathlib import Path

from holdfast.errors import UserActionError
from holdfast_runtime.checkpoint.offset_log import read_offset_log
from holdfast_runtime.checkpoint.offsets import Offsets
from holdfast_runtime.state.folder_storage import FolderStorage

_SOURCE_LINE = 2
"""Which line of an entry is about the one source there is."""


class PlanChangedError(UserActionError):
    """The offset log does not hold the batch that was to be taken back."""


class SparkPlanLog:
    """The offset log of one run's query."""

    def __init__(self, query: Path) -> None:
        self._query = query

    def take_back(self, planned: Offsets, instead: Offsets | None) -> None:
        """Have this batch planned no more, or only this of it."""
        logged = read_offset_log(self._query)
        if logged is None or logged.planned != planned:
            message = f"{self._query} does not plan batch {planned.batch} any more: look again with `holdfast offsets`"
            raise PlanChangedError(message)
        entries = FolderStorage(self._query / "offsets")
        entry = str(max(int(name) for name in entries.names() if name.isdecimal()))
        text = (entries.read(entry) or b"").decode()
        gone = [f".{entry}.crc", *([entry] if instead is None else [])]
        for _ in entries.delete(gone):
            pass
        if instead is not None:
            entries.write(entry, [_with_offsets(text, instead).encode()], replace=True)


def _with_offsets(entry: str, offsets: Offsets) -> str:
    lines = entry.splitlines()
    lines[_SOURCE_LINE] = json.dumps({"offsets": offsets.text()}, separators=(",", ":"))
    return "\n".join(lines)
