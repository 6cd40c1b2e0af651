"""The driver's report: progress and health of an attempt, small and frequent, as the file `report.json`.

It is in a ConfigMap of the run, written only by the driver, read by the operator, the CLI and people. Fields that an
older or newer driver does not write have defaults. An invalid report is ignored: an app's pods may write anything in
its place. Times are milliseconds since 1970. Must not decide what a report means.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any

from holdfast.attempt_number import LAST_ATTEMPT
from holdfast.bounded_json import load
from holdfast.one_line import one_line
from holdfast.trees import as_object

REPORT_KEY = "report.json"
"""The key in the ConfigMap."""
_MOST_BYTES, _LARGEST, _MOST_SHOWN = 65_536, 2**63 - 1, 500
"""Limits of a report, of a number and of a sentence in it: an app's pods may write anything in its place."""
MOST_STREAMS = 50
"""How many streams a report tells apart."""
REPORT_INTERVAL = 60_000
"""A report is written at least every so many milliseconds, even if nothing has changed."""


_NUMBERS: Mapping[str, int] = {
    **dict.fromkeys(("attempt", "tasks", "partitions", "placed", "assignment"), LAST_ATTEMPT),
    **dict.fromkeys(("at", "batch", "lag", "waiting"), _LARGEST),
}
"""Name -> its largest value. The status takes the first five over, and one is added to two of them."""


@dataclass(frozen=True, slots=True)
class RowRates:
    """Rows a second by stream, over the time since the report before, of the streams with most of them.

    A stream that is in neither had none, unless so many have as are told apart.
    """

    read: Mapping[str, float] = field(default_factory=dict)
    """Over all tasks: each task reads a broadcast stream, each location what feeds a Broadcast table."""
    written: Mapping[str, float] = field(default_factory=dict)

    @property
    def flow(self) -> bool:
        """Whether there are any rows."""
        return bool(self.read or self.written)


@dataclass(frozen=True, slots=True)
class DriverReport:
    """The last report of an attempt's driver."""

    attempt: int
    at: int
    """When it was written."""
    batch: int = 0
    progressed: int | None = None
    """When the last batch was committed; None: none yet in this attempt."""
    lag: int = 0
    """Records that existed when the last batch was planned and are still unread."""
    tasks: int = 0
    partitions: int = 0
    placed: int = 0
    """Tasks that run at the location of their state, or had no state."""
    assignment: int = 0
    """Version of the applied assignment; 0: the driver's own."""
    waiting: int = 0
    """Rows that wait in joins for a partner."""
    held_back: str | None = None
    """What holds the watermark back, as a sentence."""
    held_by: str | None = None
    """The other app that is waited for, if it is one."""
    loading: str | None = None
    """What is still to be read of tables that inputs wait for, in words; None: they are loaded, or there are none."""
    incomplete: str | None = None
    """The tables that lack rows."""
    lags: Mapping[str, int] = field(default_factory=dict)
    """`lag` by stream that is read, those of which most is unread."""
    rows: RowRates | None = None
    """None: not known yet, or the driver has ended."""

    @property
    def begun(self) -> bool:
        """Whether its tasks are assigned and in the record; a driver reports before that too."""
        return self.tasks > 0

    def text(self) -> str:
        """Return it as JSON."""
        return json.dumps(
            {
                "attempt": self.attempt,
                "at": self.at,
                "batch": self.batch,
                "progressed": self.progressed,
                "lag": self.lag,
                "tasks": self.tasks,
                "partitions": self.partitions,
                "placed": self.placed,
                "assignment": self.assignment,
                "waiting": self.waiting,
                "heldBack": self.held_back,
                "heldBy": self.held_by,
                "loading": self.loading,
                "incomplete": self.incomplete,
                "lags": dict(self.lags),
                "rows": None if self.rows is None else asdict(self.rows),
            }
        )


def report_in(config_map: Mapping[str, Any]) -> DriverReport | None:
    """Return the report in this ConfigMap; None if there is none or it is invalid."""
    return read_report((config_map.get("data") or {}).get(REPORT_KEY))


def read_report(text: object) -> DriverReport | None:
    """Return the report in this text; None if it is invalid: a report is no reason to fail."""
    try:
        tree = load(str(text), most_bytes=_MOST_BYTES)
    except ValueError:
        return None
    if not isinstance(tree, dict):
        return None
    done = tree.get("progressed")
    numbers = {name: _number(tree.get(name, 0), most) for name, most in _NUMBERS.items()}
    progressed = None if done is None else _number(done, _LARGEST)
    if not {"attempt", "at"} <= tree.keys() or None in numbers.values() or (done is not None and progressed is None):
        return None
    return DriverReport(
        progressed=progressed,
        held_back=_sentence(tree.get("heldBack")),
        held_by=_sentence(tree.get("heldBy")),
        loading=_sentence(tree.get("loading")),
        incomplete=_sentence(tree.get("incomplete")),
        lags=_lags(tree.get("lags")),
        rows=_rows(tree.get("rows")),
        **{name: number for name, number in numbers.items() if number is not None},
    )


def _number(value: object, most: int) -> int | None:
    """The value as a number that a report may have; None if it is none."""
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if 0 <= number <= most else None


def _lags(tree: object) -> Mapping[str, int]:
    """What of it can be what a driver writes."""
    numbers = ((stream, _number(unread, _LARGEST)) for stream, unread in _by_stream(tree))
    return {stream: number for stream, number in numbers if number is not None}


def _rows(tree: object) -> RowRates | None:
    """What of it can be what a driver writes."""
    rates = as_object(tree)
    return RowRates(_rates(rates.get("read")), _rates(rates.get("written"))) if rates else None


def _rates(tree: object) -> Mapping[str, float]:
    return {
        stream: float(rate)
        for stream, rate in _by_stream(tree)
        if isinstance(rate, int | float) and not isinstance(rate, bool) and 0 <= rate <= _LARGEST
    }


def _by_stream(tree: object) -> Iterator[tuple[str, object]]:
    """What there is of each stream, of as many as a report tells apart."""
    for stream, value in islice(as_object(tree).items(), MOST_STREAMS):
        yield one_line(stream, _MOST_SHOWN), value


def _sentence(text: object) -> str | None:
    """The text for a status, if there is one: short and without terminal control characters."""
    return None if text is None else one_line(text, _MOST_SHOWN)
