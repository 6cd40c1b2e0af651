"""Specs are read by processes that may be ended at any time: each question has one answer, and nobody waits long."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import pytest

from holdfast_operator.decide.facts import Grounds, ParsedSpec, StartVerdict, read_spec
from holdfast_operator.examine.examiner import ExaminerLanes, NotAnsweredError, TooExpensive
from holdfast_operator.examine.sandbox import AnswerFault, ExaminerLane
from tests.operator.apps import POLICY, tree
from tests.processes import processes_below
from tests.waiting import patience, wait_until

T = TypeVar("T")
GROUNDS = Grounds("apps", {"clicks": 4, "out": 4}, None, (), "")
ROOM = 128 << 20
FILTER = "length(k) > 1 AND k IS NOT NULL AND concat(k, 'x') <> 'y'"


def long_app(steps: int = 400) -> Any:
    """Takes some 0.3 s to plan; an ordinary one takes 0.005."""
    names = ["clicks", *(f"s{number}" for number in range(steps))]
    return tree(steps=[{"name": new, "from": [old], "filter": FILTER} for old, new in pairwise(names)])


LONG, SHORT = read_spec(long_app()).app, read_spec(tree()).app


def answered(work: Callable[[ExaminerLanes], Awaitable[T]], *lanes: ExaminerLane) -> T:
    """What comes of this work beside lanes that run."""

    async def run() -> T:
        made = ExaminerLanes(lanes)
        running = asyncio.create_task(made.run())
        try:
            return await asyncio.wait_for(asyncio.ensure_future(work(made)), patience(60))
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    return asyncio.run(run())


async def asked_of(lanes: ExaminerLanes, *question: Any) -> Any:
    """The answer alone."""
    answer, size = await lanes.ask(*question)
    assert size > 0
    return answer


def test_an_answer_is_what_reading_here_would_give() -> None:
    async def work(lanes: ExaminerLanes) -> tuple[Any, Any]:
        return await asked_of(lanes, "a", "spec", tree()), await asked_of(lanes, "a", "verdict", SHORT, GROUNDS, POLICY)

    spec, verdict = answered(work, ExaminerLane(10, ROOM))
    assert spec == read_spec(tree())
    assert isinstance(verdict, StartVerdict)
    assert verdict.plan is not None
    assert verdict.against is None


def test_a_slow_answer_is_asked_again_in_a_longer_lane() -> None:
    async def work(lanes: ExaminerLanes) -> Any:
        return await asked_of(lanes, "a", "verdict", LONG, GROUNDS, POLICY)

    assert isinstance(answered(work, ExaminerLane(0.05, ROOM), ExaminerLane(30, ROOM)), StartVerdict)


def test_too_little_time_is_reported_and_the_next_is_answered() -> None:
    async def work(lanes: ExaminerLanes) -> list[Any]:
        return [await asked_of(lanes, "a", "verdict", app, GROUNDS, POLICY) for app in (LONG, SHORT, LONG, SHORT)]

    long, short, again, last = answered(work, ExaminerLane(0.06, ROOM), ExaminerLane(0.06, ROOM))
    assert long == again == TooExpensive("it takes more than 0.06 s of CPU time")
    assert isinstance(short, StartVerdict)
    assert short == last


def test_too_little_memory_is_reported_and_the_next_is_answered() -> None:
    wide = f"[{'[],' * 300_000}[]]"

    async def work(lanes: ExaminerLanes) -> list[Any]:
        return [await asked_of(lanes, "a", "told", text) for text in (wide, "{}", wide, "{}")]

    first, good, again, last = answered(work, ExaminerLane(10, 8 << 20))
    assert first == again == TooExpensive("it takes more than 8 MiB of memory")
    assert isinstance(good, ParsedSpec)
    assert good == last


def test_namespaces_take_turns_whatever_one_of_them_asks() -> None:
    order: list[str] = []

    async def asked(lanes: ExaminerLanes, namespace: str, app: Any) -> None:
        await asked_of(lanes, namespace, "verdict", app, GROUNDS, POLICY)
        order.append(namespace)

    async def work(lanes: ExaminerLanes) -> None:
        bad = [asyncio.create_task(asked(lanes, "bad", LONG)) for _ in range(12)]
        good = [asyncio.create_task(asked(lanes, f"good-{number}", SHORT)) for number in range(3)]
        await asyncio.gather(*bad, *good)

    answered(work, ExaminerLane(30, ROOM))
    assert sorted(order[:4]) == ["bad", "good-0", "good-1", "good-2"]


def test_any_exception_is_an_answer_with_code_and_traceback() -> None:
    async def work(lanes: ExaminerLanes) -> Any:
        return await asked_of(lanes, "a", "verdict", SHORT, None, POLICY)

    failed = answered(work, ExaminerLane(10, ROOM))
    assert isinstance(failed, AnswerFault)
    assert len(failed.code) == 8
    assert "Traceback" in failed.traceback


def test_a_killed_process_is_replaced_and_its_asker_informed() -> None:
    async def work(lanes: ExaminerLanes) -> Any:
        before = await asked_of(lanes, "a", "spec", tree())
        killed = _sandboxes(os.getpid())
        assert len(killed) == 2  # the root and its worker
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(NotAnsweredError):
            await asked_of(lanes, "a", "spec", tree())
        assert before == await asked_of(lanes, "a", "spec", tree())
        return before

    assert isinstance(answered(work, ExaminerLane(10, ROOM)), ParsedSpec)
    assert _sandboxes(os.getpid()) == []


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_no_process_is_left_when_the_operator_dies(how: signal.Signals) -> None:
    program = """
        import asyncio
        from holdfast_operator.examine.examiner import ExaminerLanes
        async def main():
            lanes = ExaminerLanes()
            running = asyncio.create_task(lanes.run())
            await lanes.ask("a", "told", "{}")
            print("answered", flush=True)
            await running
        asyncio.run(main())
    """
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"answered\n"
        # The spare worker of each lane is forked behind the first answer.
        wait_until(lambda: len(_sandboxes(child.pid)) == 3, 20, "both lanes have their workers")
        left = _sandboxes(child.pid)
        child.send_signal(how)
        child.wait(patience(20))
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left), 20, "they end")
    finally:
        child.kill()
        child.communicate()


def _sandboxes(parent: int) -> list[int]:
    """The processes that read specs for this one: its child, and what that has forked."""
    return processes_below(parent, "holdfast_operator.examine.sandbox")
