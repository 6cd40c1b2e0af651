"""Why: when a driver's report is worth a write: thousands of drivers share one API server, and people wait for news.

At once (but not twice in a second) what changes the picture, progress every few seconds, a sign of life every minute.
Pure. Must not write.
"""

from holdfast.protocol.report import REPORT_INTERVAL, DriverReport

EVERY = 5_000
"""Progress alone is not written more often, milliseconds."""
APART = 1_000
"""Nothing is written more often: what comes and goes with every batch would be."""
_LONGEST = 400


def due(said: DriverReport | None, now: DriverReport) -> bool:
    """Whether this is to be written, after what was said last."""
    if said is None:
        return True
    since = now.at - said.at
    if not 0 <= since < REPORT_INTERVAL:  # the clock was put back
        return True
    if _picture(said) != _picture(now):
        return since >= APART
    return since >= EVERY and now.batch != said.batch


def shortened(text: str | None) -> str | None:
    """A sentence of so many bytes at most: a report stays small whatever streams are called."""
    if text is None or len(text.encode()) <= _LONGEST:
        return text
    return f"{text.encode()[: _LONGEST - 3].decode(errors='ignore')}..."


def _picture(report: DriverReport) -> tuple[object, ...]:
    return (
        report.attempt,
        report.assignment,
        report.tasks,
        report.partitions,
        report.placed,
        report.progressed is None,
        report.held_back is None,
    )
