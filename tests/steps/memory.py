"""Tables in memory: what a task's store shows to a step, and nothing else."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from holdfast_runtime.steps.timed_rows import TimedRows

T = TypeVar("T")


def view_that_ends(rows: Mapping[bytes, bytes], keys: Sequence[bytes], view: Callable[[Sequence[Any]], T]) -> T:
    """As a store views its own memory, which holds something else as soon as values were looked at."""
    memories = [bytearray(rows[key]) for key in keys]
    viewed = view([memoryview(memory) for memory in memories])
    for memory in memories:
        memory[:] = b"\xa5" * len(memory)
    return viewed


class MemoryTable:
    name = "kept"

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.kept: dict[bytes, bytes] = {}
        self.written = 0

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self.rows.get(key) for key in keys]

    def view_many(self, keys: Sequence[bytes], view: Callable[[Sequence[Any]], T]) -> T:
        return view_that_ends(self.rows, keys, view)

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        for key, value in zip(keys, values, strict=True):
            assert key, "no store holds an empty key"
            self.written += 1
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value

    def purge(self, keys: Sequence[bytes]) -> None:
        for key in keys:
            del self.rows[key]

    def forget(self) -> None:
        self.rows = dict(self.kept)

    def scan(self, prefix: bytes = b"", start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        rows = sorted(self.rows.items())
        return iter(
            [row for row in rows if row[0].startswith(prefix) and row[0] >= start and (stop is None or row[0] < stop)]
        )


class MemoryTables:
    def __init__(self) -> None:
        self.tables: dict[str, MemoryTable] = {}

    def table(self, name: str) -> MemoryTable:
        return self.tables.setdefault(name, MemoryTable())

    def keep(self) -> None:
        for table in self.tables.values():
            table.kept = dict(table.rows)

    def content(self) -> dict[str, dict[bytes, bytes]]:
        return {name: dict(table.rows) for name, table in self.tables.items() if table.rows}


def timed(schema: pa.Schema, rows: Sequence[dict[str, Any]], times: Sequence[int | None] | None = None) -> TimedRows:
    """Rows, at the times given, in microseconds; without, none has one."""
    batch = pa.RecordBatch.from_pylist(list(rows), schema)
    return TimedRows(batch, pa.array([None] * len(rows) if times is None else list(times), pa.int64()))


def listed(timed_rows: TimedRows) -> list[tuple[dict[str, Any], int | None]]:
    return list(zip(timed_rows.rows.to_pylist(), timed_rows.times.to_pylist(), strict=True))
