"""Why: an app may choose to write without transactions: what is written twice after a failure is its user's business.

All of a batch is there when a write returns, and nothing shuts out an earlier attempt. Must not be used unasked.
"""

from dataclasses import dataclass

from holdfast.errors import HoldfastError
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings
from holdfast_runtime.streams.kafka.write.channel import Channel, open_channel
from holdfast_runtime.streams.kafka.write.delivering import deliver
from holdfast_runtime.streams.kafka.write.producer import PATIENCE, REQUEST_BYTES, usual
from holdfast_runtime.streams.kafka.write.slot_writers import AttemptSlot, WriteHook, Writes

_IN_ORDER = {"enable.idempotence": "true"}


@dataclass(slots=True)
class PlainWriter:
    """Those of one process, in one Kafka system."""

    settings: KafkaSettings
    request_bytes: int = REQUEST_BYTES
    _channel: Channel | None = None

    def send(self, sender: AttemptSlot, writes: Writes, at: WriteHook) -> None:  # noqa: ARG002 - as with transactions
        """Write it; all of it is there when this returns."""
        if self._channel is None:
            self._channel = open_channel(self.settings, self.settings.client(usual(self.request_bytes), _IN_ORDER))
        placed = ((one.stream, one.partition, records) for one, parts in writes.items() for records, _ in parts)
        try:
            deliver(self._channel, self.settings, f"Kafka system {self.settings.system}: records", placed, PATIENCE)
        except HoldfastError:
            # What is in its queue belongs to this try: the next one writes all of it again.
            self.close()
            raise
        at("records written")

    def close(self) -> None:
        """Give up the connection."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
