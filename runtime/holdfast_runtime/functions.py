"""What the functions of apps import: the types of what they are given, and `worker_resource`.

    from holdfast_runtime.functions import Row, State, worker_resource

Editors and type checkers read it, and modules of apps import it wherever functions are called. Must not import what is
slow to load, nor decide anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

from holdfast_runtime.worker_resources import WorkerSetUpError, worker_resource

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Row", "State", "Tables", "Timer", "UnknownTableError", "When", "WorkerSetUpError", "worker_resource",
]  # fmt: skip

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


class UnknownTableError(LookupError):
    """A function asks for a table that its step does not name; no row is to blame."""


class Tables:
    """The tables that a `process` step names. All calls of a batch see them as the batch found them."""

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, in the order of the step."""
        return ()

    def get(self, table: str, key: Any) -> Row | None:
        """Return the row of a key as a dict of your own; None if there is none.

        The key is a value of the table's key column; of several, a tuple of their values in the order of the table.
        """
        self._missing(table, key)

    def lookup(self, table: str, *keys: "pa.Array | pa.ChunkedArray") -> "pa.RecordBatch":
        """Return a row for each key, all null where there is none. `keys`: a column for each of the table's key."""
        self._missing(table, keys)

    def _missing(self, table: str, _: Any) -> NoReturn:
        message = f"the step has no table {table}: name it in its tables"
        raise UnknownTableError(message)


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

    @property
    def tables(self) -> Tables:
        """The tables that the step names."""
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
