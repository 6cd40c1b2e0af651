"""The examiner of specs: asks worker processes what a spec says and whether its app may start; caches answers.

A question that exceeds the quick lane's CPU time is asked again in the slow lane, which has more time and lower
priority, so that cheap specs never wait for expensive ones. Within a lane namespaces take turns, so that a namespace
costs the others at most one turn. The processes may be killed at any time. A look waits briefly for an answer. If that
is not enough, the look ends, and another one follows when the answer is there. A question that can't be answered is
remembered and not tried again while the object is unchanged. Must not parse specs itself.
"""

import asyncio
import hashlib
import logging
import os
import pickle
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from holdfast.bounded_json import UNREAD
from holdfast.errors import RetrySoonError
from holdfast.reasons import Reason
from holdfast.spec.app import StreamApp
from holdfast.spec.defaults import OfferedDefaults
from holdfast_operator.decide.facts import AppFinding, AppKey, Grounds, ParsedSpec, StartVerdict
from holdfast_operator.examine.sandbox import HEADER, OUT_OF_MEMORY, AnswerFault, ExaminerLane, WorkerExit
from holdfast_operator.manifests.pod_policy import PodPolicy
from holdfast_operator.observe.cache import RecentValues

QUICK = ExaminerLane(cpu=0.25, memory=192 << 20)
SLOW = ExaminerLane(cpu=10.0, memory=192 << 20, nice=10)
_WORKER = "import sys; from holdfast_operator.examine.sandbox import main; main(sys.argv[1:])"
"""Not `-m`: what the module defines would be pickled as of `__main__`."""
_PAUSE = 1.0
"""Seconds before ended processes are started again."""
_TOO_SLOW = WorkerExit(-signal.SIGPROF)
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

    def put(self, question: "_Question") -> None:
        self.waiting.setdefault(question.namespace, deque()).append(question)
        self.news.set()

    async def next(self) -> "_Question":
        while not self.waiting:
            self.news.clear()
            await self.news.wait()
        namespace = next(iter(self.waiting))
        questions = self.waiting.pop(namespace)
        question = questions.popleft()
        if questions:
            self.waiting[namespace] = questions
        return question


@dataclass(frozen=True, slots=True)
class _Question:
    namespace: str
    question: bytes
    answer: "asyncio.Future[Any]"


class SpecReader(Protocol):
    """What answers questions about specs."""

    async def ask(self, namespace: str, question: str, *arguments: Any) -> tuple[Any, int]:
        """Return the answer, and its size in bytes."""
        ...


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
        queued_question = _Question(
            namespace, pickle.dumps((question, *arguments)), asyncio.get_running_loop().create_future()
        )
        self._turns[0].put(queued_question)
        answer, size = await queued_question.answer
        return answer, size

    async def run(self) -> None:
        """Run the worker processes and answer questions until cancelled."""
        while True:
            ours = [socket.socketpair() for _ in self.lanes]
            words = [
                str(word)
                for (_, worker_socket), lane in zip(ours, self.lanes, strict=True)
                for word in (worker_socket.fileno(), lane.cpu, lane.memory, lane.nice)
            ]
            root = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                _WORKER,
                *words,
                pass_fds=[worker_socket.fileno() for _, worker_socket in ours],
                start_new_session=True,
                stdin=asyncio.subprocess.DEVNULL,
            )
            for _, worker_socket in ours:
                worker_socket.close()
            serving = [
                asyncio.create_task(self._serve(number, own_socket)) for number, (own_socket, _) in enumerate(ours)
            ]
            try:
                await asyncio.wait(serving, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in serving:
                    task.cancel()
                await asyncio.gather(*serving, return_exceptions=True)
                for own_socket, _ in ours:
                    own_socket.close()
                with suppress(ProcessLookupError):
                    os.killpg(root.pid, signal.SIGKILL)
                await root.wait()
            await asyncio.sleep(_PAUSE)

    async def _serve(self, number: int, ours: socket.socket) -> None:
        """Send questions to a worker one by one, until it stops answering."""
        reader, writer = await asyncio.open_connection(sock=ours)
        lane, turns = self.lanes[number], self._turns[number]
        try:
            while True:
                question = await turns.next()
                try:
                    async with asyncio.timeout(lane.cpu + _PATIENCE):
                        answer, size = await _answer(reader, writer, question.question)
                except BaseException as error:
                    # On any error the processes are killed, and the caller gets an error.
                    message = f"what reads specs is gone ({type(error).__name__}), and is started again"
                    _tell(question, NotAnsweredError(message))
                    raise
                if answer == _TOO_SLOW and number + 1 < len(self._turns):
                    self._turns[number + 1].put(question)
                else:
                    _tell(question, (_judged(answer, lane), size))
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, question: bytes) -> tuple[Any, int]:
    writer.write(HEADER.pack(len(question)) + question)
    await writer.drain()
    (size,) = HEADER.unpack(await reader.readexactly(HEADER.size))
    return pickle.loads(await reader.readexactly(size)), size  # noqa: S301 - from a process of our own


def _judged(answer: Any, lane: ExaminerLane) -> Any:
    if not isinstance(answer, WorkerExit):
        return answer
    if answer.code == OUT_OF_MEMORY:
        return TooExpensive(f"it takes more than {lane.memory >> 20} MiB of memory")
    if answer == _TOO_SLOW:
        return TooExpensive(f"it takes more than {lane.cpu:g} s of CPU time")
    return TooExpensive(f"it ended the process that did it (signal {-answer.code})")


def _tell(question: _Question, answer: Any) -> None:
    if question.answer.done():
        return
    if isinstance(answer, BaseException):
        question.answer.set_exception(answer)
    else:
        question.answer.set_result(answer)


_LOG = logging.getLogger("holdfast")
_MOMENT = 0.25
"""Seconds that a look waits for an answer."""
_MOST, _HEAVIEST, _MOST_REFUSED = 512, 16 << 20, 1 << 16
"""Limits: number of answers, their pickled bytes (five times as many in memory), number of refusals."""
QuestionKey = tuple[str, str]
"""Uid of an app, and the question about it."""


class ExaminationPendingError(Exception):
    """There is no answer yet; the app is looked at again when there is one."""


@dataclass(slots=True)
class Examiner:
    """Asks about specs and caches the answers."""

    lanes: SpecReader
    changed: Callable[[AppKey], None]
    """Called when an answer arrives after its look has ended."""
    policy: PodPolicy
    refused: Callable[[Reason], None] = lambda _: None
    """Called with the reason when an app may not start."""
    _answers: RecentValues[QuestionKey, Any] = field(default_factory=lambda: RecentValues(_MOST, _HEAVIEST))
    _refused: RecentValues[QuestionKey, str] = field(default_factory=lambda: RecentValues(_MOST_REFUSED))
    """Why a question can't be answered."""
    _asked: dict[QuestionKey, "asyncio.Task[None]"] = field(default_factory=dict)
    _awaited: set[QuestionKey] = field(default_factory=set)
    """Those of which a look has ended without the answer."""

    async def spec(
        self, key: AppKey, tree: Mapping[str, Any], offered: OfferedDefaults | None = None, of_attempt: str = ""
    ) -> ParsedSpec:
        """Return the parsed spec of this object. `of_attempt`: of whose ConfigMap, if it is not the object's own."""
        metadata = tree["metadata"]
        unread = (tree.get(UNREAD) or {}).get("spec")
        if unread is not None:
            return ParsedSpec(None, None, f"spec: it can't be read: {unread}")
        since, named = (metadata.get("generation"), of_attempt, offered), {"metadata": {"name": metadata["name"]}}
        spec_tree = {name: tree[name] for name in ("apiVersion", "kind", "spec") if name in tree} | named
        answer = await self._answer(key, (metadata["uid"], "spec"), since, spec_tree, offered)
        return answer if isinstance(answer, ParsedSpec) else ParsedSpec(None, None, answer)

    async def told(self, key: AppKey, uid: str, text: str) -> StreamApp | None:
        """Return the app in an attempt's ConfigMap; None if it can't be parsed."""
        answer = await self._answer(key, (uid, "told"), hashlib.sha256(text.encode()).digest(), text)
        return answer.app if isinstance(answer, ParsedSpec) else None

    async def verdict(self, key: AppKey, uid: str, generation: int, spec: ParsedSpec, grounds: Grounds) -> StartVerdict:
        """Return whether an attempt of the current app may start."""
        if spec.app is None:
            return StartVerdict(None, None, AppFinding(Reason.INVALID_SPEC, spec.wrong))
        answer = await self._answer(
            key,
            (uid, "verdict"),
            (generation, spec.fingerprint, spec.defaults, grounds),
            spec.app,
            grounds,
            self.policy,
        )
        if isinstance(answer, StartVerdict):
            return replace(answer, app=spec.app, fingerprint=spec.fingerprint, defaults=spec.defaults)
        return StartVerdict(None, None, AppFinding(Reason.INVALID_SPEC, answer))

    async def _answer(self, key: AppKey, which: QuestionKey, since: object, *arguments: Any) -> Any:
        """Return the answer, or a message why there can't be one."""
        while (answer := self._refused.get(which, since) or self._answers.get(which, since)) is None:
            if which not in self._asked:
                self._asked[which] = asyncio.create_task(self._ask(key, which, since, *arguments))
            task = self._asked[which]
            await asyncio.wait({task}, timeout=_MOMENT)
            if not task.done():
                self._awaited.add(which)
                raise ExaminationPendingError
        return answer

    async def _ask(self, key: AppKey, which: QuestionKey, since: object, *arguments: Any) -> None:
        try:
            answer, size = await self.lanes.ask(key.namespace, which[1], *arguments)
            self._learn(key, which, since, answer, size)
        except NotAnsweredError as error:
            _LOG.warning("%s/%s: %s", key.namespace, key.name, error)
        finally:
            del self._asked[which]
            if which in self._awaited:
                self._awaited.remove(which)
                self.changed(key)

    def _learn(self, key: AppKey, which: QuestionKey, since: object, answer: Any, size: int) -> None:
        wrong = None
        if isinstance(answer, TooExpensive):
            wrong = f"spec: it can't be planned: {answer.why}; make it smaller"
        elif isinstance(answer, AnswerFault):
            wrong = f"spec: it can't be planned, by a fault of Holdfast ({answer.code}); the operator's log has it"
            _LOG.error("%s/%s: %s\n%s", key.namespace, key.name, wrong, answer.traceback)
        if wrong is not None:
            self._refused.put(which, since, wrong)
            self.refused(Reason.INVALID_SPEC)
            return
        self._answers.put(which, since, answer, size)
        if isinstance(answer, StartVerdict) and answer.against is not None:
            self.refused(answer.against.reason)
