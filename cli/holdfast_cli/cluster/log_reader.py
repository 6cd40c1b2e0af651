"""Why: how a log is asked for, and what its lines are: the kubelet puts a moment before each, if it is asked to.

Must not read anything.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ?")
_NANOS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class LogQuery:
    """What is asked of a log."""

    follow: bool = False
    previous: bool = False
    since_seconds: int | None = None
    tail: int | None = None
    stamped: bool = False
    """Whether each line begins with its moment."""
    since_time: int | None = None
    """Nanoseconds since 1970."""

    def query(self, container: str) -> dict[str, str]:
        """As the API takes it."""
        asked = {
            "container": container,
            "follow": "true" if self.follow else None,
            "previous": "true" if self.previous else None,
            "sinceSeconds": None if self.since_seconds is None else str(self.since_seconds),
            "sinceTime": None if self.since_time is None else _second(self.since_time),
            "tailLines": None if self.tail is None else str(self.tail),
            "timestamps": "true" if self.stamped else None,
        }
        return {name: value for name, value in asked.items() if value is not None}


def stamp_of(line: bytes) -> int | None:
    """Nanoseconds since 1970; None: it begins with no moment."""
    found = _STAMP.match(line)
    if found is None:
        return None
    second, fraction, zone = found.groups()
    try:
        at = datetime.fromisoformat((second + zone.replace(b"Z", b"+00:00")).decode())
    except ValueError:
        return None
    return int(at.timestamp()) * _NANOS + int((fraction or b"0").ljust(9, b"0"))


def without_stamp(line: bytes) -> bytes:
    """What was written."""
    found = _STAMP.match(line)
    return line if found is None else line[found.end() :]


def _second(nanos: int) -> str:
    return datetime.fromtimestamp(nanos // _NANOS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
