"""A table in files of which a location has one copy, mapped by all processes there: what Broadcast tables lie in.

    .lock                       held by the one process that changes the table
    run-<id>.arrow              a large value, written once
    manifest-<batch>.json       all small values, the file of each large one, and how far side inputs are applied

A change is the rename of a manifest: who dies before it has changed nothing, and files that no manifest names are
removed by the next who holds the lock. The last two manifests and their files stay, so that a process may go on with
the one it has read; what it has mapped stays in any case. Nothing waits for the disk: after a power cut, which another
boot id shows, nothing here is trusted. What is lost or damaged is not mended here: the table is dropped, and whoever
fills it starts from the durable copy or from the side inputs. Must not know rows, streams or batches' content.
"""

import base64
import fcntl
import mmap
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from holdfast.errors import RetrySoonError, WorldChangeError
from holdfast_runtime.sealed_json import sealed, unsealed
from holdfast_runtime.state.durable.copy import CrashHook
from holdfast_runtime.state.local_disk import NO_SPACE, cure
from holdfast_runtime.state.store.directory import TaskIdentity

TABLES = "tables"
"""The directory of shared tables beside those of tasks, among local stores and durable copies."""
SHARED_STEPS = ("lock held", "run sealed", "manifest written", "manifest renamed")
FORMAT = 1
_T = TypeVar("_T")
_LARGE = 2048
"""Bytes from which on a value has a file of its own."""
_MANIFEST, _RUN = "manifest-", "run-"
_KEPT = 2


@dataclass(frozen=True, slots=True)
class RunFile:
    """A large value."""

    name: str
    size: int
    crc: int | None = None
    """Of its content; only known of what was in the durable copy."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a table holds after a batch."""

    table: TaskIdentity
    """App, run and table."""
    generation: int
    batch: int = 0
    boot: str = ""
    offsets: Mapping[str, int] = field(default_factory=dict)
    """Partition of a side input -> the next offset to apply."""
    small: Mapping[bytes, bytes] = field(default_factory=dict)
    files: Mapping[bytes, RunFile] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(file.size for file in self.files.values())

    def text(self) -> str:
        """Return it as JSON."""
        return sealed(
            {
                "format": FORMAT,
                "table": [self.table.app, self.table.run, self.table.task],
                "generation": self.generation,
                "batch": self.batch,
                "boot": self.boot,
                "offsets": dict(self.offsets),
                "small": {_text(key): _text(value) for key, value in self.small.items()},
                "files": {_text(key): [file.name, file.size, file.crc] for key, file in self.files.items()},
            }
        )

    @classmethod
    def parse(cls, text: str) -> "Manifest":
        """Return it from its text; raise `ValueError`."""
        tree = unsealed(text)
        if tree["format"] != FORMAT:
            message = f"it has format {tree['format']}, and this release reads {FORMAT}"
            raise ValueError(message)
        return cls(
            TaskIdentity(*tree["table"]),
            tree["generation"],
            tree["batch"],
            tree["boot"],
            tree["offsets"],
            {_bytes(key): _bytes(value) for key, value in tree["small"].items()},
            {_bytes(key): RunFile(*fields) for key, fields in tree["files"].items()},
        )


def manifest_name(batch: int) -> str:
    """Return the name of the manifest after a batch."""
    return f"{_MANIFEST}{batch:020}.json"


class SharedTable:
    """A table as one process sees it. `read` and `change` decide which manifest; then it is a table of bytes."""

    def __init__(self, path: Path, identity: TaskIdentity, boot: str, at: CrashHook, large: bytes) -> None:
        """`large`: what keys of large values begin with; their values are read as they are mapped."""
        self.name, self._large = identity.task, large
        self.path, self._identity, self._boot, self.at = path, identity, boot, at
        self.manifest = Manifest(identity, 0)
        self._maps: dict[str, memoryview] = {}
        self._small: dict[bytes, bytes | None] = {}
        self._files: dict[bytes, RunFile | None] = {}

    def read(self, generation: int, offsets: Mapping[str, int]) -> bool:
        """Take the manifest with exactly these offsets; return False if there is none."""
        if self._is(self.manifest, generation, offsets):
            return True
        manifest = next((manifest for manifest in self._manifests() if self._is(manifest, generation, offsets)), None)
        if manifest is None:
            return False
        self._take(manifest)
        return True

    def look(self) -> bool:
        """Take the newest manifest, to look at the table from outside; return False if there is none."""
        manifest = next(iter(self._manifests()), None)
        if manifest is not None:
            self._take(manifest)
        return manifest is not None

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the lock, with the newest manifest, or nothing if that can't be trusted."""
        with self._explained():
            self.path.mkdir(parents=True, exist_ok=True)
        with self.locked():
            self.at("lock held")
            newest = next(iter(self._manifests()), None)
            good = newest is not None and newest.table == self._identity and self._sound(newest)
            self._take(newest if good and newest is not None else Manifest(self._identity, 0))
            if not good:
                self.drop()
            yield

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock, whatever is there."""
        with self._explained():
            lock = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            with self._explained():
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            self._small, self._files = {}, {}
            os.close(lock)

    def drop(self) -> None:
        """Forget everything; the lock is held."""
        with self._explained():
            for name in os.listdir(self.path):  # noqa: PTH208 - half the time
                if name != ".lock":
                    (self.path / name).unlink(missing_ok=True)
        self._take(Manifest(self._identity, 0))

    def put_file(self, file: RunFile, content: bytes) -> None:
        """Take a file from elsewhere, whose content was checked; the lock is held."""
        with self._explained():
            (self.path / file.name).write_bytes(content)

    def take(self, manifest: Manifest) -> None:
        """Take a manifest from elsewhere, whose files are here; the lock is held."""
        self._take(manifest)

    def commit(self, batch: int, generation: int, offsets: Mapping[str, int]) -> None:
        """Make what was written part of the table; the lock is held."""
        small = {**self.manifest.small, **{key: value for key, value in self._small.items() if value is not None}}
        files = {**self.manifest.files, **{key: file for key, file in self._files.items() if file is not None}}
        for key in self._small.keys() | self._files.keys():
            if self._small.get(key) is None:
                small.pop(key, None)
            if self._files.get(key) is None:
                files.pop(key, None)
        manifest = Manifest(self._identity, generation, batch, self._boot, dict(offsets), small, files)
        with self._explained():
            written = self.path / f".{manifest_name(batch)}"
            written.write_text(manifest.text())
            self.at("manifest written")
            written.replace(self.path / manifest_name(batch))
        self._take(manifest)
        self.at("manifest renamed")
        self._tidy()

    def get_many(self, keys: Sequence[bytes]) -> list[Any]:
        """Return the values of these keys, None for missing ones; large ones as they are mapped."""
        return [self._get(key) for key in keys]

    def view_many(self, keys: Sequence[bytes], view: Callable[[Sequence[Any]], _T]) -> _T:
        """Return what `view` makes of the values of these keys."""
        return view(self.get_many(keys))

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Write these values; None deletes."""
        for key, value in zip(keys, values, strict=True):
            large = value is not None and len(value) >= _LARGE and key.startswith(self._large)
            self._small[key] = None if large else value
            self._files[key] = self._sealed(value) if large and value is not None else None

    def purge(self, keys: Sequence[bytes]) -> None:
        """Delete keys."""
        self.put_many(keys, [None] * len(keys))

    def forget(self) -> None:
        """Drop what is written and not committed."""
        self._small, self._files = {}, {}

    def scan(self, prefix: bytes = b"", start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, Any]]:
        """Return the rows in key order."""
        keys = {*self.manifest.small, *self.manifest.files, *self._small, *self._files}
        for key in sorted(keys):
            inside = key.startswith(prefix) and key >= start and (stop is None or key < stop)
            if inside and (value := self._get(key)) is not None:
                yield key, value

    def _get(self, key: bytes) -> Any:
        if key in self._small:
            written = self._files[key]
            return self._small[key] if written is None else self._mapped(written)
        if (file := self.manifest.files.get(key)) is not None:
            return self._mapped(file)
        return self.manifest.small.get(key)

    def _sealed(self, value: bytes) -> RunFile:
        file = RunFile(f"{_RUN}{secrets.token_hex(8)}.arrow", len(value))
        with self._explained():
            (self.path / file.name).write_bytes(value)
        self.at("run sealed")
        return file

    def _mapped(self, file: RunFile) -> memoryview:
        content = self._maps.get(file.name)
        if content is None:
            with self._explained(), (self.path / file.name).open("rb") as opened:
                content = memoryview(mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ))
            self._maps[file.name] = content
        return content

    def _take(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self._small, self._files = {}, {}
        names = {file.name for file in manifest.files.values()}
        self._maps = {name: content for name, content in self._maps.items() if name in names}

    def _is(self, manifest: Manifest, generation: int, offsets: Mapping[str, int]) -> bool:
        return (manifest.table, manifest.generation, manifest.boot) == (
            self._identity,
            generation,
            self._boot,
        ) and dict(manifest.offsets) == dict(offsets)

    def _manifests(self) -> Iterator[Manifest]:
        """Yield the manifests that can be read, the newest first."""
        for name in self._names():
            try:
                with self._on_disk():
                    content = (self.path / name).read_text()
                yield Manifest.parse(content)
            except (ValueError, KeyError, TypeError, FileNotFoundError):
                continue

    def _names(self) -> list[str]:
        try:
            with self._on_disk():
                names = os.listdir(self.path)  # noqa: PTH208 - half the time
        except FileNotFoundError:
            return []
        return sorted((name for name in names if name.startswith(_MANIFEST)), reverse=True)

    def _sound(self, manifest: Manifest) -> bool:
        """Whether all files are there, written since the machine has started."""
        try:
            whole = all((self.path / file.name).stat().st_size == file.size for file in manifest.files.values())
        except OSError:
            return False
        return whole and manifest.boot == self._boot

    def _tidy(self) -> None:
        """Remove manifests but the last two, and files that none of them names."""
        names = self._names()
        keep = set(names[:_KEPT])
        used = {
            file.name
            for manifest in self._manifests()
            if manifest_name(manifest.batch) in keep
            for file in manifest.files.values()
        }
        with self._explained():
            for name in os.listdir(self.path):  # noqa: PTH208
                old = name.startswith(_MANIFEST) and name not in keep
                if old or (name.startswith(_RUN) and name not in used):
                    (self.path / name).unlink(missing_ok=True)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            with self._on_disk():
                yield
        except FileNotFoundError as error:
            message = (
                f"table {self.name}: {error.filename} is gone: another process has gone on; the batch is tried again"
            )
            raise RetrySoonError(message, code="TableMovedOnError") from error

    @contextmanager
    def _on_disk(self) -> Iterator[None]:
        """Let errors about missing files pass: another process may have gone on."""
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            message = (
                f"table {self.name}: {self.path} can't be used: {error}; its disk has {_free(self.path)} bytes free: "
                f"{'free some' if error.errno in NO_SPACE else cure(error.errno or 0)}. The table is made again from "
                f"the durable copy or its side inputs"
            )
            raise WorldChangeError(message, code="TableDiskError") from error


def _free(path: Path) -> int:
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return 0


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)
