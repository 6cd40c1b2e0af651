"""A process of its own for each measurement, so that no JVM, worker or cache of one helps or harms the next.

The parent watches the CPU time of all processes below it (driver, JVM, Python workers), also in sessions that these
have opened, and cuts out the window the child reports: neither the start of the JVM nor the check of results is in a
figure. `resource.getrusage` would not do: workers are killed, not waited for, when Spark stops. Must not know an
engine.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
PERIOD = 0.1
"""Seconds between looks at the CPU time; in between it is interpolated."""
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one process did in its window."""

    way: str
    rows: int
    seconds: float
    cpu_seconds: float
    """User and system, of all its processes."""
    batches: tuple[float, ...]
    """Seconds of each batch of the window."""
    digest: str
    """Of all results, of the window or before it; equal for engines that did the same."""
    notes: Mapping[str, float]
    """What else is worth printing, by name."""


def measure(way: str, module: str, request: Mapping[str, Any], deadline: float = 1800) -> Measurement:
    """Run `module` in a new process; it gets the request and a scratch directory, and writes `answer.json` there."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as scratch:
        samples = _watched(_started(module, request, Path(scratch)), Path(scratch), time.monotonic() + deadline)
        answer = json.loads((Path(scratch) / "answer.json").read_text())
    times, cpu = zip(*samples, strict=True)
    began, ended = np.interp([answer["began"], answer["ended"]], times, np.maximum.accumulate(cpu))
    return Measurement(
        way=way,
        rows=answer["rows"],
        seconds=answer["ended"] - answer["began"],
        cpu_seconds=float(ended - began),
        batches=tuple(answer["batches"]),
        digest=answer["digest"],
        notes=answer["notes"],
    )


def _started(module: str, request: Mapping[str, Any], scratch: Path) -> subprocess.Popen[bytes]:
    return launched([sys.executable, "-m", module, json.dumps(request), str(scratch)], scratch)


def launched(command: Sequence[str], scratch: Path) -> subprocess.Popen[bytes]:
    """A process of its own session, which finds what is beside this package and writes to `log`."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}
    with (scratch / "log").open("wb") as log:
        return subprocess.Popen(  # noqa: S603 - our own module, or a peer
            command,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=scratch,
            env=environment,
            start_new_session=True,
        )


def _watched(child: subprocess.Popen[bytes], scratch: Path, deadline: float) -> list[tuple[float, float]]:
    samples, sessions = [(time.time(), 0.0)], {child.pid}
    try:
        while child.poll() is None and time.monotonic() < deadline:
            samples.append((time.time(), _cpu_seconds(sessions)))
            time.sleep(PERIOD)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)  # The JVM ends with its driver, and its workers with the JVM.
            child.wait()
    if child.returncode:
        message = f"the measured process ended with {child.returncode}:\n{(scratch / 'log').read_text()[-6000:]}"
        raise SystemExit(message)
    return samples


def _cpu_seconds(sessions: set[int]) -> float:
    """Of all processes of these sessions and of their children that have ended; sessions below them are added."""
    processes: dict[int, tuple[int, int, int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # It ended while we looked; whoever waits for it has its time.
        ticks = sum(int(field) for field in fields[11:15])
        processes[int(path.parent.name)] = int(fields[1]), int(fields[3]), ticks
    count = len(sessions)
    while True:
        below = {pid for pid, (_, session, _) in processes.items() if session in sessions}
        sessions |= {processes[pid][1] for pid, (parent, _, _) in processes.items() if parent in below}
        if len(sessions) == count:
            return sum(ticks for _, session, ticks in processes.values() if session in sessions) / TICKS
        count = len(sessions)


def answer(scratch: Path, window: tuple[float, float], rows: int, batches: list[float], **more: Any) -> None:
    """What the child reports; `digest` and `notes` are in `more`."""
    report = {"began": window[0], "ended": window[1], "rows": rows, "batches": batches, "digest": "", "notes": {}}
    (scratch / "answer.json").write_text(json.dumps({**report, **more}))


def process_started() -> float:
    """When this process was started, seconds since 1970."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / TICKS
