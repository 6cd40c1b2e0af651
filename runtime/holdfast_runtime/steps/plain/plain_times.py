"""Moments in time over Arrow, as plain expressions ask for them: their parts, whole units since 1970, and texts.

Arrow's own years end at 32767, but the calendar is the same every 400 years. Must not be given a field of a text that
`holdfast.planning.sql.plain.patterns` does not name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

MOMENT = pa.timestamp("us", "UTC")
_FIRST = -(2**63)
"""The first moment of all."""

_DAY = 86_400_000_000
_MONTH, _LONGEST_MONTH = pa.scalar("month"), pa.scalar(31)
_CYCLE_YEARS, _CYCLE = 400, 146_097 * _DAY


def year(moments: Any) -> Any:
    """Return years as astronomers count them: before the year 1 is the year 0."""
    cycles, within = _in_cycle(moments)
    return pc.add(pc.year(within), pc.multiply(cycles, _CYCLE_YEARS))


def month(moments: Any) -> Any:
    """Return months, from 1."""
    return pc.month(_in_cycle(moments)[1])


def quarter(moments: Any) -> Any:
    """Return quarters of the year, from 1."""
    return pc.quarter(_in_cycle(moments)[1])


def weekday(moments: Any) -> Any:
    """Return days of the week, from Monday, which is 0; each cycle has whole weeks."""
    return pc.day_of_week(_in_cycle(moments)[1])


def day_of_week(moments: Any) -> Any:
    """Return days of the week, from Sunday, which is 1."""
    return pc.day_of_week(_in_cycle(moments)[1], count_from_zero=False, week_start=7)


def day_of_year(moments: Any) -> Any:
    """Return days of the year, from 1."""
    return pc.day_of_year(_in_cycle(moments)[1])


def week(moments: Any) -> Any:
    """Return weeks of the year, from 1: the first is that with four days in it."""
    return pc.iso_week(_in_cycle(moments)[1])


def days_between(later: Any, earlier: Any) -> Any:
    """Return how many days one date is after another."""
    return pc.subtract(later.cast(pa.int32()), earlier.cast(pa.int32()))


def day(moments: Any) -> Any:
    """Return days of the month, from 1."""
    return pc.day(_in_cycle(moments)[1])


def date(moments: Any) -> Any:
    """Return the dates in UTC."""
    return since_1970(moments, _DAY).cast(pa.int32()).cast(pa.date32())


def midnight(dates: Any) -> Any:
    """Return the moments at which dates begin; an error if there is one that moments can't reach."""
    return pc.multiply_checked(dates.cast(pa.int32()).cast(pa.int64()), _DAY).cast(MOMENT)


def days_later(dates: Any, days: pa.Scalar) -> Any:
    """Return dates so many days later."""
    return pc.add(dates.cast(pa.int32()), days.cast(pa.int32())).cast(pa.date32())


def trunc(dates: Any, unit: pa.Scalar) -> Any:
    """Return the dates on which their units began."""
    return date(date_trunc(midnight(dates), unit))


def last_day(dates: Any) -> Any:
    """Return the last dates of their months: those before the next ones begin."""
    in_next = days_later(trunc(dates, _MONTH), _LONGEST_MONTH)
    return days_later(trunc(in_next, _MONTH), pa.scalar(-1))


def date_trunc(moments: Any, unit: pa.Scalar) -> Any:
    """Return the moments at which their units began; an error if there is one that began before the first moment."""
    return pc.subtract_checked(moments.cast(pa.int64()), since_unit(moments, unit)).cast(MOMENT)


def since_unit(moments: Any, unit: pa.Scalar) -> Any:
    """Return how many microseconds ago a unit began; a week does on a Monday, in each cycle on the same days."""
    within = _in_cycle(moments)[1]
    return pc.subtract(within.cast(pa.int64()), pc.floor_temporal(within, unit=unit.as_py()).cast(pa.int64()))


def shift(moments: Any, micros: pa.Scalar) -> Any:
    """Return moments so many microseconds later; an error if one lies behind the last of all."""
    return pc.add_checked(moments.cast(pa.int64()), micros).cast(MOMENT)


def _in_cycle(moments: Any) -> tuple[Any, Any]:
    """Return the cycles of moments, and the same moments of the first one."""
    cycles = since_1970(moments, _CYCLE)
    return cycles, pc.subtract(moments.cast(pa.int64()), pc.multiply(cycles, _CYCLE)).cast(MOMENT)


def since_1970(moments: Any, micros: int) -> Any:
    """Return how many whole units of so many microseconds; before 1970 the next lower."""
    whole = moments.cast(pa.int64())
    units = pc.divide(whole, micros)
    return pc.subtract(units, pc.less(whole, pc.multiply(units, micros)).cast(pa.int64()))


def date_format(moments: Any, *parts: pa.Scalar) -> Any:
    """Return moments as texts of these fields, and of what stands between them."""
    words = [part.as_py() for part in parts]
    micros = min(_FIELDS[word].micros for word in words if word in _FIELDS)
    # Many moments have one text, so it is made once for all of a unit.
    units = since_1970(moments, micros).dictionary_encode()
    starts = pc.multiply(units.dictionary, micros)
    # The first unit begins before the first moment.
    starts = pc.if_else(pc.equal(units.dictionary, _FIRST // micros), pa.scalar(_FIRST), starts).cast(MOMENT)
    texts = [_FIELDS[word].text(starts) if word in _FIELDS else word for word in words]
    return pc.binary_join_element_wise(*texts, "").take(units.indices)


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a moment as text."""

    micros: int
    """For how long it is the same, at least."""
    text: Callable[[Any], Any]


def _year_with_sign(moments: Any) -> Any:
    """Return years, with a sign where Java writes one."""
    years = year(moments)
    sign = pc.if_else(pc.less(years, 0), "-", pc.if_else(pc.greater(years, 9999), "+", ""))
    return pc.binary_join_element_wise(sign, _digits(pc.abs(years), 4), "")


def _digits(numbers: Any, width: int) -> Any:
    return pc.utf8_lpad(numbers.cast(pa.string()), width, "0")


_FIELDS: Mapping[str, _Field] = {
    "yyyy": _Field(_DAY, _year_with_sign),
    "MM": _Field(_DAY, lambda moments: _digits(month(moments), 2)),
    "dd": _Field(_DAY, lambda moments: _digits(day(moments), 2)),
    "HH": _Field(_DAY // 24, lambda moments: _digits(pc.hour(moments), 2)),
    "mm": _Field(60_000_000, lambda moments: _digits(pc.minute(moments), 2)),
    "ss": _Field(1_000_000, lambda moments: _digits(pc.second(moments), 2)),
}

TIME_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "date": date,
    "date_format": date_format,
    "date_trunc": date_trunc,
    "datediff": days_between,
    "day": day,
    "dayofmonth": day,
    "dayofweek": day_of_week,
    "dayofyear": day_of_year,
    "days later": days_later,
    "hour": pc.hour,
    "last_day": last_day,
    "midnight": midnight,
    "minute": pc.minute,
    "month": month,
    "quarter": quarter,
    "second": pc.second,
    "shift": shift,
    "trunc": trunc,
    "unix_seconds": lambda moments: since_1970(moments, 10**6),
    "unix_millis": lambda moments: since_1970(moments, 10**3),
    "unix_micros": lambda moments: moments.cast(pa.int64()),
    "weekday": weekday,
    "weekofyear": week,
    "year": year,
}
