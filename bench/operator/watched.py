"""What a process and those it has started took, as the kernel counts it. Must not start or end any."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_USED = slice(11, 15)
"""In `/proc/<pid>/stat`, behind the name: user, system, and the same of children that were waited for."""


@dataclass(frozen=True, slots=True)
class Used:
    """CPU seconds so far, of all of them, and the most memory the first one ever held, in bytes."""

    cpu: float
    peak: int


def used(pid: int) -> Used:
    """What they took until now."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return Used(sum(map(_ticks, _family(pid))) / _TICKS, int(status["VmHWM"].split()[0]) << 10)


def _ticks(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0  # its parent has counted it by now
    return sum(map(int, fields[_USED]))


def _family(pid: int) -> Iterator[int]:
    yield pid
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, file.read_text().split()):
            yield from _family(child)
