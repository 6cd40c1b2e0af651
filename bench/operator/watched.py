"""Why: what a process took of the machine, as the kernel counts it. Must not start or end it."""

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Used:
    """CPU seconds so far, and the most memory it ever held, in bytes."""

    cpu: float
    peak: int


def used(pid: int) -> Used:
    """What it took until now."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return Used((int(fields[11]) + int(fields[12])) / _TICKS, int(status["VmHWM"].split()[0]) << 10)
