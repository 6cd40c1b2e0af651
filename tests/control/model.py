"""The rules for watermarks read word for word, from the whole history of a partition each time. Slow and obvious."""

from dataclasses import dataclass, field

from holdfast.control.messages import EARLIEST, ControlMessage, EndOfStreamMessage, MessageNumber, WatermarkMessage
from holdfast.control.producers import Producers
from holdfast.control.runs import WriterRun


@dataclass
class Model:
    """One partition since clock 0."""

    rule: Producers
    heard: list[tuple[int, ControlMessage]] = field(default_factory=list)
    watermark: int | None = None
    runs: list[WriterRun] = field(default_factory=list)
    """Each run, and each attempt of it that came after another run."""
    since: int = 0
    idle: set[str] = field(default_factory=set)
    """Producers that have said so last."""

    def batch(self, messages: list[ControlMessage], now: int) -> int | None:
        for at, message in enumerate(messages):
            run, current = message.run, self.runs[-1] if self.runs else None
            if run is None or (current is not None and run.name == current.name):
                if run is not None and current is not None:
                    self.runs[-1] = max(run, current)
                continue
            if any(run.name == one.name and run.attempt <= one.attempt for one in self.runs):
                return self.batch(messages[:at] + messages[at + 1 :], now)
            if run != current:
                self.hear(messages[:at], now)
                if self.runs and self.ended():
                    return self.hear([], now)
                if self.runs:
                    self.heard, self.since = [], now
                self.runs.append(run)
                return self.batch(messages[at:], now)
        return self.hear(messages, now)

    def ended(self) -> bool:
        if any(message.task is None and isinstance(message, EndOfStreamMessage) for _, message in self.heard):
            return True
        finished = sum(mark is None for _, mark in self.producers().values())
        return 0 < self.expected() <= finished

    def hear(self, messages: list[ControlMessage], now: int) -> int | None:
        self.heard += [(now, message) for message in messages if message.task is None or self.rule.knows(message.task)]
        candidates = [self.watermark, *self.nameless(), self.minimum(now), self.minimum_of_active(now)]
        self.watermark = max((one for one in candidates if one is not None), default=None)
        return self.watermark

    def nameless(self) -> list[int]:
        """All that the source or relay has said before its end."""
        watermarks: list[int] = []
        least, last, ended = EARLIEST, MessageNumber(-1, -1), False
        for _, message in self.heard:
            if message.task is not None or message.at <= last or ended:
                continue
            if isinstance(message, EndOfStreamMessage):
                ended = True
            elif message.idle or message.timestamp >= least:
                least, last = max(least, message.timestamp), message.at
                watermarks += [least] if least > EARLIEST else []
        return watermarks

    def producers(self) -> dict[str, tuple[int, int | None]]:
        """Task -> clock when it last said something new, its watermark (None: it has ended)."""
        self.idle = set()
        known: dict[str, tuple[int, int | None]] = {}
        at: dict[str, MessageNumber] = {}
        for clock, message in self.heard:
            if message.task is None or message.at <= at.get(message.task, MessageNumber(-1, -1)):
                continue
            now = None if isinstance(message, EndOfStreamMessage) else message.timestamp
            before = known.get(message.task)
            idle = isinstance(message, WatermarkMessage) and message.idle
            if idle and now is not None and before is not None and before[1] is not None:
                now = max(now, before[1])
            if before is not None and (before[1] is None or (now is not None and now < before[1])):
                continue
            known[message.task], at[message.task] = (clock, now), message.at
            self.idle = self.idle | {message.task} if idle else self.idle - {message.task}
        return known

    def waited_for(self) -> dict[str, tuple[int, int]]:
        """Producers that have not ended, without those that are idle; all of them if all are."""
        running = {task: (clock, mark) for task, (clock, mark) in self.producers().items() if mark is not None}
        return {task: clock_mark for task, clock_mark in running.items() if task not in self.idle} or running

    def expected(self) -> int:
        counted = [message.task_count or 0 for _, message in self.heard if message.task is not None]
        return self.rule.count or max(counted, default=0)

    def minimum(self, now: int) -> int | None:
        del now
        running = [watermark for _, watermark in self.waited_for().values()]
        return min(running, default=None) if len(self.producers()) >= self.expected() else None

    def minimum_of_active(self, now: int) -> int | None:
        idle_after, known = self.rule.idle_after, self.producers()
        if idle_after is None or (len(known) < self.expected() and now - self.since < idle_after):
            return None
        running = self.waited_for()
        active = [mark for clock, mark in running.values() if now - clock < idle_after]
        everyone = len(running) + max(self.expected() - len(known), 0)
        quorum = max(1, int(everyone * self.rule.quorum + 1e-9))
        return min(active) if active and len(active) >= quorum else None
