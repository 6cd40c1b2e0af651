"""The durable data sets of a table that is replaced as a whole: each in a directory of its own, under its number.

    set-<number>/   manifest and layers, as in any durable copy of a table
                    data-set.json, which is written last: without it a data set is not whole

Numbers grow. Who loads writes a new one; locations fetch the one that their batch names. Older ones go when a batch
that names a newer one is done, never those with a higher number: an attempt that was shut out removes nothing that is
used. Must not know files or rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from holdfast_runtime.sealed_json import sealed, unsealed
from holdfast_runtime.state.durable.storage import Storage, obsolete_may_stay
from holdfast_runtime.state.shared.shared_table import SharedTable
from holdfast_runtime.state.shared.table_copy import TableCopy, table_storage
from holdfast_runtime.state.store.directory import TaskIdentity

_SET, _WHOLE = "set-", "data-set.json"


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set that is whole."""

    number: int
    source: Any
    """What it was made from, as JSON."""


class DataSets:
    """The data sets of one table."""

    def __init__(self, root: Storage, identity: TaskIdentity) -> None:
        self._storage, self._identity = table_storage(root, identity), identity

    def newest(self) -> DataSet | None:
        """Return the newest whole one."""
        return next(self._whole(), None)

    def write(self, number: int, source: Any, table: SharedTable) -> None:
        """Write what a table holds as a data set."""
        self._copy(number).write(table)
        self._below(number).write(_WHOLE, [sealed({"source": source}).encode()], replace=True)

    def fetch(self, table: SharedTable, number: int) -> bool:
        """Fill an empty table; return whether the data set is there and undamaged."""
        return self._copy(number).newest(table)

    def tidy(self, used: int) -> None:
        """Remove the data sets before the one that is used."""
        for number in self._numbers():
            if number < used:
                with obsolete_may_stay(self._storage):
                    self._below(number).clear(())

    def _whole(self) -> Iterator[DataSet]:
        for number in self._numbers():
            content = self._below(number).read(_WHOLE)
            if content is not None:
                try:
                    yield DataSet(number, unsealed(content.decode(errors="replace"))["source"])
                except (ValueError, KeyError):
                    continue

    def _numbers(self) -> list[int]:
        """Return the numbers of all that were begun, the highest first."""
        names = (name.removeprefix(_SET) for name in self._storage.directories() if name.startswith(_SET))
        return sorted((int(name) for name in names if name.isdecimal()), reverse=True)

    def _below(self, number: int) -> Storage:
        return self._storage.below(f"{_SET}{number}")

    def _copy(self, number: int) -> TableCopy:
        return TableCopy(self._below(number), self._identity)
