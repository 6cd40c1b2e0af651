"""The worker processes that read specs, with limits on CPU time and memory, and the questions that they answer.

Users write specs, and the cost of parsing one is not known in advance, so separate processes do it:

    operator --asks--> worker   of a lane; answers one question after the other
                         ^ forked in milliseconds, whenever one ended
                       root     has imported everything; reports that a worker was killed, and by which signal

The kernel kills a worker that takes more CPU time than its lane allows, whatever it is doing. A worker that needs more
memory than allowed gets a `MemoryError`, reports it, and exits. Any other exception that a spec causes is a fault of
Holdfast and becomes an answer. All processes end when the operator's sockets close. Must not import code that talks to
a cluster or a broker.
"""

import gc
import os
import pickle
import resource
import signal
import socket
import struct
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from holdfast.bounded_json import load
from holdfast.errors import PlanningFailedError, safely
from holdfast.spec.app import StreamApp
from holdfast_operator.decide.facts import Grounds, ParsedSpec, StartVerdict, read_spec
from holdfast_operator.examine.start_checks import judge
from holdfast_operator.manifests.pod_policy import PodPolicy

_LONGEST_TRACEBACK = 20_000


@dataclass(frozen=True, slots=True)
class AnswerFault:
    """An unexpected exception."""

    code: str
    """A code that is the same for the same fault."""
    traceback: str


@dataclass(frozen=True, slots=True)
class WorkerExit:
    """The worker ended before it could answer."""

    code: int
    """`OUT_OF_MEMORY`, or a signal's number, negative."""


def answered(question: bytes) -> bytes:
    """Return the pickled answer to a pickled question; raise nothing but `MemoryError`."""
    name, *arguments = pickle.loads(question)  # noqa: S301 - from the operator itself
    try:
        return safely(lambda: pickle.dumps(_QUESTIONS[name](*arguments)))
    except PlanningFailedError as failed:
        if isinstance(failed.__cause__, MemoryError):
            raise failed.__cause__ from None
        trace = "".join(traceback.format_exception(failed.__cause__))
        return pickle.dumps(AnswerFault(failed.bug, trace[-_LONGEST_TRACEBACK:]))


def _told(text: str) -> ParsedSpec:
    """Parse the spec in an attempt's ConfigMap."""
    try:
        tree = load(text)
    except ValueError as error:
        return ParsedSpec(None, None, str(error))
    return read_spec(tree) if isinstance(tree, dict) else ParsedSpec(None, None, "it is no object")


def _verdict(app: StreamApp, grounds: Grounds, policy: PodPolicy) -> StartVerdict:
    """Return the verdict without the app, which the caller has."""
    return replace(judge(grounds, ParsedSpec(app, None), policy), app=None)


_QUESTIONS: Mapping[str, Callable[..., Any]] = {"spec": read_spec, "told": _told, "verdict": _verdict}

HEADER = struct.Struct(">Q")
"""Precedes each question and each answer: its length."""
_ANSWERS = 512
"""A worker is replaced after this many answers, so that what it retains never reaches its memory limit."""
_PAGE = os.sysconf("SC_PAGE_SIZE")
_SUCCESSOR, OUT_OF_MEMORY = 3, 4
"""Exit codes of a worker that has given its answers, and of one whose question took too much memory."""


@dataclass(frozen=True, slots=True)
class ExaminerLane:
    """The limits of a lane's workers."""

    cpu: float
    """Seconds of CPU time per answer."""
    memory: int
    """Bytes beyond those at the worker's start."""
    nice: int = 0


def main(arguments: Sequence[str]) -> None:
    """Run the lanes on the command line; each has a socket's descriptor and the three limits of a lane."""
    each = [arguments[at : at + 4] for at in range(0, len(arguments), 4)]
    lanes = [
        (socket.socket(fileno=int(descriptor)), ExaminerLane(float(cpu), int(memory), int(nice)))
        for descriptor, cpu, memory, nice in each
    ]
    gc.freeze()
    workers = {_forked(at, lanes): at for at in range(len(lanes))}
    while True:
        pid, status = os.wait()
        number, code = workers.pop(pid), os.waitstatus_to_exitcode(status)
        if code < 0 or code == OUT_OF_MEMORY:
            _send(lanes[number][0], pickle.dumps(WorkerExit(code)))
        elif code != _SUCCESSOR:
            return  # the operator has gone, or the question could not be received
        workers[_forked(number, lanes)] = number


def _forked(number: int, lanes: Sequence[tuple[socket.socket, ExaminerLane]]) -> int:
    """Start a worker of this lane; return its process id."""
    pid = os.fork()
    if pid == 0:
        for other, _ in lanes:
            if other is not lanes[number][0]:
                other.close()  # otherwise the operator would not notice that the other lane has ended
        _work(*lanes[number])
    return pid


def _work(channel: socket.socket, lane: ExaminerLane) -> NoReturn:
    os.nice(lane.nice)
    most = _data() + lane.memory
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for _ in range(_ANSWERS):
        header = _received(channel, HEADER.size)
        if not header:
            os._exit(0)
        question = _received(channel, HEADER.unpack(header)[0])
        signal.setitimer(signal.ITIMER_PROF, lane.cpu)
        try:
            answer = answered(question)
        except MemoryError:
            os._exit(OUT_OF_MEMORY)
        signal.setitimer(signal.ITIMER_PROF, 0)
        _send(channel, answer)
    os._exit(_SUCCESSOR)


def _received(channel: socket.socket, size: int) -> bytes:
    """Read this many bytes; fewer if the operator has gone."""
    data = bytearray()
    while len(data) < size and (part := channel.recv(size - len(data))):
        data += part
    return bytes(data)


def _send(channel: socket.socket, answer: bytes) -> None:
    channel.sendall(HEADER.pack(len(answer)) + answer)


def _data() -> int:
    """Return the bytes of this process that count towards the limit."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5]) * _PAGE
