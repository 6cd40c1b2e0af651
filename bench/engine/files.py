"""Generated files, kept between runs, and written as engines read them.

Files live under ~/.cache/holdfast/bench in directories named after their parameters, and may be deleted at any time.
Modification times are set, because Spark's file source reads in their order.
"""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tests.cached import cache

VERSION = 1
"""Part of each name: raise it when what is generated changes."""
FIRST_TIME = 1_704_067_200


def cached(name: str, write: Callable[[Path], None]) -> Path:
    """A directory of the cache; what is there is whole, because it gets its name last."""
    folder = cache() / "bench"
    path = folder / f"{name}-v{VERSION}"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder))
        try:
            write(unfinished)
            unfinished.rename(path)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return path


def records(path: Path) -> pa.BinaryArray:
    """The lines of a file as records: what the embedded log is fed with."""
    data = np.frombuffer(path.read_bytes(), np.uint8)
    ends = np.flatnonzero(data == ord("\n"))
    offsets = np.concatenate([[0], ends - np.arange(len(ends))]).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data[data != ord("\n")])]
    return pa.Array.from_buffers(pa.binary(), len(ends), buffers)


def write_lines(folder: Path, number: int, columns: dict[str, Any]) -> None:
    """A file of JSON lines: one buffer, joined from the columns."""
    parts: list[Any] = []
    for name, values in columns.items():
        parts += [f'{", " if parts else "{"}"{name}": ', values]
    path = folder / f"{number:05d}.json"
    path.write_bytes(pc.binary_join_element_wise(*parts, "}\n", "").buffers()[2])
    dated(path, number)


def dated(path: Path, number: int) -> None:
    """Spark reads files by age."""
    os.utime(path, (FIRST_TIME + number, FIRST_TIME + number))


def text(values: Any) -> pa.Array:
    """Numbers as they are printed."""
    return pa.array(values).cast(pa.string())


def stamps(millis: Any) -> pa.Array:
    """Milliseconds since 1970 as ISO 8601, without a zone."""
    return pc.replace_substring(pa.array(millis).cast(pa.timestamp("ms")).cast(pa.string()), " ", "T")


def quoted(before: str, values: pa.Array, after: str = "") -> pa.Array:
    """JSON strings."""
    return pc.binary_join_element_wise('"' + before, values, after + '"', "")


def hexadecimal(chance: np.random.Generator, count: int, length: int) -> pa.Array:
    """Random digits."""
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)[chance.integers(0, 16, count * length)]
    offsets = (np.arange(count + 1) * length).astype(np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(digits)])
