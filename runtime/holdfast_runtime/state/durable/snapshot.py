"""The snapshot of a task's whole state as one object, written and read in pieces.

The content is LMDB's own compact copy, because restoring row by row reaches only half the required speed
(`docs/decisions/0008`). A line of JSON names the owner. Frames of (raw length, stored length, sha256 of the stored
bytes, zstd data) follow; the last has raw length 0 and a checksum over all frames. A damaged or cut object is refused
before it is used. Must not know where objects lie, and reading must raise nothing but what `UNREADABLE_SNAPSHOT` lists.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from struct import Struct
from typing import NoReturn

import lmdb
import pyarrow as pa

from holdfast_runtime.state.errors import SnapshotDamagedError
from holdfast_runtime.state.store.directory import TaskIdentity
from holdfast_runtime.state.store.store_head import StoreHead

FORMAT = 1
ENGINE = "lmdb-0.9"
_MAGIC = b"holdfast-snapshot "
_FRAME = Struct(">II32s")
_RAW = 4 << 20
_LONGEST_LINE = 1 << 16
_PIPE = 1 << 20
_CODEC = "zstd"


def snapshot_chunks(identity: TaskIdentity, head: StoreHead, copy: Callable[[int], None]) -> Generator[bytes]:
    """Yield the snapshot object piece by piece; needs memory for one piece and no disk.

    `copy` writes LMDB's compact copy into a descriptor.
    """
    about = {
        "format": FORMAT,
        "engine": ENGINE,
        "app": identity.app,
        "run": identity.run,
        "task": identity.task,
        "batch": head.batch,
        "epoch": head.epoch,
    }
    line = _MAGIC + json.dumps(about).encode() + b"\n"
    yield line
    codec, total = pa.Codec(_CODEC, compression_level=1), hashlib.sha256(line)
    with closing(_pieces(copy)) as pieces:
        for raw in pieces:
            stored = codec.compress(raw, asbytes=True)
            frame = _FRAME.pack(len(raw), len(stored), hashlib.sha256(stored).digest())
            total.update(frame)
            yield frame
            yield stored
    yield _FRAME.pack(0, 0, total.digest())


def unpack_snapshot(
    path: str, identity: TaskIdentity, read: Callable[[int], bytes], write: Callable[[bytes], None]
) -> None:
    """Write LMDB's file from the object that `read` returns. What was written is valid only once this returns."""
    line = _line(path, read)
    _check_line(path, line, identity)
    codec, total = pa.Codec(_CODEC), hashlib.sha256(line)

    def checked(stored: bytes, size: int, digest: bytes) -> bytes:
        if hashlib.sha256(stored).digest() != digest:
            _refuse(path, "a checksum is wrong")
        return codec.decompress(stored, size, asbytes=True)  # type: ignore[no-any-return]

    with ThreadPoolExecutor(1) as ahead:
        waiting = None
        while True:
            frame = read(_FRAME.size)
            if len(frame) != _FRAME.size:
                _refuse(path, "it is cut short")
            size, length, digest = _FRAME.unpack(frame)
            if size == 0:
                break
            if size > _RAW or length > 2 * _RAW:
                _refuse(path, "a length is impossible")
            total.update(frame)
            stored = read(length)
            # One piece is decompressed while the previous one is written: both run without Python's lock.
            following = ahead.submit(checked, stored, size, digest)
            if waiting is not None:
                write(waiting.result())
            waiting = following
        if waiting is not None:
            write(waiting.result())
    if digest != total.digest() or read(1):
        _refuse(path, "its last checksum is wrong")


def _pieces(copy: Callable[[int], None]) -> Generator[bytes]:
    """Yield LMDB's copy, which LMDB writes into a pipe; its errors are raised here.

    Must be closed before the environment: LMDB may be reading in a thread.
    """
    reading, writing = os.pipe2(os.O_CLOEXEC)
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE)

    def copied_all() -> None:
        try:
            copy(writing)
        finally:
            os.close(writing)

    with ThreadPoolExecutor(1) as beside:
        copied = beside.submit(copied_all)
        try:
            with os.fdopen(reading, "rb", buffering=0) as pipe:
                while piece := _full(pipe.read):
                    yield piece
        except GeneratorExit:
            # The upload failed and closed the pipe's reading end. The copy fails because of that, which is not a second
            # error.
            copied.exception()
            raise
        copied.result()


def _full(read: Callable[[int], bytes | None]) -> bytes:
    parts, missing = [], _RAW
    while missing and (part := read(missing)):
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def _line(path: str, read: Callable[[int], bytes]) -> bytes:
    line = bytearray(read(len(_MAGIC)))
    if line != _MAGIC:
        _refuse(path, f"it starts with {bytes(line)!r}")
    while not line.endswith(b"\n"):
        more = read(1)
        if not more or len(line) > _LONGEST_LINE:
            _refuse(path, "its first line is damaged")
        line += more
    return bytes(line)


def _check_line(path: str, line: bytes, identity: TaskIdentity) -> None:
    try:
        about = json.loads(line[len(_MAGIC) :])
        made = (about["format"], about["engine"])
        owner = TaskIdentity(about["app"], about["run"], about["task"])
    except (ValueError, KeyError, TypeError) as error:
        _refuse(path, f"its first line is damaged ({error})")
    if made != (FORMAT, ENGINE):
        _refuse(path, f"it has format {made[0]} of {made[1]}, and this release reads format {FORMAT} of {ENGINE}")
    if owner != identity:
        _refuse(path, f"it is of {owner}, not of {identity}")


def _refuse(path: str, why: str) -> NoReturn:
    message = f"snapshot {path} can't be read: {why}"
    raise SnapshotDamagedError(message)


UNREADABLE_SNAPSHOT = (SnapshotDamagedError, pa.ArrowException, lmdb.Error)
