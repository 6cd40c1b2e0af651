"""Windows of a minute as a function with state and timers: what a `process` step needs for them, without the verb.

Must not know an engine, and needs nothing but Python: it is imported by workers.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

MINUTE = 60


def totals(key: str, rows: Sequence[Mapping[str, Any]], state: Any) -> Iterator[dict[str, Any]]:
    """Count and sum of the key in each minute, once the watermark has passed its end."""
    for timer in state.fired:
        n, total = state.pop(timer.name)
        closed = datetime.fromtimestamp(int(timer.name), UTC)
        start = closed - timedelta(seconds=MINUTE)
        yield {"key": key, "window_start": start, "window_end": closed, "n": n, "total": total}
    for row in rows:
        end = int(row["ts"].timestamp()) // MINUTE * MINUTE + MINUTE
        if state.watermark is not None and end * 1000 <= state.watermark:
            continue
        # State has text as keys, because names of timers are text.
        name = str(end)
        if name not in state:
            state.at_event_time(end * 1000, name)
        n, total = state.get(name, (0, 0))
        state[name] = n + 1, total + row["amount"]


def counts(key: str, rows: Sequence[Mapping[str, Any]], state: Any) -> Iterator[dict[str, Any]]:
    """The counts alone."""
    for row in totals(key, rows, state):
        del row["total"]
        yield row
