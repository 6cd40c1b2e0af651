"""The worker processes that parse specs, with limits on CPU time and memory.

Users write specs, and the cost of parsing one is not known in advance, so separate processes do it:

    operator --asks--> worker   answers one question after the other
                         ^ forked in milliseconds, whenever one ended
                       keeper   of a lane; reports that its worker was killed, and by which signal
                         ^ forked
                       root     has imported everything, and waits

The kernel kills a worker that takes more CPU time than its lane allows, whatever it is doing. A worker that needs more
memory than allowed gets a `MemoryError`, reports it, and exits. All processes end when the operator's sockets close.
Must not know what is asked: `questions` does.
"""

import gc
import os
import pickle
import resource
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast_operator.examine.questions import WorkerExit, WorkerOutOfMemory, answered

HEADER = struct.Struct(">Q")
"""Precedes each question and each answer: its length."""
_ANSWERS = 512
"""A worker is replaced after this many answers, so that what it retains never reaches its memory limit."""
_PAGE = os.sysconf("SC_PAGE_SIZE")
_SUCCESSOR = 3
"""Exit code of a worker that is to be replaced."""


@dataclass(frozen=True, slots=True)
class ExaminerLane:
    """The limits of a lane's workers."""

    cpu: float
    """Seconds of CPU time per answer."""
    memory: int
    """Bytes beyond those at the worker's start."""
    nice: int = 0

    def words(self) -> list[str]:
        """Return the arguments that `main` parses."""
        return [str(self.cpu), str(self.memory), str(self.nice)]


def main(arguments: Sequence[str]) -> None:
    """Run the lanes on the command line; each has a socket's descriptor and the words of a lane."""
    each = [arguments[at : at + 4] for at in range(0, len(arguments), 4)]
    sockets = [socket.socket(fileno=int(one[0])) for one in each]
    gc.freeze()
    keepers = []
    for mine, (_, cpu, memory, nice) in zip(sockets, each, strict=True):
        keepers.append(os.fork())
        if keepers[-1] == 0:
            for other in sockets:
                if other is not mine:
                    other.close()
            _keep(mine, ExaminerLane(float(cpu), int(memory), int(nice)))
    for one in sockets:
        one.close()
    for keeper in keepers:
        os.waitpid(keeper, 0)


def _keep(asked: socket.socket, lane: ExaminerLane) -> None:
    os.nice(lane.nice)
    while True:
        worker = os.fork()
        if worker == 0:
            _work(asked, lane)
        _, status = os.waitpid(worker, 0)
        if os.WIFSIGNALED(status):
            _send(asked, pickle.dumps(WorkerExit(os.WTERMSIG(status))))
        elif os.WEXITSTATUS(status) != _SUCCESSOR:
            os._exit(0)  # the operator has gone, or the question could not be received


def _work(asked: socket.socket, lane: ExaminerLane) -> None:
    most = _data() + lane.memory
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for _ in range(_ANSWERS):
        header = _received(asked, HEADER.size)
        if not header:
            os._exit(0)
        question = _received(asked, HEADER.unpack(header)[0])
        signal.setitimer(signal.ITIMER_PROF, lane.cpu)
        try:
            answer = answered(question)
        except MemoryError:
            signal.setitimer(signal.ITIMER_PROF, 0)
            _send(asked, pickle.dumps(WorkerOutOfMemory()))
            break
        signal.setitimer(signal.ITIMER_PROF, 0)
        _send(asked, answer)
    os._exit(_SUCCESSOR)


def _received(asked: socket.socket, size: int) -> bytes:
    """Read this many bytes; fewer if the operator has gone."""
    data = bytearray()
    while len(data) < size and (part := asked.recv(size - len(data))):
        data += part
    return bytes(data)


def _send(asked: socket.socket, answer: bytes) -> None:
    asked.sendall(HEADER.pack(len(answer)) + answer)


def _data() -> int:
    """Return the bytes of this process that count towards the limit."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5]) * _PAGE


if __name__ == "__main__":
    main(sys.argv[1:])
