"""What a task still has to say to the partitions of a stream it writes, so that each hears every message once.

The same for a producer, which speaks in its own name, and for a relay, which speaks for all. Must not encode or
write: the caller writes what comes out behind the rows of the batch, in the same transaction.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from holdfast.control.messages import ControlMessage, EndOfStreamMessage, Position, WatermarkMessage


class Emission(NamedTuple):
    """A control message and the partitions it is to be written to."""

    partitions: Sequence[int]
    message: ControlMessage


@dataclass(frozen=True, slots=True)
class SenderProgress:
    """How far the sender itself has come."""

    watermark: int | None
    ended: bool = False
    alive: bool = False
    """Say the watermark again although it did not move: a task that works on late rows is not idle."""


@dataclass(frozen=True, slots=True)
class ControlSender:
    """What one task has told the partitions of one stream."""

    stream: str
    task: str | None
    """In whose name; None: a relay."""
    task_count: int | None
    watermark: int | None = None
    ended: bool = False
    told: frozenset[int] = frozenset()
    """The partitions that know both."""

    def follow(
        self, view: SenderProgress, partitions: Iterable[int], batch: int
    ) -> tuple["ControlSender", tuple[Emission, ...]]:
        """The sender after a batch, and what to write: news to all, and to new partitions what they missed.

        A watermark is said before the end, and nothing after it: what has ended stays ended.
        """
        targets = frozenset(partitions)
        watermark = self.watermark
        if not self.ended and view.watermark is not None and (watermark is None or view.watermark > watermark):
            watermark = view.watermark
        ended = self.ended or view.ended
        repeat = view.alive and not ended
        news = targets if watermark != self.watermark or repeat else targets - self.told
        ending = targets if not self.ended else targets - self.told
        emissions: list[Emission] = []
        if watermark is not None and news:
            message = WatermarkMessage(watermark, Position(batch, 0), self.task, self.task_count)
            emissions.append(Emission(sorted(news), message))
        if ended and ending:
            end = EndOfStreamMessage(self.stream, Position(batch, 1), self.task, self.task_count)
            emissions.append(Emission(sorted(ending), end))
        # Who was told earlier and is no target now does not know the news.
        same = (watermark, ended) == (self.watermark, self.ended)
        told = self.told | targets if same else targets
        return replace(self, watermark=watermark, ended=ended, told=told), tuple(emissions)
