"""What is found out about specs is remembered, and nobody waits for what takes long."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from holdfast.reasons import Reason
from holdfast_operator.decide.facts import AppKey, Grounds, read_spec
from holdfast_operator.examine.examiner import (
    ExaminationPendingError,
    Examiner,
    ExaminerLanes,
    NotAnsweredError,
    TooExpensive,
)
from holdfast_operator.examine.sandbox import AnswerFault
from tests.operator.apps import POLICY, tree
from tests.waiting import patience

KEY = AppKey("apps", "ads")
GROUNDS = Grounds("apps", {"clicks": 4, "out": 4}, None, (), "")
T = TypeVar("T")


class Played(ExaminerLanes):
    """Lanes whose answers a test gives."""

    def __init__(self, *answers: Any) -> None:
        super().__init__()
        self.answers = list(answers)
        self.asked: list[str] = []
        self.size = 1
        self.hold = asyncio.Event()
        self.hold.set()

    async def ask(self, namespace: str, question: str, *arguments: Any) -> tuple[Any, int]:  # noqa: ARG002 - as lanes are asked
        """The next one."""
        self.asked.append(question)
        await self.hold.wait()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer, self.size


def examined(work: Callable[[Examiner, Played, list[AppKey]], Awaitable[T]], *answers: Any) -> T:
    """What comes of this work with an examiner whose lanes answer so."""

    async def run() -> T:
        changed: list[AppKey] = []
        lanes = Played(*answers)
        return await work(Examiner(lanes, changed.append, POLICY), lanes, changed)

    return asyncio.run(run())


def app(generation: int = 1) -> Any:
    """The object, as a watch told it."""
    made = tree()
    made["metadata"] |= {"uid": "u", "generation": generation, "namespace": "apps"}
    return made


def test_an_object_is_read_once_per_generation() -> None:
    async def work(examiner: Examiner, lanes: Played, _: list[AppKey]) -> list[str]:
        for generation in (1, 1, 2, 2):
            assert (await examiner.spec(KEY, app(generation))).app is not None
        return lanes.asked

    assert examined(work, read_spec(tree()), read_spec(tree())) == ["spec", "spec"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (TooExpensive("it takes more than 10 s of CPU time"), "it takes more than 10 s of CPU time; make it smaller"),
        (AnswerFault("0a1b2c3d", "Traceback: secret"), "by a fault of Holdfast (0a1b2c3d); the operator's log has it"),
    ],
)
def test_an_unanswerable_object_is_not_asked_about_until_it_changes(answer: Any, message: str) -> None:
    async def work(examiner: Examiner, lanes: Played, _: list[AppKey]) -> list[str]:
        for _look in range(3):
            spec = await examiner.spec(KEY, app())
            assert spec.app is None
            assert message in spec.wrong
            assert "secret" not in spec.wrong
            verdict = await examiner.verdict(KEY, "u", 1, spec, GROUNDS)
            assert verdict.against is not None
            assert verdict.against.reason is Reason.INVALID_SPEC
        assert (await examiner.spec(KEY, app(2))).app is not None
        return lanes.asked

    assert examined(work, answer, read_spec(tree())) == ["spec", "spec"]


def test_a_look_does_not_wait_but_follows_a_slow_answer() -> None:
    async def work(examiner: Examiner, lanes: Played, changed: list[AppKey]) -> None:
        lanes.hold.clear()
        for _ in range(2):
            with pytest.raises(ExaminationPendingError):
                await examiner.spec(KEY, app())
        assert changed == []
        lanes.hold.set()
        async with asyncio.timeout(patience(10)):
            while not changed:
                await asyncio.sleep(0)
        assert (await examiner.spec(KEY, app())).app is not None
        assert lanes.asked == ["spec"]

    examined(work, read_spec(tree()))


def test_an_answer_just_after_its_look_is_followed_too() -> None:
    """On a busy loop a question is asked some time after its look began to wait: it was too quick to be told of."""

    async def work(examiner: Examiner, lanes: Played, changed: list[AppKey]) -> None:
        lanes.hold.clear()
        loop = asyncio.get_running_loop()
        loop.call_soon(time.sleep, 0.4)  # before the question is asked, and longer than a look waits
        with pytest.raises(ExaminationPendingError):
            await examiner.spec(KEY, app())
        lanes.hold.set()
        async with asyncio.timeout(patience(10)):
            while not changed:
                await asyncio.sleep(0)

    examined(work, read_spec(tree()))


def test_a_question_that_was_lost_is_asked_again() -> None:
    async def work(examiner: Examiner, lanes: Played, _: list[AppKey]) -> list[str]:
        assert (await examiner.spec(KEY, app())).app is not None
        return lanes.asked

    assert examined(work, NotAnsweredError("gone"), read_spec(tree())) == ["spec", "spec"]


def test_an_unreadable_object_is_refused_without_asking_a_lane() -> None:
    async def work(examiner: Examiner, lanes: Played, _: list[AppKey]) -> None:
        cut = app()
        del cut["spec"]
        cut["unread"] = {"spec": "it is nested deeper than 64 levels"}
        spec = await examiner.spec(KEY, cut)
        assert spec.wrong == "spec: it can't be read: it is nested deeper than 64 levels"
        assert lanes.asked == []

    examined(work)


def test_of_answers_that_are_large_few_are_remembered() -> None:
    async def work(examiner: Examiner, lanes: Played, _: list[AppKey]) -> int:
        lanes.size = 6 << 20
        for uid in ("a", "b", "c", "c", "a"):
            large = app()
            large["metadata"]["uid"] = uid
            await examiner.spec(KEY, large)
        return len(lanes.asked)

    assert examined(work, *[read_spec(tree())] * 4) == 4
