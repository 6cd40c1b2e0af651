"""Moments and spans of time as text: for messages, and as Kubernetes writes and reads them.

Inside Holdfast, moments are milliseconds since 1970; invalid text is read as None. Must not read any clock.
"""

from datetime import UTC, datetime


def event_moment(milliseconds: int) -> str:
    """Return a moment of event time as text, in UTC."""
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):  # a user's event time may be any number
        return f"{milliseconds} ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def time_span(milliseconds: int) -> str:
    """Return a length of time as text, rounded down to a suitable unit; a negative one counts as 0."""
    seconds = max(0, milliseconds) // 1000
    if seconds < 2 * 60:
        return f"{seconds} s"
    if seconds < 2 * 3600:
        return f"{seconds // 60} min"
    return f"{seconds // 3600} h" if seconds < 7 * 86_400 else f"{seconds // 86_400} d"


def stamp(millis: int) -> str:
    """Return a moment as Kubernetes writes it; rounded up to a second, so that nothing happens too early."""
    return datetime.fromtimestamp(-(-millis // 1000), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text: str | None) -> int | None:
    """Return the moment in this text; None if there is none or it is invalid."""
    try:
        return None if text is None else int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
