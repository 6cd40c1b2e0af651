"""Tables of files: a thread of the driver looks at the files, and makes each change of them a durable data set.

    files -> rows -> layers in a directory of the driver -> data set -> its number, for the plan of the next batch

Until a data set is whole, the one before is served; whoever dies meanwhile has changed nothing. The next one is loaded
only when a batch that names the last one is done, so what is older can go. Errors end nothing: they are told, and the
files are looked at again. Must not decide which batch switches.
"""

import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from holdfast.errors import HoldfastError, RetrySoonError
from holdfast_runtime.driver.periodic_work import RetriedChore
from holdfast_runtime.loop.fed_tables import DataSetsSeen
from holdfast_runtime.segments.graph import FedTable
from holdfast_runtime.state.durable.storage import Storage
from holdfast_runtime.state.shared.data_sets import DataSet, DataSets
from holdfast_runtime.state.shared.shared_table import SharedTable
from holdfast_runtime.state.sorted.stored_pieces import PIECE
from holdfast_runtime.state.store.directory import TaskIdentity, boot_id
from holdfast_runtime.steps.tables.kept_table import KeptTable, many_at_once
from holdfast_runtime.streams.data_files import DataFile, DataFiles

_PREFIX = ".files-"
_PATIENCE = 10.0
_WAITS = 60_000
"""Milliseconds until a batch has named what was loaded; it is told when one has."""
_ROW_BYTES = 100
"""Of rows, before the first ones are read."""
_ATTEMPTS = 1 << 12


@dataclass(frozen=True, slots=True)
class FileTable:
    """A table of files."""

    table: FedTable
    files: DataFiles
    every: int
    """Milliseconds between two looks at the files."""
    identity: TaskIdentity
    durable: Storage

    def source(self, files: tuple[DataFile, ...]) -> Any:
        """Return what a data set of these files is made from: another one is needed when that changes."""
        shape = self.table.shape
        columns = [f"{column.name} {column.type}" for column in (*shape.given, *shape.kept)]
        return {"format": self.files.format, "columns": columns, "files": [[f.path, f.size, f.changed] for f in files]}


@dataclass(slots=True)
class _Standing:
    """What is known of a table."""

    of: FileTable
    sets: DataSets
    newest: DataSet | None = None
    """The newest data set that fits the table."""
    highest: int = 0
    """The highest number that was given, whether or not it fits."""
    used: int = 0
    """The data set of the last batch that is done."""
    looked: bool = False
    """Whether the durable data sets are known."""
    caught_up: bool = False
    """Whether the files were loaded as this attempt found them."""
    left: int = 0
    problem: str | None = None
    due: int = 0
    tidied: int = 0
    trying: RetriedChore = field(default_factory=RetriedChore)

    @property
    def number(self) -> int:
        return 0 if self.newest is None else self.newest.number


class FileTables:
    """All tables of files of an attempt: `follow` looks at the files, in a thread if this is entered as a context."""

    def __init__(
        self,
        tables: Sequence[FileTable],
        directory: Path,
        attempt: int,
        clock: Callable[[], int],
        settling: Callable[[float], object] | None = None,
    ) -> None:
        """`directory`: on a disk of the driver, for what is loaded. `clock`: milliseconds that numbers are made of.

        `settling`: waits so many seconds for a file that has just changed; otherwise until the attempt ends.
        """
        self._standing = {
            file_table.table.name: _Standing(file_table, DataSets(file_table.durable, file_table.identity))
            for file_table in tables
        }
        self._directory, self._attempt, self._clock = directory, attempt, clock
        self._over, self._woken = threading.Event(), threading.Event()
        self._settling = settling or self._over.wait
        self._thread = threading.Thread(target=self._run, name="files", daemon=True)

    def __enter__(self) -> Self:
        if self._standing:
            for left_behind in self._directory.glob(f"{_PREFIX}*"):
                shutil.rmtree(left_behind, ignore_errors=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._woken.set()
        if self._standing:
            self._thread.join(_PATIENCE)

    def look(self, done: Mapping[str, int]) -> DataSetsSeen:
        """Return what is known; `done`: the generations of tables after the last batch that is done."""
        numbers, loading, problems = dict[str, int](), dict[str, int](), dict[str, str]()
        for name, standing in self._standing.items():
            self._know(standing)
            if (used := done.get(name, 0)) != standing.used:
                standing.used = used
                self._woken.set()
            numbers[name] = standing.number
            if standing.of.table.bootstrap and not standing.caught_up and not (standing.problem and numbers[name]):
                loading[name] = max(1, standing.left)
            if standing.problem is not None:
                problems[name] = standing.problem
        return DataSetsSeen(numbers, loading, problems)

    def _know(self, standing: _Standing) -> None:
        """Find out once which data set there is: the first batch may look it up."""
        if not standing.looked:
            newest = standing.sets.newest()
            standing.highest = 0 if newest is None else newest.number
            # One that was made for other columns can't be served.
            fits = newest is not None and newest.source["columns"] == standing.of.source(())["columns"]
            standing.newest, standing.looked = newest if fits else None, True
            self._woken.set()

    def follow(self) -> int:
        """Load what has changed and is due; return in how many milliseconds something is due again."""
        for standing in self._standing.values():
            if standing.used > standing.tidied and standing.trying.now(partial(standing.sets.tidy, standing.used)):
                standing.tidied = standing.used
            # What was loaded last is not removed by the next one before a batch has named it.
            if standing.looked and self._clock() >= standing.due and standing.number in (0, standing.used):
                standing.trying.now(partial(self._tell, standing))
                standing.due = self._clock() + round(1000 * standing.trying.wait(standing.of.every / 1000))
        coming = (standing.due for standing in self._standing.values() if standing.due > self._clock())
        return max(1, min(coming, default=self._clock() + _WAITS) - self._clock())

    def _run(self) -> None:
        while not self._over.is_set():
            self._woken.wait(self.follow() / 1000)
            self._woken.clear()

    def _tell(self, standing: _Standing) -> None:
        try:
            self._follow(standing)
            standing.problem = None
        except HoldfastError as error:
            standing.problem = str(error)
            raise
        except Exception as error:
            standing.problem = f"{type(error).__name__}: {error}"
            raise

    def _follow(self, standing: _Standing) -> None:
        """Load the files if they have changed."""
        files = standing.of.files.settled(self._settling)
        source = standing.of.source(files)
        if standing.newest is None or standing.newest.source != source:
            standing.highest = max(standing.highest + 1, self._clock() * _ATTEMPTS + self._attempt % _ATTEMPTS)
            self._load(standing, files, source, standing.highest)
            standing.newest = DataSet(standing.highest, source)
        standing.caught_up = True

    def _load(self, standing: _Standing, files: tuple[DataFile, ...], source: Any, number: int) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=_PREFIX, dir=self._directory) as directory:
            table = SharedTable(Path(directory) / "table", standing.of.identity, boot_id(), lambda _: None, PIECE)
            with table.changing():
                kept_table, shape = KeptTable(table, standing.of.table.shape), standing.of.table.shape
                kept_table.begin()
                for rows in many_at_once(shape.stored(rows) for rows in self._rows(standing, files)):
                    kept_table.put(rows)
                table.commit(1, number, {})
            if standing.of.source(standing.of.files.there()) != source:
                message = f"{standing.of.files.shown} has changed while it was read; it is read again"
                raise RetrySoonError(message, code="DataFilesError")
            standing.sets.write(number, source, table)

    def _rows(self, standing: _Standing, files: tuple[DataFile, ...]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of files, and note about how many are left."""
        rows, total = 0, sum(file.size for file in files)
        read = 0
        standing.left = total // _ROW_BYTES

        def done(count: int) -> None:
            nonlocal read
            read = min(total, read + count)

        for batch in standing.of.files.rows(files, done):
            if self._over.is_set():
                message = "the attempt ends"
                raise RetrySoonError(message, code="DataFilesError")
            yield batch
            rows += batch.num_rows
            if read:
                standing.left = rows * (total - read) // read
