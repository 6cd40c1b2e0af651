"""Slots that stay from batch to batch: a stint is one long Spark job whose tasks answer batch after batch.

    slots are started -> each connects to the driver -> (its part -> answer) ... -> the driver leaves -> they end

A stint ends when a slot is lost or raises, or when no batch is to follow. What was asked is then asked once more, of
the slots of a new stint. Must not know what slots do, nor who starts them, nor decide what becomes of a batch.
"""

import logging
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from selectors import EVENT_READ, DefaultSelector
from typing import Protocol

from holdfast_runtime.job import JobFailedError
from holdfast_runtime.stints.slot_connections import DriverAddress, SlotConnections


class SlotWork(Protocol):
    """What a slot does, in its process."""

    def answer(self, batch: str) -> str:
        """Return the answer to a batch."""

    def let_go(self) -> None:
        """Give back what is kept for the next batch: none has come for a while."""

    def end(self) -> None:
        """Give back everything: no batch will come."""


Begin = Callable[[int], SlotWork]
"""Takes the number of a slot; called in the slot's process."""


class StartedSlots(Protocol):
    """The processes of one stint's slots."""

    @property
    def over(self) -> bool:
        """Whether they have ended."""

    @property
    def failure(self) -> Exception | None:
        """Why they have ended, unless because they were to."""

    def end(self) -> None:
        """Wait for the end of slots that are left; end those that take too long."""


StartSlots = Callable[[int], StartedSlots]
"""Starts the slots of the stint of this number. Each connects to the driver."""
_LOG = logging.getLogger("holdfast")
_TRIES = 2
"""How often a batch is tried, as Spark would (`spark.task.maxFailures`)."""
_BEGINS_WITHIN = 30.0
_KEEPS_FOR = 2.0
"""Seconds without a batch after which a slot lets go: its driver may hang, and another attempt have begun."""
_LOOK_EVERY = 1.0
_ANSWER, _RAISED = b"=", b"!"


class Stints:
    """The slots of an assignment, one stint after the other."""

    def __init__(self, slots: int, starting: Callable[[DriverAddress], StartSlots], host: str | None = None) -> None:
        """`slots`: their number. `host`: where slots on other hosts find the driver; None: all are on its own."""
        self._slots, self._connections = slots, SlotConnections(host)
        self._start = starting(self._connections.address)
        self._stint: _Stint | None = None
        self._number, self._not_before = 0, 0.0
        self._ended = False

    @property
    def present(self) -> bool:
        """Whether slots are there to be asked."""
        return self._stint is not None

    def ask(self, parts: Sequence[str]) -> list[str] | None:
        """Return the answers of all slots, each asked its part; None if not all can start at once.

        Raise `JobFailedError` if one can't answer, and what went wrong if they can't be started.
        """
        lost = "the slots were ended"
        for left in reversed(range(_TRIES)):
            if self._ended:
                break
            try:
                self._stint = self._stint or self._begin()
                return None if self._stint is None else self._stint.ask(parts)
            except _StintBrokenError as error:
                lost = str(error)
                self._leave()
            except _NotStartedError as error:
                if not left:
                    raise error.why from error
        raise JobFailedError(lost)

    def end(self) -> None:
        """End the slots, also such as are at work; nothing is asked any more."""
        self._ended = True
        self._leave()
        self._connections.close()

    def _begin(self) -> "_Stint | None":
        if time.monotonic() < self._not_before:
            return None
        self._number += 1
        self._connections.expect(self._number)
        started = self._start(self._number)
        connections = self._connections.gathered(self._slots, lambda: self._ended or started.over, _BEGINS_WITHIN)
        if connections is not None:
            return _Stint(started, connections)
        self._connections.leave()
        started.end()
        if started.failure is not None:
            raise _NotStartedError(started.failure)
        if not self._ended:
            self._not_before = time.monotonic() + _BEGINS_WITHIN
            _LOG.warning("not all slots could start at once; it is tried again in %.0f s", _BEGINS_WITHIN)
        return None

    def _leave(self) -> None:
        stint, self._stint = self._stint, None
        self._connections.leave()
        if stint is not None:
            stint.started.end()


class _StintBrokenError(Exception):
    """A slot of the stint is lost, or has raised; the text says what is known."""


class _NotStartedError(Exception):
    """The slots of a stint could not be started."""

    def __init__(self, why: Exception) -> None:
        super().__init__(str(why))
        self.why = why


class _Stint:
    """The processes of slots, and the connections to them."""

    def __init__(self, started: StartedSlots, connections: Sequence[Connection]) -> None:
        self.started, self._connections = started, connections

    def ask(self, parts: Sequence[str]) -> list[str]:
        """Return the answers of all slots; raise `_StintBrokenError` if one does not come."""
        answers = dict[int, str]()
        # Slots are hundreds: each is looked at when it has answered, and not whenever another one has.
        with DefaultSelector() as answering:
            try:
                for slot, (connection, part) in enumerate(zip(self._connections, parts, strict=True)):
                    connection.send_bytes(part.encode())
                    answering.register(connection, EVENT_READ, slot)
                while len(answers) < len(parts):
                    for key, _ in answering.select(_LOOK_EVERY):
                        answers[key.data] = _answer_in(self._connections[key.data].recv_bytes())
                        answering.unregister(key.fileobj)
                    if self.started.over:
                        raise _StintBrokenError(self._why())
            except (OSError, EOFError) as error:
                raise _StintBrokenError(self._why()) from error
        return [answers[slot] for slot in range(len(parts))]

    def _why(self) -> str:
        return str(self.started.failure or "a slot's process has ended")


def _answer_in(message: bytes) -> str:
    kind, text = message[:1], message[1:].decode()
    if kind == _RAISED:
        raise _StintBrokenError(text)
    return text


def stay(driver: DriverAddress, stint: int, slot: int, begin: Begin) -> None:
    """Answer batch after batch in this process, until the driver leaves."""
    with driver.connect(stint, slot) as connection:
        _answer_all(connection, begin(slot))


def _answer_all(connection: Connection, work: SlotWork) -> None:
    try:
        while True:
            if not connection.poll(_KEEPS_FOR):
                work.let_go()
            batch = connection.recv_bytes().decode()
            try:
                message = _ANSWER + work.answer(batch).encode()
            except Exception:  # noqa: BLE001 - the driver says it
                message = _RAISED + traceback.format_exc().encode()
            connection.send_bytes(message)
    except (OSError, EOFError):
        return
    finally:
        work.end()
