"""What the functions of apps import: the types of what they are given, and `worker_resource`.

    from holdfast_runtime.functions import Row, State, worker_resource

Editors and type checkers read it, and modules of apps import it wherever functions are called. Must not import what is
slow to load, nor decide anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from holdfast_runtime.worker_resources import WorkerSetUpError, worker_resource

__all__ = ["Row", "State", "Timer", "When", "WorkerSetUpError", "worker_resource"]

Row = dict[str, Any]
"""A row of a `process` function: column -> value."""

When = datetime | int
"""A time: milliseconds since 1970, or a datetime, which is in UTC if it has no zone."""


@dataclass(frozen=True, slots=True, order=True)
class Timer:
    """A timer of a key."""

    kind: str
    """`event` or `processing`."""
    name: str
    time: int
    """Milliseconds since 1970."""


class State(dict[Any, Any]):
    """The state of one key: a dict that is kept from batch to batch. If it is left empty, the key is forgotten."""

    __slots__ = ()

    if TYPE_CHECKING:  # as a dict's, whose default of any type would make the result one that may be None

        def get(self, key: Any, default: Any = None, /) -> Any:
            """Return the value of a key; the default if there is none."""

    fired: tuple[Timer, ...]
    """The timers this call is for; such a call has no rows."""

    @property
    def now(self) -> int:
        """Processing time of the batch in milliseconds since 1970; a replay sees the same."""
        raise NotImplementedError

    @property
    def watermark(self) -> int | None:
        """The watermark at the first row of this call; in a call for timers, one at which they are due.

        In milliseconds since 1970, None if not known yet.
        """
        raise NotImplementedError

    @property
    def ended(self) -> bool:
        """Whether no more rows will come, for any key; only calls for timers can follow all rows."""
        raise NotImplementedError

    @property
    def timers(self) -> tuple[Timer, ...]:
        """The key's pending timers."""
        raise NotImplementedError

    def is_late(self, row: Mapping[str, Any]) -> bool:
        """Whether a row of this call is behind the watermark, or implausibly far ahead of the clock."""
        raise NotImplementedError

    def at_event_time(self, when: When, name: str = "") -> None:
        """Call the function for this key when the watermark reaches this time."""
        raise NotImplementedError

    def at_time(self, when: When, name: str = "") -> None:
        """Call the function for this key when processing time reaches this time."""
        raise NotImplementedError

    def cancel_event_time(self, name: str = "") -> None:
        """Cancel the event-time timer of this name, if there is one."""
        raise NotImplementedError

    def cancel_time(self, name: str = "") -> None:
        """Cancel the processing-time timer of this name, if there is one."""
        raise NotImplementedError
