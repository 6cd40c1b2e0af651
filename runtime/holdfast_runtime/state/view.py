"""Why: a step in the middle of a batch reads its task's state while another process is the one that will commit it.

Reads what the last batch committed, under what steps before have changed; several processes may. Must not write.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from holdfast_runtime.state.environment import Environment
from holdfast_runtime.state.place import StorePlace
from holdfast_runtime.state.table import StateTable


class StateView:
    """The tables of one task, to read; what is written stays in memory."""

    def __init__(self, environment: Environment, changes: Mapping[str, Sequence[tuple[bytes, bytes | None]]]) -> None:
        self._environment = environment
        self._tables: dict[str, StateTable] = {}
        for name, rows in changes.items():
            self.table(name).put_many([key for key, _ in rows], [value for _, value in rows])

    def table(self, name: str) -> StateTable:
        """A table by name."""
        if name not in self._tables:
            self._tables[name] = StateTable(name, self._environment)
        return self._tables[name]

    def changes(self) -> dict[str, Sequence[tuple[bytes, bytes | None]]]:
        """All that differs from what is committed."""
        return {name: rows for name, table in self._tables.items() if (rows := table.changes())}


@contextmanager
def state_view(place: StorePlace, changes: Mapping[str, Sequence[tuple[bytes, bytes | None]]]) -> Iterator[StateView]:
    """The state of a task for as long as the block lasts. The caller knows that it is there and can be trusted."""
    environment = Environment(place)
    try:
        yield StateView(environment, changes)
    finally:
        environment.close()
