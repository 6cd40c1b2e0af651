"""Moments and lengths of time as messages say them, from milliseconds. Must not look at any clock."""

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
