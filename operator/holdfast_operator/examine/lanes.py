"""The two queues of questions to the worker processes: a quick one and a slow one.

A question that exceeds the quick lane's CPU time is asked again in the slow lane, which has more time and lower
priority, so that cheap specs never wait for expensive ones. Within a lane namespaces take turns, so that a namespace
costs the others at most one turn. The processes may be killed at any time. Must not know what is asked.
"""

import asyncio
import os
import pickle
import signal
import socket
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from holdfast.errors import RetrySoonError
from holdfast_operator.examine.questions import WorkerExit, WorkerOutOfMemory
from holdfast_operator.examine.sandbox import HEADER, ExaminerLane

QUICK = ExaminerLane(cpu=0.25, memory=192 << 20)
SLOW = ExaminerLane(cpu=10.0, memory=192 << 20, nice=10)
_PAUSE = 1.0
"""Seconds before ended processes are started again."""
_PATIENCE = 120.0
"""Wall-clock seconds that a question may take beyond its CPU time, as the host may be busy."""


class NotAnsweredError(RetrySoonError):
    """The worker process has ended, through no fault of the question."""


@dataclass(frozen=True, slots=True)
class TooExpensive:
    """A question that takes more CPU time or memory than it may."""

    why: str


@dataclass(slots=True)
class _Turns:
    """Waiting questions by namespace; after its turn, a namespace goes to the end."""

    waiting: dict[str, deque["_Question"]] = field(default_factory=dict)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, asked: "_Question") -> None:
        self.waiting.setdefault(asked.namespace, deque()).append(asked)
        self.news.set()

    async def next(self) -> "_Question":
        while not self.waiting:
            self.news.clear()
            await self.news.wait()
        namespace = next(iter(self.waiting))
        mine = self.waiting.pop(namespace)
        asked = mine.popleft()
        if mine:
            self.waiting[namespace] = mine
        return asked


@dataclass(frozen=True, slots=True)
class _Question:
    namespace: str
    question: bytes
    answer: "asyncio.Future[Any]"


@dataclass(slots=True)
class ExaminerLanes:
    """The worker processes and their queues."""

    lanes: Sequence[ExaminerLane] = (QUICK, SLOW)
    """The lanes, quickest first."""
    _turns: list[_Turns] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._turns = [_Turns() for _ in self.lanes]

    async def ask(self, namespace: str, question: str, *arguments: Any) -> tuple[Any, int]:
        """Return the answer or `TooExpensive`, and its size in bytes."""
        asked = _Question(namespace, pickle.dumps((question, *arguments)), asyncio.get_running_loop().create_future())
        self._turns[0].put(asked)
        answer, size = await asked.answer
        return answer, size

    async def run(self) -> None:
        """Run the worker processes and answer questions until cancelled."""
        while True:
            ours = [socket.socketpair() for _ in self.lanes]
            words = [word for (_, theirs), lane in zip(ours, self.lanes, strict=True) for word in _words(theirs, lane)]
            root = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "holdfast_operator.examine.sandbox",
                *words,
                pass_fds=[theirs.fileno() for _, theirs in ours],
                start_new_session=True,
                stdin=asyncio.subprocess.DEVNULL,
            )
            for _, theirs in ours:
                theirs.close()
            serving = [asyncio.create_task(self._serve(at, mine)) for at, (mine, _) in enumerate(ours)]
            try:
                await asyncio.wait(serving, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in serving:
                    task.cancel()
                await asyncio.gather(*serving, return_exceptions=True)
                for mine, _ in ours:
                    mine.close()
                with suppress(ProcessLookupError):
                    os.killpg(root.pid, signal.SIGKILL)
                await root.wait()
            await asyncio.sleep(_PAUSE)

    async def _serve(self, at: int, ours: socket.socket) -> None:
        """Send questions to a worker one by one, until it stops answering."""
        reader, writer = await asyncio.open_connection(sock=ours)
        lane, turns = self.lanes[at], self._turns[at]
        try:
            while True:
                asked = await turns.next()
                try:
                    async with asyncio.timeout(lane.cpu + _PATIENCE):
                        answer, size = await _answer(reader, writer, asked.question)
                except BaseException as error:
                    # On any error the processes are killed, and the caller gets an error.
                    message = f"what reads specs is gone ({type(error).__name__}), and is started anew"
                    _tell(asked, NotAnsweredError(message))
                    raise
                if isinstance(answer, WorkerExit) and answer.by == signal.SIGPROF and at + 1 < len(self._turns):
                    self._turns[at + 1].put(asked)
                else:
                    _tell(asked, (_judged(answer, lane), size))
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


def _words(theirs: socket.socket, lane: ExaminerLane) -> list[str]:
    return [str(theirs.fileno()), *lane.words()]


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, question: bytes) -> tuple[Any, int]:
    writer.write(HEADER.pack(len(question)) + question)
    await writer.drain()
    (size,) = HEADER.unpack(await reader.readexactly(HEADER.size))
    return pickle.loads(await reader.readexactly(size)), size  # noqa: S301 - from a process of our own


def _judged(answer: Any, lane: ExaminerLane) -> Any:
    if isinstance(answer, WorkerOutOfMemory):
        return TooExpensive(f"it takes more than {lane.memory >> 20} MiB of memory")
    if isinstance(answer, WorkerExit) and answer.by == signal.SIGPROF:
        return TooExpensive(f"it takes more than {lane.cpu:g} s of CPU time")
    if isinstance(answer, WorkerExit):
        return TooExpensive(f"it ended the process that did it (signal {answer.by})")
    return answer


def _tell(asked: _Question, answer: Any) -> None:
    if asked.answer.done():
        return
    if isinstance(answer, BaseException):
        asked.answer.set_exception(answer)
    else:
        asked.answer.set_result(answer)
