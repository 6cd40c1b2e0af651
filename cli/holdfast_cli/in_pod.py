"""`python -m holdfast_cli.in_pod WIDTH ARGUMENTS...`: one command in the pod of a driver, started from elsewhere.

The driver comes first: the command gives way to it, and ends itself before the container's memory is used up, since
Kubernetes would end the whole container. Limits of a process are no way: libraries reserve much more than they use.
Standard input is a leash: an interrupt comes as a byte, and the command ends at
the end of file, or after a minute without a byte, as nobody listens then. Must not know what a command does.
"""

import os
import select
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from holdfast_cli.main import main
from holdfast_cli.output.screen import WIDTH_VARIABLE, print_message

_CGROUP = Path("/sys/fs/cgroup")
_VERSION_2 = "memory.max", "memory.current", "inactive_file"
_VERSION_1 = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
"""Names of limit and use of control groups, and of what is in use for files that can go."""
_UNLIMITED = 1 << 60
_LEFT_ALONE = 64 << 20
"""Bytes of memory that must stay free."""
_EVERY = 0.1
"""Seconds between two looks at it."""
_LEAST = 192 << 20
"""Bytes that the smallest command needs."""
_SILENT = 60.0
_GRACE = 5.0
_INTERRUPT = b"\x03"
_BAD_USAGE, _INTERRUPTED = 2, 130


def run_in_pod(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    width, *line = arguments
    if int(width) > 0:
        os.environ[WIDTH_VARIABLE] = width
    os.nice(10)
    room = free_memory(_CGROUP)
    if room is not None and room < _LEAST + _LEFT_ALONE:
        print_message(
            f"holdfast: the driver's container has {room >> 20} MiB of memory left, and a command in it needs "
            f"{(_LEAST + _LEFT_ALONE) >> 20}: raise the limit of spec.runtime.driver, or give the app's file to the "
            "command on a host that reaches what it needs"
        )
        return _BAD_USAGE
    if room is not None:
        _be_first_to_go()
        threading.Thread(target=_watch, args=(_CGROUP,), name="memory", daemon=True).start()
    threading.Thread(target=_hold, args=(sys.stdin.fileno(),), name="leash", daemon=True).start()
    try:
        return main(line)
    except KeyboardInterrupt:
        return _INTERRUPTED


def free_memory(cgroup: Path) -> int | None:
    """Return how many bytes this container may still use; None: it has no limit, or it is not known."""
    rooms = (_room(cgroup, *_VERSION_2), _room(cgroup / "memory", *_VERSION_1))
    return next((room for room in rooms if room is not None), None)


def _room(folder: Path, most: str, used: str, inactive: str) -> int | None:
    try:
        numbers = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        limit = int((folder / most).read_text())
        # Content of files is given up before the limit is exceeded.
        return limit - int((folder / used).read_text()) + int(numbers[inactive]) if limit < _UNLIMITED else None
    except (OSError, ValueError, KeyError):
        return None


def _be_first_to_go() -> None:
    """Have the kernel end this process before the driver, where it ends single ones."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _watch(cgroup: Path) -> None:
    pause = threading.Event()
    while not pause.wait(_EVERY):
        room = free_memory(cgroup)
        if room is not None and room < _LEFT_ALONE:
            os.write(2, b"holdfast: this takes more memory than the driver's container has left\n")
            os._exit(_BAD_USAGE)


def _hold(leash: int) -> None:
    """Interrupt the command when the leash says so, and end it when nobody holds the leash any more."""
    while select.select([leash], [], [], _SILENT)[0] and (data := os.read(leash, 1024)):
        if _INTERRUPT in data:
            os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait(_GRACE)
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    sys.exit(run_in_pod(sys.argv[1:]))
