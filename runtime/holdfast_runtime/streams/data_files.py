"""The files of a data set: which there are, and their rows, in the order of their names.

Files are told apart by name, size and time of change; whoever reads rows looks at the files again afterwards. A row
that does not fit the columns fails the whole data set, since one with holes would be served as if it were whole. Must
not know tables, nor where a file system comes from.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from pyarrow import fs as pafs
from pyarrow import parquet as pq

from holdfast.errors import WorldChangeError
from holdfast.suggest import did_you_mean
from holdfast_runtime.streams.codecs import codec_for

_BLOCK = 8 << 20
_ROWS = 100_000
_LEFT_OUT = ("_", ".")
"""How names begin of what writers leave beside their data."""
_SETTLES = 1.0
"""Seconds in which nobody writes into a file that is whole."""
_LOOKS = 5
_ZONED = r"(Z|[+-]\d\d:?\d\d)$"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file as a listing shows it."""

    path: str
    size: int
    changed: int
    """Nanoseconds since 1970, by the clock of the file system."""


@dataclass(frozen=True, slots=True)
class DataFiles:
    """The files at one address."""

    system: pafs.FileSystem
    path: str
    shown: str
    """The address as users wrote it."""
    format: str
    schema: pa.Schema

    def there(self) -> tuple[DataFile, ...]:
        """Return the files that are there now; raise `DataFilesError` if there is none."""
        try:
            info = self.system.get_file_info(self.path)
            infos = [info]
            if info.type == pafs.FileType.Directory:
                infos = self.system.get_file_info(pafs.FileSelector(self.path))
        except (OSError, pa.ArrowException) as error:
            message = f"{self.shown} can't be listed ({error}): see that it is there, and that the driver may read it"
            raise _error(message) from error
        files = sorted(
            (DataFile(info.path, info.size, info.mtime_ns) for info in infos if info.type == pafs.FileType.File),
            key=lambda file: file.path,
        )
        data_files = tuple(file for file in files if not file.path.rpartition("/")[2].startswith(_LEFT_OUT))
        if not data_files:
            message = f"there is no file at {self.shown}: put {self.format} files there, or change files.location"
            raise _error(message)
        return data_files

    def settled(self, wait: Callable[[float], object]) -> tuple[DataFile, ...]:
        """Return the files that are there, none of them just being written; raise `DataFilesError` if one goes on.

        On a disk, who writes over a file makes it empty first; an object is whole as soon as it is there.
        """
        files = self.there()
        for _ in range(_LOOKS):
            fresh = _SETTLES - (time.time() - max(file.changed for file in files) / 1e9)
            if not isinstance(self.system, pafs.LocalFileSystem) or not 0 < fresh <= _SETTLES:
                return files
            wait(fresh)
            before, files = files, self.there()
            if files == before:
                return files
        message = f"{self.shown} is being written; it is read when nothing has changed for {_SETTLES:.0f} s"
        raise _error(message)

    def rows(self, files: tuple[DataFile, ...], done: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of these files; `done` gets how many bytes are read each time."""
        for file in files:
            try:
                yield from _READERS[self.format](self, file, done)
            except (OSError, pa.ArrowException) as error:
                message = f"{file.path} can't be read as {self.format}: {error}; mend it, and it is loaded again"
                raise _error(message) from error

    def _parquet(self, file: DataFile, done: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        with self.system.open_input_file(file.path) as opened, pq.ParquetFile(opened) as parquet:
            names = self._names_in(file, parquet.schema_arrow.names)
            groups = max(1, parquet.num_row_groups)
            for group in range(parquet.num_row_groups):
                for rows in parquet.iter_batches(_ROWS, row_groups=[group], columns=names):
                    yield self._cast(file, {name.casefold(): rows.column(name) for name in names})
                done(file.size // groups)

    def _csv(self, file: DataFile, done: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        with self.system.open_input_stream(file.path) as stream:
            first = stream.read(_BLOCK)
        if not first.strip():
            return
        header = csv.open_csv(pa.BufferReader(first.partition(b"\n")[0] + b"\n")).schema.names
        names = self._names_in(file, header)
        kinds = {
            name: pa.string() if pa.types.is_timestamp(field.type) else field.type
            for name, field in zip(names, self.schema, strict=True)
        }
        convert = csv.ConvertOptions(column_types=kinds, include_columns=names, strings_can_be_null=True)
        with (
            self.system.open_input_stream(file.path) as stream,
            csv.open_csv(stream, csv.ReadOptions(block_size=_BLOCK), convert_options=convert) as reader,
        ):
            for rows in reader:
                done(min(_BLOCK, file.size))
                yield self._cast(file, {name.casefold(): rows.column(name) for name in names})

    def _json(self, file: DataFile, done: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        codec, before = codec_for("json", self.schema), 0
        with self.system.open_input_stream(file.path) as stream:
            for lines in _lines(stream):
                texts = pa.array([line or None for line in lines], pa.binary())
                decoded = codec.decode(texts)
                if decoded.bad:
                    line, reason = before + decoded.bad[0].index + 1, decoded.bad[0].reason
                    message = f"line {line} of {file.path}: {reason}; mend it, and it is loaded again"
                    raise _error(message)
                before += len(lines)
                done(min(_BLOCK, file.size))
                yield decoded.rows

    def _names_in(self, file: DataFile, header: list[str]) -> list[str]:
        """Return the columns of the schema as a file calls them; Spark does not tell capitals from small letters."""
        names_in_file = {name.casefold(): name for name in header}
        for name in self.schema.names:
            if name.casefold() not in names_in_file:
                message = f"{file.path} has no column {name}{did_you_mean(name, header)}"
                raise _error(message)
        return [names_in_file[name.casefold()] for name in self.schema.names]

    def _cast(self, file: DataFile, columns: dict[str, pa.Array]) -> pa.RecordBatch:
        cast_columns = []
        for field in self.schema:
            column = columns[field.name.casefold()]
            try:
                cast_columns.append(_as(column, field.type))
            except pa.ArrowException as error:
                message = f"column {field.name} of {file.path} is {column.type}, and no {field.type}: {error}"
                raise _error(message) from error
        return pa.RecordBatch.from_arrays(cast_columns, schema=self.schema)


_READERS = {"parquet": DataFiles._parquet, "csv": DataFiles._csv, "json": DataFiles._json}  # noqa: SLF001 - of this module


def _as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind) and kind.tz and pa.types.is_string(column.type):
        # A time that names no zone is in UTC, as in records.
        zoned = pc.match_substring_regex(column, _ZONED)
        column = pc.if_else(zoned, column, pc.binary_join_element_wise(column, "Z", ""))
    elif pa.types.is_timestamp(kind) and pa.types.is_timestamp(column.type):
        # Finer than microseconds is cut, as Spark does.
        return column.cast(kind, safe=False)
    return column.cast(kind)


def _lines(stream: pa.NativeFile) -> Iterator[list[bytes]]:
    """Yield the lines of a file, many at a time."""
    rest = b""
    for block in chain(iter(lambda: stream.read(_BLOCK), b""), [None]):
        *lines, rest = (rest if block is None else rest + block).split(b"\n")
        if block is None and rest:
            lines.append(rest)
        if lines:
            yield lines


def _error(message: str) -> WorldChangeError:
    return WorldChangeError(message, code="DataFilesError")
