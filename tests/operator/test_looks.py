import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable

from holdfast_operator.decide.decision import LookAgain, NextLook, WaitForChange
from holdfast_operator.decide.facts import AppKey
from holdfast_operator.service.look_queue import _AT_ONCE, LookQueue
from tests.waiting import patience

A, B = AppKey("n", "a"), AppKey("n", "b")
DEADLINE = patience(20.0)
Look = Callable[[AppKey], Awaitable[NextLook]]


def counted(wake: NextLook) -> tuple[Look, Counter[AppKey]]:
    """A look that always ends like this, and how often each app is looked at."""
    look_counts = Counter[AppKey]()

    async def look(key: AppKey) -> NextLook:
        look_counts[key] += 1
        return wake

    return look, look_counts


async def until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not reached():
            await asyncio.sleep(0)


def live(look: Look, story: Callable[[LookQueue], Awaitable[None]]) -> list[tuple[AppKey, str]]:
    """Run a queue while something happens; what failed."""
    failed: list[tuple[AppKey, str]] = []

    async def run() -> None:
        looks = LookQueue(look, lambda key, error: failed.append((key, str(error))))
        task = asyncio.create_task(looks.run())
        try:
            await story(looks)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    return failed


def test_a_change_during_a_look_brings_another() -> None:
    look_counts, go = Counter[AppKey](), asyncio.Event()

    async def look(key: AppKey) -> NextLook:
        look_counts[key] += 1
        await go.wait()
        return WaitForChange("it changes")

    async def story(looks: LookQueue) -> None:
        looks.soon(A)
        await until(lambda: look_counts[A] == 1)
        looks.soon(A)
        looks.soon(A)
        go.set()
        await until(lambda: look_counts[A] == 2 and looks.waiting == 0)

    assert live(look, story) == []
    assert look_counts == {A: 2}


def test_looks_at_one_app_never_overlap_and_others_go_on() -> None:
    at_once, most, look_counts = Counter[AppKey](), Counter[AppKey](), Counter[AppKey]()

    async def look(key: AppKey) -> NextLook:
        at_once[key] += 1
        most[key] = max(most[key], at_once[key])
        look_counts[key] += 1
        await asyncio.sleep(0)
        at_once[key] -= 1
        return LookAgain(0) if look_counts[key] < 100 else WaitForChange("it changes")

    async def story(looks: LookQueue) -> None:
        looks.soon(A)
        looks.soon(B)
        await until(lambda: look_counts[A] >= 100 and look_counts[B] >= 100)
        assert looks.waiting == 0

    live(look, story)
    assert most == {A: 1, B: 1}


def test_a_look_that_fails_is_repeated_and_stops_nobody() -> None:
    look_counts = Counter[AppKey]()

    async def look(key: AppKey) -> NextLook:
        look_counts[key] += 1
        if key == A and look_counts[A] == 1:
            message = "no"
            raise ValueError(message)
        return WaitForChange("it changes")

    async def story(looks: LookQueue) -> None:
        looks.soon(A)
        looks.soon(B)
        await until(lambda: look_counts[A] == 2 and look_counts[B] == 1)

    assert live(look, story) == [(A, "no")]


def test_the_earlier_of_two_wishes_counts() -> None:
    look, look_counts = counted(LookAgain(3_600_000, postponable=True))

    async def story(looks: LookQueue) -> None:
        looks.soon(A)
        await until(lambda: look_counts[A] == 1)
        looks.soon(A)
        await until(lambda: look_counts[A] == 2)
        assert looks.waiting == 1

    live(look, story)


def test_a_deleted_app_is_not_looked_at_again() -> None:
    look, _ = counted(LookAgain(3_600_000, postponable=True))

    async def story(looks: LookQueue) -> None:
        looks.soon(A)
        await until(lambda: looks.waiting == 1)
        looks.forget(A)
        assert looks.waiting == 0

    live(look, story)


def test_only_good_news_puts_a_look_off() -> None:
    look, look_counts = counted(LookAgain(300, postponable=True))

    async def story(looks: LookQueue) -> None:
        looks.soon(A)
        looks.soon(B)
        await until(lambda: look_counts == {A: 1, B: 1})
        looks.put_off(A, 3600)
        await until(lambda: look_counts[B] >= 3)
        assert look_counts[A] == 1
        looks.soon(A)
        await until(lambda: look_counts[A] == 2)

    assert live(look, story) == []


def test_a_look_due_at_once_is_not_put_off() -> None:
    look, look_counts = counted(WaitForChange("it changes"))

    async def story(looks: LookQueue) -> None:
        looks.soon(A)
        looks.put_off(A, 3600)
        await until(lambda: look_counts[A] == 1)

    assert live(look, story) == []


def test_a_change_that_has_to_wait_is_not_put_off() -> None:
    """The app had changed so often that its look had to wait for half a second, and a report put it off for long."""
    look, look_counts = counted(LookAgain(3_600_000, postponable=True))

    async def story(looks: LookQueue) -> None:
        for number in range(_AT_ONCE + 1):
            looks.soon(A)
            await until(lambda number=number: look_counts[A] == number + 1 and looks.waiting == 1)  # type: ignore[misc]
        looks.soon(A)
        looks.put_off(A, 3600)
        await until(lambda: look_counts[A] == _AT_ONCE + 2)

    assert live(look, story) == []


def test_putting_off_again_and_again_leaves_nothing_behind() -> None:
    look, look_counts = counted(LookAgain(3_600_000, postponable=True))

    async def story(looks: LookQueue) -> None:
        looks.soon(A)
        await until(lambda: look_counts[A] == 1 and looks.waiting == 1)
        for _ in range(1000):
            looks.put_off(A, 7200)
        assert looks.entries == 1

    assert live(look, story) == []


def test_events_of_a_running_app_come_before_thousands_that_wait() -> None:
    order: list[AppKey] = []
    waiting = [AppKey("n", f"new-{number}") for number in range(2000)]

    async def look(key: AppKey) -> NextLook:
        order.append(key)
        await asyncio.sleep(0)
        return WaitForChange("it changes")

    async def story(looks: LookQueue) -> None:
        for key in waiting:
            looks.soon(key)
        await until(lambda: len(order) > 100)
        started = len(order)
        looks.soon(waiting[-1])
        looks.soon(waiting[-1], first=True)
        await until(lambda: waiting[-1] in order)
        assert order.index(waiting[-1]) <= started + 2 * looks.workers
        await until(lambda: len(order) == len(waiting) and looks.waiting == 0)

    assert live(look, story) == []


def test_good_news_does_not_put_off_a_needed_look() -> None:
    look, look_counts = counted(LookAgain(20))

    async def story(looks: LookQueue) -> None:
        looks.soon(A)
        await until(lambda: look_counts[A] == 1 and looks.waiting == 1)
        looks.put_off(A, 3600)
        await until(lambda: look_counts[A] == 2)

    assert live(look, story) == []


def test_a_contested_status_is_looked_at_twice_a_second() -> None:
    look, look_counts = counted(WaitForChange("it changes"))
    began = time.monotonic()

    async def story(looks: LookQueue) -> None:
        for _ in range(2000):
            looks.soon(A)
            await asyncio.sleep(0)
        assert 20 <= look_counts[A] <= 21 + 2 * (time.monotonic() - began)
        looks.soon(B)
        await until(lambda: look_counts[B] == 1)
        await until(lambda: look_counts[A] > 21)

    assert live(look, story) == []
