"""The durable copy of a table that locations share: manifests and the files they name, below the checkpoint of the run.

One location uploads, now and then, what is new since the last time; any location without a copy of its own takes the
newest manifest that is not ahead of its batch, and reads on from the offsets in it. Must not know rows or streams.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from urllib.parse import quote
from zlib import crc32

from holdfast_runtime.state.durable.storage import Storage, obsolete_may_stay
from holdfast_runtime.state.shared.shared_table import TABLES, Manifest, RunFile, SharedTable, manifest_name
from holdfast_runtime.state.store.directory import TaskIdentity

_PREFIX = "manifest-"
_MANY_BATCHES = 100
_LEAST_BYTES = 32 << 20
_AT_ONCE = 4
_BESIDE = 32 << 20
"""Bytes from which on an upload does not keep a batch waiting."""


def table_storage(root: Storage, identity: TaskIdentity) -> Storage:
    """Return where the durable copy of a table is; `root`: where those of all state are."""
    return root.below(*(quote(part, safe="") for part in (identity.app, identity.run, TABLES, identity.task)))


class TableCopy:
    """The durable copy of one table."""

    def __init__(self, storage: Storage, identity: TaskIdentity) -> None:
        """`storage`: of this copy alone."""
        self._storage, self._identity = storage, identity
        self._last: Manifest | None = None
        """The last manifest that is known to be there."""
        self._thread = ThreadPoolExecutor(1)
        self._beside: Future[None] | None = None
        """What is written at present."""

    def restore(self, table: SharedTable, generation: int, offsets: Mapping[str, int]) -> bool:
        """Fill an empty table from the newest copy of this generation that is not ahead; return whether there is."""
        for manifest in self._manifests():
            behind = all(manifest.offsets.get(name, 0) <= end for name, end in offsets.items())
            if (
                (manifest.table, manifest.generation) == (self._identity, generation)
                and behind
                and self._taken(table, manifest)
            ):
                return True
        return False

    def newest(self, table: SharedTable) -> bool:
        """Fill an empty table from the newest copy, to look at it; return whether there is one."""
        return any(self._taken(table, manifest) for manifest in self._manifests())

    def _taken(self, table: SharedTable, manifest: Manifest) -> bool:
        # Threads, as reading, checking and writing each leave the others something to do.
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            whole = all(threads.map(partial(self._fetched, table), manifest.files.values()))
        if whole:
            table.take(manifest)
        else:
            table.drop()
        return whole

    def _fetched(self, table: SharedTable, file: RunFile) -> bool:
        content = self._storage.read(file.name)
        if content is None or len(content) != file.size or crc32(content) != file.crc:
            return False
        table.put_file(file, content)
        return True

    def due(self, manifest: Manifest, starts: Mapping[str, int]) -> bool:
        """Whether a table has changed enough since it was uploaded.

        `starts`: from where side inputs are read by who has less. What lies before is in the copy alone.
        """
        if self._last is None:
            self._last = next(self._manifests(), None) or Manifest(self._identity, 0)
        lacks = any(self._last.offsets.get(name, 0) < start for name, start in starts.items())
        if self._last.generation != manifest.generation or lacks:
            return True
        names = {file.name for file in self._last.files.values()}
        new = sum(file.size for file in manifest.files.values() if file.name not in names)
        return new >= max(_LEAST_BYTES, manifest.bytes // 2) or manifest.batch - self._last.batch >= _MANY_BATCHES

    def upload(self, table: SharedTable) -> None:
        """Write what is new of a table, then its manifest, and remove what that makes obsolete.

        Much of it is written beside later batches, and what was in the way of it is raised with the next upload.
        """
        if self._beside is not None:
            if not self._beside.done():
                return
            beside, self._beside = self._beside, None
            beside.result()
            return
        manifest, before, contents = self._new(table)
        if sum(map(len, contents.values())) < _BESIDE:
            self._write(manifest, before, contents)
        else:
            self._beside = self._thread.submit(self._write, manifest, before, contents)

    def write(self, table: SharedTable) -> None:
        """Write what is new of a table, however large."""
        self._write(*self._new(table))

    def _new(self, table: SharedTable) -> tuple[Manifest, Manifest, dict[bytes, memoryview]]:
        """Return the manifest, the one that was uploaded before, and the content of files that are new."""
        manifest, before = table.manifest, next(self._manifests(), Manifest(self._identity, 0))
        names = {file.name for file in before.files.values()}
        # Maps of files stay, though their names may go meanwhile.
        keys = [key for key, file in manifest.files.items() if file.name not in names]
        return manifest, before, dict(zip(keys, table.get_many(keys), strict=True))

    def _write(self, manifest: Manifest, before: Manifest, contents: Mapping[bytes, memoryview]) -> None:
        stored, files_before = set(self._storage.names()), {file.name: file for file in before.files.values()}
        files = {key: files_before.get(file.name, file) for key, file in manifest.files.items()}
        for key, content in contents.items():
            files[key] = replace(files[key], crc=crc32(content))
            self._storage.write(files[key].name, [content])
        written = replace(manifest, files=files)
        self._storage.write(manifest_name(manifest.batch), [written.text().encode()], replace=True)
        self._last = written
        # Whoever restores the copy before this one can still do so.
        restorable_manifests = (written, before)
        used = {file.name for manifest in restorable_manifests for file in manifest.files.values()} | {
            manifest_name(manifest.batch) for manifest in restorable_manifests
        }
        with obsolete_may_stay(self._storage):
            for _ in self._storage.delete(stored - used):
                pass

    def _manifests(self) -> Iterator[Manifest]:
        for name in sorted((name for name in self._storage.names() if name.startswith(_PREFIX)), reverse=True):
            content = self._storage.read(name)
            with suppress(ValueError, KeyError, TypeError):
                if content is not None:
                    yield Manifest.parse(content.decode(errors="replace"))
