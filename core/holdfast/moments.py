"""Moments and spans of time as text: for messages, and as Kubernetes writes and reads them.

Milliseconds since 1970 inside, text outside; what somebody else wrote and is no moment reads as none. Must not look
at any clock.
"""

from datetime import UTC, datetime


def event_moment(milliseconds: int) -> str:
    """A moment of event time, in UTC."""
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):  # a user's event time may be any number
        return f"{milliseconds} ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def time_span(milliseconds: int) -> str:
    """A length of time, rounded down to a unit that says enough; what is negative is nothing."""
    seconds = max(0, milliseconds) // 1000
    if seconds < 2 * 60:
        return f"{seconds} s"
    if seconds < 2 * 3600:
        return f"{seconds // 60} min"
    return f"{seconds // 3600} h" if seconds < 7 * 86_400 else f"{seconds // 86_400} d"


def stamp(millis: int) -> str:
    """A moment as Kubernetes writes it; a rest of a second counts as a whole one, so that nothing is early."""
    return datetime.fromtimestamp(-(-millis // 1000), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text: str | None) -> int | None:
    """The moment in this text; None where there is none, also where somebody else wrote it."""
    try:
        return None if text is None else int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
