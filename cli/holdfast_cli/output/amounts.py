"""Human-readable numbers: counts, rates, sizes, durations, times.

Must not measure anything.
"""

from datetime import UTC, datetime

_THOUSAND = 1000
_MINUTE = 60
_HOUR = 60 * _MINUTE
_TEN = 10


def count(number: int) -> str:
    """Return e.g. `1,234,567`."""
    return f"{number:,}"


def rate(per_second: float) -> str:
    """Return e.g. `0.4/s`, `123/s`, `12.3 k/s`."""
    return f"{_scaled(per_second)}/s"


def size(number: int) -> str:
    """Return e.g. `512 B`, `12.3 MB`."""
    scaled = _scaled(number)
    return f"{scaled}B" if scaled[-1].isalpha() else f"{scaled} B"


def span(seconds: float) -> str:
    """Return e.g. `182 ms`, `3.2 s`, `3 min 12 s`, `2 h 5 min`."""
    if seconds < 1:
        return f"{max(0, round(seconds * _THOUSAND))} ms"
    if seconds < _TEN:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"


def moment(milliseconds: int) -> str:
    """Return e.g. `2026-11-20T12:27:08.123Z`; an event time may lie outside the calendar and stays a number."""
    try:
        shown = datetime.fromtimestamp(milliseconds / _THOUSAND, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return f"{milliseconds} ms"
    return shown.replace("+00:00", "Z")


def many(number: int, what: str) -> str:
    """Return e.g. `1 task`, `2 tasks`, `1 batch`, `2 batches`."""
    if number == 1:
        return f"1 {what}"
    return f"{number:,} {what}es" if what.endswith("ch") else f"{number:,} {what}s"


def _scaled(number: float) -> str:
    """Return a short number with its unit prefix."""
    for letter in ("", " k", " M", " G", " T"):
        # A number that rounds to 1,000 takes the next prefix.
        if number < _THOUSAND - 0.5 or letter == " T":
            break
        number /= _THOUSAND
    digits = 1 if letter or (number < _TEN and number != int(number)) else 0
    return f"{number:.{digits}f}{letter}"
