"""The writers of slots' outputs: in one transaction with its marker, or plainly if the app asks for it.

    cold:  take the slot's name  -> if a newer attempt is here, end    -> which batches are written? -> write the rest
    warm:  nobody else has taken the name, or the commit is refused    -> what was written is known  -> write the rest
    held:  the same, but a refused commit is for whoever holds the name: this try has ended

A producer stays open between batches, because taking a name costs some 50 ms. The worker of an executor that runs a
slot changes; the previous one finds its name taken, and begins cold. Without transactions nothing shuts out an earlier
attempt, and outputs may be written twice: use it only if the app asks for it. Must not know Spark.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa

from holdfast.errors import HoldfastError, RetrySoonError
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.clocks import now
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings
from holdfast_runtime.streams.kafka.write.channel import Channel, deliver, open_channel
from holdfast_runtime.streams.kafka.write.marker_notes import ATTEMPTS, Notes, check_newest, slot_note, slot_partition
from holdfast_runtime.streams.kafka.write.marker_topic import MarkerTopic
from holdfast_runtime.streams.kafka.write.producer import (
    PATIENCE,
    REQUEST_BYTES,
    TakenOverError,
    TransactionalProducer,
    usual,
)
from holdfast_runtime.streams.markers import AttemptId, AttemptSlot, Decided, TaskMarkers, WriteHook, Writes, is_written
from holdfast_runtime.streams.records import Marker, fewer, written_batch

_LOG = logging.getLogger("holdfast")
_PATIENCE = 60.0
T = TypeVar("T")


@dataclass(slots=True)
class _Held:
    """A name this process has taken."""

    producer: TransactionalProducer
    turns: dict[str, Marker]
    """Task -> the marker of its last batch known to be written."""
    for_good: bool = False
    """Whether the name is not taken again after it is lost."""


@dataclass(slots=True)
class TransactionalWriter:
    """The transactional writers of one process, in one Kafka system."""

    settings: KafkaSettings
    before: TaskMarkers
    """What earlier attempts of the run had written when this one began."""
    markers: MarkerTopic
    request_bytes: int = REQUEST_BYTES
    _held: dict[AttemptSlot, _Held] = field(default_factory=dict)

    def send(self, sender: AttemptSlot, writes: Writes, at: WriteHook, decided: Decided) -> None:
        """Write what has not been written; everything is written when this returns."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            session = self._held.get(sender) or self._opened(sender)
            left = self._left(session.turns, writes)
            if not left:
                return
            try:
                self._transact(sender, session, left, at, decided)
            except TakenOverError as error:
                self._dropped(sender)
                if session.for_good:
                    message = f"{error}. Whether it has written this batch is looked up"
                    raise RetrySoonError(message) from None
                if time.monotonic() > deadline:
                    message = f"{error}, again and again for {_PATIENCE:.0f} s"
                    raise RetrySoonError(message) from None
            except BaseException:
                # It is unknown whether it was committed: whoever takes the name next finds out.
                self._dropped(sender)
                raise
            else:
                return

    def hold(self, sender: AttemptSlot, *, anew: bool) -> TaskMarkers:
        """Hold a slot's name until another process takes it; return what was committed under it."""
        if anew:
            self._dropped(sender)
        session = self._held.get(sender) or self._opened(sender)
        session.for_good = True
        return session.turns

    def close(self) -> None:
        """Release all names."""
        for sender in list(self._held):
            self._dropped(sender)
        self.markers.close()

    def _opened(self, sender: AttemptSlot) -> _Held:
        began = time.monotonic()
        producer = TransactionalProducer(self.settings, sender.who.transactional_id(sender.slot), self.request_bytes)
        try:
            producer.open()
            # After taking the name: a newer attempt first notes itself and then shuts names out, so one of the two sees
            # the other.
            self._check_newest(sender.who)
            turns = {**self.before, **self._written(sender)}
        except BaseException:
            producer.close()
            raise
        finally:
            self.markers.close()
        took = (time.monotonic() - began) * 1000
        _LOG.debug("system %s: slot %d is written by this process (%.0f ms)", self.settings.system, sender.slot, took)
        self._held[sender] = session = _Held(producer, turns)
        return session

    def _check_newest(self, who: AttemptId) -> None:
        last = self._notes(who.app, ATTEMPTS, lambda notes: notes.newest)
        check_newest(who, last)

    def _written(self, sender: AttemptSlot) -> TaskMarkers:
        """Return what this slot has written in this attempt."""
        who = sender.who
        markers = self._notes(who.app, slot_partition(sender.slot), lambda notes: notes.turns.get(who))
        return markers or {}

    def _notes(self, app: str, partition: int, pick: Callable[[Notes], T | None]) -> T | None:
        """Return what is found among the newest notes of a partition, or else among all."""
        for read in (self.markers.tail, self.markers.read):
            if (picked := pick(Notes(app).add(read(partition)))) is not None:
                return picked
        return None

    def _transact(self, sender: AttemptSlot, session: _Held, writes: Writes, at: WriteHook, decided: Decided) -> None:
        producer = session.producer
        turns = {marker.task: marker for parts in writes.values() for _, marker in parts}
        producer.begin()
        at("transaction begun")
        for partition, parts in writes.items():
            for records in fewer([records for records, _ in parts]):
                producer.put(partition.stream, partition.partition, records)
        key, value = slot_note(sender.who, sender.slot, turns)
        producer.put(self.markers.topic, slot_partition(sender.slot), written_batch([key], [value], now()))
        at("transaction filled")
        producer.hurry()
        decided()
        producer.commit()
        at("transaction committed")
        session.turns |= turns

    def _left(self, turns: TaskMarkers, writes: Writes) -> dict[StreamPartition, list[tuple[pa.RecordBatch, Marker]]]:
        left: dict[StreamPartition, list[tuple[pa.RecordBatch, Marker]]] = {}
        holder = f"Kafka system {self.settings.system}"
        for partition, parts in writes.items():
            for records, marker in parts:
                if not is_written(marker, turns.get(marker.task), holder):
                    left.setdefault(partition, []).append((records, marker))
        return left

    def _dropped(self, sender: AttemptSlot) -> None:
        session = self._held.pop(sender, None)
        if session is not None:
            session.producer.close()


IN_ORDER = {"enable.idempotence": "true"}


@dataclass(slots=True)
class PlainWriter:
    """The plain writer of one process, in one Kafka system."""

    settings: KafkaSettings
    request_bytes: int = REQUEST_BYTES
    _channel: Channel | None = None

    def send(
        self,
        sender: AttemptSlot,  # noqa: ARG002 - as with transactions
        writes: Writes,
        at: WriteHook,
        decided: Decided,
    ) -> None:
        """Write everything before returning."""
        decided()
        if self._channel is None:
            self._channel = open_channel(self.settings, self.settings.client(usual(self.request_bytes), IN_ORDER))
        placed = (
            (partition.stream, partition.partition, records)
            for partition, parts in writes.items()
            for records in fewer([records for records, _ in parts])
        )
        try:
            deliver(self._channel, self.settings, f"Kafka system {self.settings.system}: records", placed, PATIENCE)
        except HoldfastError:
            # Its queue belongs to this try: the next one writes everything again.
            self.close()
            raise
        at("records written")

    def hold(self, sender: AttemptSlot, *, anew: bool) -> TaskMarkers:  # noqa: ARG002 - as with transactions
        """Do nothing: without transactions there is no name, and nobody knows what was written."""
        return {}

    def close(self) -> None:
        """Close the connection."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
