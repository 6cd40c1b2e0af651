"""Human-readable numbers: counts, rates, sizes, durations. Moments are in `holdfast.times`.

Must not measure anything.
"""

from math import inf

_THOUSAND = 1000
_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_YEAR = 365 * _DAY
_TEN = 10
_UNIT_PAIRS = (
    (_HOUR, (_MINUTE, "min", 1, "s")),
    (2 * _DAY, (_HOUR, "h", _MINUTE, "min")),
    (2 * _YEAR, (_DAY, "d", _HOUR, "h")),
    (inf, (_YEAR, "y", _DAY, "d")),
)
"""Below how many seconds these two units are shown, each with its length."""


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
    """Return e.g. `182 ms`, `3.2 s`, `3 min 12 s`, `2 h 5 min`, `4 d 7 h`, `2 y 30 d`."""
    # A number that rounds to the next unit takes that unit.
    if (thousandths := round(seconds * _THOUSAND)) < _THOUSAND:
        return f"{max(0, thousandths)} ms"
    if seconds < _TEN - 0.05:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    larger, unit, smaller, rest = next(pair for below, pair in _UNIT_PAIRS if whole < below)
    return f"{whole // larger:,} {unit} {whole % larger // smaller} {rest}"


def many(number: int, what: str) -> str:
    """Return e.g. `1 task`, `2 tasks`, `1 batch`, `2 batches`."""
    if number == 1:
        return f"1 {what}"
    return f"{number:,} {what}es" if what.endswith("ch") else f"{number:,} {what}s"


def _scaled(number: float) -> str:
    """Return a short number with its unit prefix."""
    for letter in ("", " k", " M", " G", " T", " P", " E"):
        # A number that rounds to 1,000 takes the next prefix.
        if number < _THOUSAND - (0.05 if letter else 0.5) or letter == " E":
            break
        number /= _THOUSAND
    digits = 1 if letter or (number < _TEN - 0.05 and number != int(number)) else 0
    return f"{number:.{digits}f}{letter}"
