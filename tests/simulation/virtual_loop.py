"""An event loop without waiting: when nothing is ready, time jumps to the next timer.

Everything in it is ordered by time and then by the order of calls, so a life is the same whenever it is lived again.
What would run in a thread runs in the loop. Must not open files or sockets.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any

_MOST_TURNS = 200_000
"""Turns without a moment passing: more than any life has work for."""


class StuckError(AssertionError):
    """Nothing can ever happen again, or the loop is busy for ever."""


class VirtualLoop(asyncio.base_events.BaseEventLoop):
    """`loop.run_until_complete(life)`, in no time."""

    def __init__(self, pick: random.Random) -> None:
        super().__init__()
        self.now = 0.0
        self._pick = pick
        self._turns = 0
        self._selector = self

    def time(self) -> float:
        return self.now

    def select(self, timeout: float | None) -> list[Any]:
        """Let time pass; asyncio would wait for sockets here."""
        if timeout is None:
            message = "nothing will ever happen again"
            raise StuckError(message)
        if timeout > 0:
            self.now += timeout
            self._turns = 0
        self._turns += 1
        if self._turns > _MOST_TURNS:
            message = f"busy for ever at {self.now:.3f} s"
            raise StuckError(message)
        return []

    def run_in_executor(  # type: ignore[override]
        self, _executor: Any, func: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        """Call it a moment later, and answer at once."""
        answer: asyncio.Future[Any] = self.create_future()
        self.call_later(self._pick.uniform(0.005, 0.3), _answer, answer, func, args)
        return answer

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


def _answer(answer: "asyncio.Future[Any]", func: Callable[..., Any], args: tuple[Any, ...]) -> None:
    if answer.cancelled():
        return
    try:
        answer.set_result(func(*args))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the caller's
        answer.set_exception(error)
