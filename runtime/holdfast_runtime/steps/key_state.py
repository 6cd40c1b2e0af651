"""Why: what a user's function is given as `state`: a dict of one key, with timers, and the batch's times.

The function sees nothing of tables: what it changes here is collected when all of its calls are done. Must not write.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast_runtime.steps.clock import Clock
from holdfast_runtime.steps.timers import Kind

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_FARTHEST = 1 << 62

When = datetime | int


@dataclass(frozen=True, slots=True, order=True)
class Timer:
    """A timer of a key."""

    kind: str
    """`event` or `processing`."""
    name: str
    time: int
    """Milliseconds since 1970."""


@dataclass(slots=True)
class Moment:
    """What all keys of a batch have in common."""

    clock: Clock
    ttl: int | None
    firing: bool = False
    """Timers are served, and not rows."""


Timers = tuple[dict[str, int], dict[str, int]]
"""Name -> time, of event time and of processing time: in the order of `Kind`."""


class KeyState(dict[Any, Any]):
    """The state of one key: a dict, kept from batch to batch. Left empty, the key is forgotten."""

    __slots__ = ("_moment", "_timers", "fired")

    _moment: Moment
    _timers: Timers | None
    fired: tuple[Timer, ...]
    """The timers this call is for; then it has no rows."""

    @property
    def now(self) -> int:
        """Processing time of the batch, milliseconds since 1970: the same in a replay."""
        return self._moment.clock.now

    @property
    def watermark(self) -> int | None:
        """How far event time has come with this batch, milliseconds since 1970; None: not known yet."""
        return self._moment.clock.watermark

    @property
    def ended(self) -> bool:
        """Whether no row will come any more, for any key."""
        return self._moment.clock.ended

    @property
    def timers(self) -> tuple[Timer, ...]:
        """The timers of the key that wait."""
        kinds = (Kind.EVENT, Kind.PROCESSING)
        return tuple(sorted(timer(kind, name, time) for kind in kinds for name, time in waiting(self, kind).items()))

    def at_event_time(self, when: When, name: str = "") -> None:
        """Call the function for this key when the watermark reaches this time."""
        if not (self._moment.clock.ended and self._moment.firing):
            # At the end, a timer that sets the next one would never come to an end itself.
            self._set(Kind.EVENT, when, name)

    def at_time(self, when: When, name: str = "") -> None:
        """Call the function for this key when processing time reaches this time."""
        ttl, now = self._moment.ttl, self._moment.clock.now
        if ttl is not None and milliseconds(when) >= now + ttl:
            message = (
                f"a timer at {milliseconds(when)} would never fire: by then the key has been untouched for the "
                f"ttl of {ttl} ms and is dropped with its timers; raise the ttl of the step"
            )
            raise ValueError(message)
        self._set(Kind.PROCESSING, when, name)

    def cancel_event_time(self, name: str = "") -> None:
        """Forget the event-time timer of this name; that there is none is fine."""
        self._cancel(Kind.EVENT, name)

    def cancel_time(self, name: str = "") -> None:
        """Forget the processing-time timer of this name; that there is none is fine."""
        self._cancel(Kind.PROCESSING, name)

    def _set(self, kind: Kind, when: When, name: str) -> None:
        if type(name) is not str:
            message = f"the name of a timer is a str, not {name!r}"
            raise TypeError(message)
        if self._timers is None:
            self._timers = {}, {}
        self._timers[kind][name] = milliseconds(when)

    def _cancel(self, kind: Kind, name: str) -> None:
        if self._timers:
            self._timers[kind].pop(name, None)


def key_states(values: Iterable[Mapping[Any, Any]], timers: Iterable[Timers | None], moment: Moment) -> list[KeyState]:
    """Those of many keys, with copies of their values and timers; made here, at half the time of a constructor."""
    made = list(map(KeyState, values))
    for state, waiting_for in zip(made, timers, strict=True):
        state._moment = moment  # noqa: SLF001 - hidden from users, not from steps
        state._timers = waiting_for and (dict(waiting_for[0]), dict(waiting_for[1]))  # noqa: SLF001
        state.fired = ()
    return made


def all_waiting(state: KeyState) -> Timers | None:
    """The timers of a key, None where there is none."""
    timers = state._timers  # noqa: SLF001
    return timers if timers and (timers[0] or timers[1]) else None


def waiting(state: KeyState, kind: Kind) -> dict[str, int]:
    """Those of one kind; what is changed here changes them."""
    timers = state._timers  # noqa: SLF001
    return timers[kind] if timers else {}


def timer(kind: Kind, name: str, time: int) -> Timer:
    """As users see it."""
    return Timer(kind.name.lower(), name, time)


def milliseconds(when: When) -> int:
    """Of an instant; a datetime without a zone is in UTC, as in columns. Never before it: a timer is not early."""
    if isinstance(when, datetime):
        moment = when if when.tzinfo else when.replace(tzinfo=UTC)
        return -((_EPOCH - moment) // _MILLISECOND)
    if type(when) is not int:
        message = f"a time is a datetime or milliseconds since 1970, not {when!r}"
        raise TypeError(message)
    if not -_FARTHEST < when < _FARTHEST:
        message = f"{when} is no time: milliseconds since 1970 are wanted"
        raise ValueError(message)
    return when
