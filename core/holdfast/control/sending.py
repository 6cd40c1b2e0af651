"""The control messages a task still has to send to the partitions of a stream, so that each gets every message once.

The same for a producer, which sends in its own name, and for a relay, which sends for all. Must not encode or write:
the caller writes the messages after the rows of the batch, in the same transaction.
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
    """The sender's own watermark and end."""

    watermark: int | None
    ended: bool = False
    alive: bool = False
    """Send the watermark again although it did not move: a task that works on late rows is not idle."""


@dataclass(frozen=True, slots=True)
class ControlSender:
    """What one task has sent to the partitions of one stream."""

    stream: str
    task: str | None
    """The task named in messages; None: a relay."""
    task_count: int | None
    watermark: int | None = None
    ended: bool = False
    told: frozenset[int] = frozenset()
    """The partitions that have got this watermark and, if the task has ended, the end."""

    def follow(
        self, view: SenderProgress, partitions: Iterable[int], batch: int
    ) -> tuple["ControlSender", tuple[Emission, ...]]:
        """Return the sender after a batch, and what to send: news to all, and to new partitions what they missed.

        A watermark is sent before the end, and nothing after the end: an ended stream stays ended.
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
        # A partition that is no target now does not get the news, even if it got everything before.
        same = (watermark, ended) == (self.watermark, self.ended)
        told = self.told | targets if same else targets
        return replace(self, watermark=watermark, ended=ended, told=told), tuple(emissions)
