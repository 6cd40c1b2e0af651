"""Processes of this host from outside: which there are below one, and how they are stopped and killed."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def processes_below(process: int, text: str) -> list[int]:
    """This process and those below it, however deep, whose command line has this text."""
    return sorted(pid for pid in _below(process) if text in _command(pid) and not _starting(pid))


def _below(process: int) -> set[int]:
    parents = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                parents[int(path.name)] = parent_of(int(path.name))
            except OSError:
                continue
    below = {process}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return below


def _starting(pid: int) -> bool:
    """Whether it is a copy of a JVM that is about to become the command which the JVM starts."""
    try:
        command = _command(parent_of(pid))
    except OSError:
        return False
    return Path(command.split(" ", 1)[0]).name == "java" and command == _command(pid)


def parent_of(pid: int) -> int:
    """The process that has it as a child; OSError if there is no such process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


@contextmanager
def stopped(process: int) -> Iterator[None]:
    """Keep a process and all below it from running, as on a host that hangs; a parent first, so that it forks no more.

    Java starts short commands now and then: one that has ended between the look and the signal is none to stop.
    """
    held: list[int] = []
    try:
        while pids := sorted(_below(process) - set(held)):
            for pid in pids:
                held.append(pid)
                _signal(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in reversed(held):
            _signal(pid, signal.SIGCONT)


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def die(pid: int) -> None:
    """SIGKILL for a process."""
    os.kill(pid, signal.SIGKILL)
