"""Moments and spans of time: the unit of rows' event time, and text for messages and as Kubernetes writes it.

Inside Holdfast, moments are milliseconds since 1970, but for the event time of rows and what is compared with it:
windows, gaps, `within`. Those are microseconds, as Spark has them, and a type of their own. Watermarks are in
milliseconds, rounded down, so they never promise too much. Invalid text is read as None. Must not read any clock.
"""

from datetime import UTC, datetime, timedelta
from typing import Final, NewType

_YEAR, _DAY = 31_556_952, 86_400
"""Seconds; the year is the calendar's average."""
_UNITS = (("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Micros = NewType("Micros", int)
"""A moment of event time since 1970, or a length of it, in microseconds."""
MICROS_PER_MILLI: Final = 1_000
FARTHEST: Final = Micros(2**62 - 1)
"""146 000 years. No moment is farther from 1970, so that what windows and joins add to one fits into 64 bits."""


def micros(milliseconds: int) -> Micros:
    """Return a moment or a length as it is compared with event times; one that is too far as the farthest."""
    return Micros(max(-FARTHEST, min(milliseconds * MICROS_PER_MILLI, FARTHEST)))


def floor_millis(moment: Micros) -> int:
    """Return the last millisecond that is not behind a moment of event time, also before 1970."""
    return moment // MICROS_PER_MILLI


def event_moment(milliseconds: int) -> str:
    """Return a moment of event time as text, in UTC; one outside of the calendar by its year alone."""
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):  # a user's event time may be any number
        return f"the year {1970 + milliseconds // (_YEAR * 1000):,}"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def row_moment(moment: Micros) -> str:
    """Return the event time of a row as text, in UTC; microseconds only where there are any."""
    if moment % MICROS_PER_MILLI:
        try:
            exact = _EPOCH + timedelta(microseconds=moment)
        except OverflowError:
            return event_moment(floor_millis(moment))
        return exact.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return event_moment(floor_millis(moment))


def time_span(milliseconds: int) -> str:
    """Return a length of time as text, rounded down to a suitable unit; a negative one counts as 0."""
    seconds = max(0, milliseconds) // 1000
    if seconds < 2 * 60:
        return f"{seconds} s"
    if seconds < 2 * 3600:
        return f"{seconds // 60} min"
    if seconds < 7 * _DAY:
        return f"{seconds // 3600} h"
    return f"{seconds // _DAY:,} d" if seconds < 100 * _YEAR else f"{seconds // _YEAR:,} y"


def exact_span(milliseconds: int) -> str:
    """Return a length of time to the millisecond, as a spec writes it: `1h30m`, `500ms`."""
    parts, rest = [], milliseconds
    for unit, length in _UNITS:
        count, rest = divmod(rest, length)
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts) or "0s"


def file_moment(nanoseconds: int) -> str:
    """Return the time of a file as text, in UTC and to the nanosecond: two such times may differ by little."""
    seconds, rest = divmod(nanoseconds, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def stamp(millis: int) -> str:
    """Return a moment as Kubernetes writes it; rounded up to a second, so that nothing happens too early."""
    return datetime.fromtimestamp(-(-millis // 1000), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text: str | None) -> int | None:
    """Return the moment in this text; None if there is none or it is invalid."""
    try:
        return None if text is None else int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
