"""Why: `holdfast state export`: a whole table as a file other programs read, in bounded memory.

The file appears when it is complete. Must not hold how rows are read.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pyarrow as pa

from holdfast_cli.local.state_rows import row_kind
from holdfast_cli.local.state_stores import RunStores
from holdfast_cli.local.state_tables import check_table
from holdfast_cli.plan.partition_counts import UsageError

_ROWS_AT_ONCE = 10_000


def export(stores: RunStores, table: str, task: str | None, to: str) -> None:
    """Write, and say how much."""
    target = Path(to)
    if target.exists():
        message = f"{to} exists already: remove it, or choose another name"
        raise UsageError(message)
    tasks, kind = stores.tasks(task), row_kind(stores.logs, table)
    schema = pa.schema([pa.field("task", pa.string()), *kind.columns])
    temporary, tables, count = target.with_name(f".{target.name}.writing"), set[str](), 0
    try:
        with _writer(temporary, schema, parquet=target.suffix == ".parquet") as write:
            for name in tasks:
                with stores.opened(name) as found:
                    tables |= {one.name for one in found.store.tables()}
                    rows = found.store.rows(table)
                    while some := [(name, *kind.exported(row)) for row in islice(rows, _ROWS_AT_ONCE)]:
                        columns = zip(*some, strict=True)
                        arrays = [pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)]
                        write(pa.RecordBatch.from_arrays(arrays, schema=schema))
                        count += len(some)
        check_table(table, tables)
        temporary.rename(target)
    finally:
        temporary.unlink(missing_ok=True)
    sys.stdout.write(f"{count} {'row' if count == 1 else 'rows'} of {table} written to {to}\n")


@contextmanager
def _writer(path: Path, schema: pa.Schema, *, parquet: bool) -> Iterator[Callable[[pa.RecordBatch], None]]:
    try:
        if parquet:
            from pyarrow import parquet as pq  # noqa: PLC0415 - slow to import

            with pq.ParquetWriter(str(path), schema) as writer:
                yield writer.write_batch
        else:
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as stream:
                yield stream.write_batch
    except OSError as error:
        message = f"{path} can't be written: {error}"
        raise UsageError(message) from error
