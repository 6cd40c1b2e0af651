"""The write agent: one process of an executor that writes for all its workers.

A slot may run in another worker with each batch. Taking its transactional id costs a worker some 90 ms, and with two
workers that happened in every second batch. So the process that Spark forks its workers from first forks the agent,
which keeps all ids, and workers send it their writes. If there is none (tests, another way to start Python), or it has
died, each worker writes itself; so does a worker whose slots stay with it. Must not outlive its parent, and must not
decide: it does what the writer it was given does.
"""

import ctypes
import logging
import os
import pickle
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from typing import Protocol

import pyarrow as pa

from holdfast.errors import HoldfastError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.streams.kafka.client.errors import KafkaBusyError
from holdfast_runtime.streams.markers import AttemptSlot, Decided, TaskMarkers, WriteHook, Writes
from holdfast_runtime.streams.records import HEADERS, WRITTEN, Marker

_LOG = logging.getLogger("holdfast")
_DIE_WITH_PARENT = 1
_HERE: "AgentAddress | None" = None


class Writer(Protocol):
    """Writes the outputs of slots into one Kafka system."""

    def send(self, sender: AttemptSlot, writes: Writes, at: WriteHook, decided: Decided) -> None:
        """Write what has not been written; everything is written when this returns."""

    def hold(self, sender: AttemptSlot, *, anew: bool) -> TaskMarkers:
        """Hold a slot's name until another process takes it; return what was committed under it."""

    def close(self) -> None:
        """Close all connections."""


Make = Callable[[], Writer]
"""Makes a writer; can be pickled."""


@dataclass(frozen=True, slots=True)
class AgentAddress:
    """The address of this process's agent."""

    name: str
    """Name of an abstract Unix socket."""
    secret: bytes = field(repr=False)


def agent() -> AgentAddress | None:
    """Return the agent that was begun before this process was forked, or None."""
    return _HERE


def write_alone() -> None:
    """Do without the agent in this process: a slot that stays needs nobody to keep its id meanwhile."""
    global _HERE  # noqa: PLW0603 - as in `begin_agent`
    _HERE = None


def begin_agent() -> None:
    """Fork the agent, for all processes that are forked from this one later."""
    global _HERE  # noqa: PLW0603 - a forked process knows it by nothing else
    # An abstract name leaves no file behind.
    address = AgentAddress(f"\0holdfast-{secrets.token_hex(8)}", secrets.token_bytes(16))
    parent, (read_end, write_end) = os.getpid(), os.pipe()
    if os.fork():
        os.close(write_end)
        # An agent that could not begin sends nothing: then each worker writes itself.
        _HERE = address if os.read(read_end, 1) else None
        os.close(read_end)
        return
    try:
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        if os.getppid() == parent:
            _only_speak_to_workers()
            with Listener(address.name, family="AF_UNIX", backlog=64, authkey=address.secret) as listener:
                os.write(write_end, b"1")
                os.close(write_end)
                serve(listener)
    finally:
        os._exit(0)


def _only_speak_to_workers() -> None:
    """Detach from standard input and output, which connect Spark and the parent."""
    sys.stdout.flush()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(nothing, number)


def serve(listener: Listener) -> None:
    """Answer workers until the process ends."""
    writers = _Writers()
    while True:
        try:
            connection = listener.accept()
        except (OSError, EOFError, AuthenticationError):
            continue  # another process, or a worker that died during the call
        threading.Thread(target=writers.answer, args=(connection,), daemon=True).start()


@dataclass(slots=True)
class _Slot:
    """One slot's writer into one system, for one batch at a time."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    made: bytes = b""
    writer: Writer | None = None

    def write(self, make: bytes, sender: AttemptSlot, writes: Writes) -> None:
        """Write with the writer that `make` makes; another attempt brings another one."""
        with self.lock:
            if self.writer is None or self.made != make:
                if self.writer is not None:
                    self.writer.close()
                self.writer, self.made = pickle.loads(make)(), make  # noqa: S301 - from a worker of ours
            self.writer.send(sender, writes, lambda _: None, lambda: None)


@dataclass(slots=True)
class _Writers:
    """The writers of all slots of an executor."""

    slots: dict[tuple[str, int], _Slot] = field(default_factory=dict)
    guard: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, connection: Connection) -> None:
        """Serve one worker until it disconnects."""
        try:
            while True:
                system, make, sender, parts = pickle.loads(connection.recv_bytes())  # noqa: S301 - a worker of ours
                with self.guard:
                    slot = self.slots.setdefault((system, sender.slot), _Slot())
                connection.send(_failure(lambda: slot.write(make, sender, _unpacked(parts))))  # noqa: B023 - at once
        except (EOFError, OSError):
            connection.close()


def _failure(act: Callable[[], None]) -> tuple[type[HoldfastError], str, str] | None:
    try:
        act()
    except HoldfastError as error:
        return type(error), str(error), error.code
    except Exception as error:  # noqa: BLE001 - the worker is waiting for an answer
        return HoldfastError, f"{type(error).__name__}: {error}", ""
    return None


@dataclass(slots=True)
class RemoteWriter:
    """Sends writes to the agent, and writes itself when the agent is dead."""

    address: AgentAddress
    system: str
    make: bytes
    """The pickled `Make`."""
    _connection: Connection | None = None
    _instead: Writer | None = None

    def send(self, sender: AttemptSlot, writes: Writes, at: WriteHook, decided: Decided) -> None:
        """Write what has not been written; everything is written when this returns."""
        decided()
        connection = self._connected() if self._instead is None else None
        if connection is None:
            self._instead = self._instead or pickle.loads(self.make)()  # noqa: S301 - made by this process
            self._instead.send(sender, writes, at, decided)
            return
        with self._noticed():
            connection.send_bytes(pickle.dumps((self.system, self.make, sender, _packed(writes)), protocol=5))
            failed = connection.recv()
        if failed is not None:
            kind, message, code = failed
            error = kind(message)
            error.code = code or error.code
            raise error
        at("records written")

    def hold(self, sender: AttemptSlot, *, anew: bool) -> TaskMarkers:
        """Take a slot's name from all who have it, the agent too; return what was committed under it."""
        writer: Writer = pickle.loads(self.make)()  # noqa: S301 - made by this process
        try:
            return writer.hold(sender, anew=anew)
        finally:
            writer.close()

    def close(self) -> None:
        """Disconnect."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._instead is not None:
            self._instead.close()
            self._instead = None

    def _connected(self) -> Connection | None:
        """Return the connection, or None if the agent is dead; no other can come, as agents begin before the fork."""
        with self._noticed():
            if self._connection is None:
                try:
                    self._connection = Client(self.address.name, family="AF_UNIX", authkey=self.address.secret)
                except ConnectionRefusedError:
                    _LOG.warning("the process that writes for this executor has died: each worker writes itself")
            return self._connection

    @contextmanager
    def _noticed(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError) as error:
            self.close()
            message = f"the process that writes for this executor is gone ({type(error).__name__}). It is tried again"
            raise KafkaBusyError(message) from error


_Packed = list[tuple[StreamPartition, list[tuple[bytes, bool, Marker]]]]
"""Partition -> records, whether they have a column of headers, and the marker."""


def _packed(writes: Writes) -> _Packed:
    return [
        (topic_partition, [(*_bytes(records), marker) for records, marker in parts])
        for topic_partition, parts in writes.items()
    ]


def _unpacked(parts: _Packed) -> Writes:
    return {
        topic_partition: [
            (_records(content, with_headers=with_headers), marker) for content, with_headers, marker in packed_parts
        ]
        for topic_partition, packed_parts in parts
    }


def _bytes(records: pa.RecordBatch) -> tuple[bytes, bool]:
    return bytes(records.serialize()), HEADERS.name in records.schema.names


def _records(content: bytes, *, with_headers: bool) -> pa.RecordBatch:
    return pa.ipc.read_record_batch(pa.py_buffer(content), WRITTEN.append(HEADERS) if with_headers else WRITTEN)
