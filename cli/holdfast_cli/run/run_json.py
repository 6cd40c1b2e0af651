"""Why: a run as lines of JSON, one object per event, for programs that watch it.

Names are those of the events in camelCase; fields may be added, none may go. Must not print anything else.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from holdfast_cli.run.totals import RunTotals
from holdfast_runtime.progress import (
    AttemptStarted,
    BatchWaiting,
    ClockJumped,
    Event,
    GrowthRefused,
    Progress,
    RunDraining,
    RunEnded,
)

_NAMES: Mapping[type[Event], str] = {
    AttemptStarted: "started",
    Progress: "progress",
    BatchWaiting: "waiting",
    GrowthRefused: "growthRefused",
    ClockJumped: "clockJumped",
    RunDraining: "draining",
    RunEnded: "ended",
}


def event_json(event: Event) -> dict[str, Any]:
    """An event as plain values."""
    return {"event": _NAMES[type(event)], **{_camel(f.name): _plain(getattr(event, f.name)) for f in fields(event)}}


def failure_json(error: BaseException) -> dict[str, Any]:
    """A failure as plain values."""
    return {"event": "failed", "error": type(error).__name__, "message": str(error)}


def write_json(tree: Mapping[str, Any]) -> None:
    """One line, at once."""
    sys.stdout.write(json.dumps(tree, ensure_ascii=False) + "\n")
    sys.stdout.flush()


class JsonView:
    """Prints events as they come."""

    def show(self, event: Event, seen: RunTotals, now: float) -> None:  # noqa: ARG002 - the same for all views
        """One line."""
        write_json(event_json(event))

    def tick(self, seen: RunTotals, now: float) -> None:
        """Nothing: events say it all."""

    def close(self) -> None:
        """Nothing was opened."""

    def over(self, seen: RunTotals, failure: BaseException | None, now: float) -> None:  # noqa: ARG002
        """One line for a failure; a good end is an event."""
        if failure is not None:
            write_json(failure_json(failure))


def _camel(name: str) -> str:
    first, *more = name.split("_")
    return first + "".join(word.capitalize() for word in more)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value
