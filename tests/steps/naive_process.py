"""What `process` means, written key by key over plain dicts: slow, and short enough to be seen to be right."""

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from holdfast.times import micros
from holdfast_runtime.steps.context import StepClock

Found = list[tuple[dict[str, Any], int | None]]
"""Rows and their event times, in microseconds."""


class NaiveState(dict[Any, Any]):
    """Has the methods of the real one."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: dict[tuple[str, str], int] = {}
        self.touched: int | None = None
        self.fired: tuple[Any, ...] = ()
        self.deaf = False
        self.watermark: int | None = None
        self.late: list[dict[str, Any]] = []

    def is_late(self, row: dict[str, Any]) -> bool:
        return any(row is one for one in self.late)

    def at_event_time(self, when: int, name: str = "") -> None:
        if not self.deaf:
            self.waiting["event", name] = when

    def at_time(self, when: int, name: str = "") -> None:
        self.waiting["processing", name] = when

    def cancel_event_time(self, name: str = "") -> None:
        self.waiting.pop(("event", name), None)

    def cancel_time(self, name: str = "") -> None:
        self.waiting.pop(("processing", name), None)


@dataclass(frozen=True)
class NaiveTimer:
    kind: str
    name: str
    time: int


Function = Callable[[Any, list[dict[str, Any]], Any], Iterable[dict[str, Any]] | None]


@dataclass
class NaiveProcess:
    function: Function
    by: str
    ttl: int | None
    most: int = 1 << 60
    """How many calls for timers of a kind there are in a batch."""
    late: int = 0
    unfired: int | None = None
    states: dict[Any, NaiveState] = field(default_factory=dict)

    def run(
        self, rows: list[tuple[dict[str, Any], int | None]], clock: StepClock, marks: list[int | None] | None = None
    ) -> Found:
        """`marks`: the watermark at each row, where it is known; each row is a call."""
        for key, state in list(self.states.items()):
            if self.ttl is not None and state.touched is not None and clock.now >= self._noted(state) + self.ttl:
                del self.states[key]
        outputs: Found = []
        self.late, self.unfired = 0, None
        reached = [clock.before] * len(rows) if marks is None else marks
        for key in dict.fromkeys(row[self.by] for row, _ in rows):
            state = self.states.setdefault(key, NaiveState())
            for (original, time), mark in zip(rows, reached, strict=True):
                if original[self.by] == key:
                    outputs += self._fire_before(key, state, mark, clock)
                    row = copy.deepcopy(original)
                    late = self._late(time, mark, clock)
                    state.watermark, state.late = mark, [row] if late else []
                    self.late += late
                    outputs += [(one, time) for one in self._call(key, [row], state, clock)]
        if clock.ended or clock.watermark is not None:
            outputs += self._fire("event", 1 << 62 if clock.ended else clock.watermark or 0, clock)
        if not clock.ended:
            outputs += self._fire("processing", clock.now, clock)
        self.states = {key: state for key, state in self.states.items() if state or state.waiting}
        return outputs

    def _fire_before(self, key: Any, state: NaiveState, mark: int | None, clock: StepClock) -> Found:
        outputs: Found = []
        served = -(1 << 63)
        while mark is not None:
            times = [time for (kind, _), time in state.waiting.items() if kind == "event" and served < time <= mark]
            if not times:
                break
            served = min(times)
            fired = sorted(name for (kind, name), time in state.waiting.items() if (kind, time) == ("event", served))
            for name in fired:
                del state.waiting["event", name]
            state.fired = tuple(NaiveTimer("event", name, served) for name in fired)
            state.watermark = mark
            outputs += [(row, micros(served)) for row in self._call(key, [], state, clock)]
            state.fired = ()
        return outputs

    def _late(self, time: int | None, mark: int | None, clock: StepClock) -> bool:
        behind = time is not None and mark is not None and time < micros(mark)
        return behind or (time is not None and clock.horizon is not None and time > micros(clock.horizon))

    def _noted(self, state: NaiveState) -> int:
        granule = max((self.ttl or 0) // 32, 1000)
        return ((state.touched or 0) // granule + 1) * granule

    def _call(self, key: Any, rows: list[dict[str, Any]], state: NaiveState, clock: StepClock) -> list[dict[str, Any]]:
        state.touched = clock.now
        return list(self.function(key, rows, state) or ())

    def _fire(self, kind: str, until: int, clock: StepClock) -> Found:
        outputs: Found = []
        # A timer that was set to a time already served waits for the next batch.
        served: tuple[int, bytes] = (-(1 << 63), b"")
        late: set[tuple[Any, str, int]] = set()
        for _ in range(self.most):
            due = [
                (time, _order(key), key)
                for key, state in self.states.items()
                for (other, name), time in state.waiting.items()
                if other == kind and time <= until and (key, name, time) not in late
            ]
            if not due:
                return outputs
            time, order, key = min(due, key=lambda timer: timer[:2])
            assert (time, order) >= served
            served = time, order
            state = self.states[key]
            names = sorted(n for (k, n), t in state.waiting.items() if k == kind and t == time)
            fired = [name for name in names if (key, name, time) not in late]
            for name in fired:
                del state.waiting[kind, name]
            state.fired = tuple(NaiveTimer(kind, name, time) for name in fired)
            state.deaf, state.watermark = clock.ended, clock.watermark
            rows = self._call(key, [], state, clock)
            state.fired, state.deaf = (), False
            late |= {(key, n, t) for (k, n), t in state.waiting.items() if k == kind and t <= time}
            at = time if kind == "event" else clock.watermark
            outputs += [(row, None if at is None else micros(at)) for row in rows]
        if kind == "event":
            times = [
                t for state in self.states.values() for (k, _), t in state.waiting.items() if k == kind and t <= until
            ]
            self.unfired = min(times, default=None)
        return outputs


def _order(key: Any) -> bytes:
    return b"\x00" if key is None else b"\x01" + str(key).encode()
