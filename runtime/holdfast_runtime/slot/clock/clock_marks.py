"""What a task keeps of its clock beside the bookkeeping: watermarks of its steps, and what it has said to streams.

Must not decide what they are.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from holdfast.control.sending import ControlSender

MARKS = ".marks"
"""The state table of the marks."""


@dataclass(frozen=True, slots=True)
class ClockMarks:
    """The watermarks of a task's steps, and what it sent to each stream."""

    watermarks: Mapping[str, int | None]
    senders: Mapping[str, ControlSender]

    def believed(self, horizon: int | None) -> "ClockMarks":
        """Return the marks without event times past the horizon; what was sent with such a time is sent again."""
        if horizon is None:
            return self

        def true(mark: int | None) -> bool:
            return mark is None or mark <= horizon

        return ClockMarks(
            {name: mark if true(mark) else None for name, mark in self.watermarks.items()},
            {
                name: sender if true(sender.watermark) else replace(sender, watermark=None, told=frozenset())
                for name, sender in self.senders.items()
            },
        )


_KEY = b"marks"


def read_marks(stored: Mapping[bytes, bytes]) -> ClockMarks:
    """Return the marks that the last batch stored."""
    if _KEY not in stored:
        return ClockMarks({}, {})
    tree = json.loads(stored[_KEY])
    senders = {
        # What an earlier release stored ends before `idle`, or before the digest.
        name: ControlSender(
            fields[0],
            fields[1],
            fields[2],
            fields[3],
            fields[4],
            frozenset(fields[5]),
            idle=any(fields[6:7]),
            task_digest="".join(fields[7:]),
        )
        for name, fields in tree["senders"].items()
    }
    return ClockMarks(tree["watermarks"], senders)


def marks_changed(before: ClockMarks, after: ClockMarks, stored: Mapping[bytes, bytes]) -> dict[bytes, bytes | None]:
    """Return what is to be written for these marks; nothing if it is stored already."""
    senders = {
        name: [
            sender.stream,
            sender.task,
            sender.task_count,
            sender.watermark,
            sender.ended,
            sorted(sender.told),
            sender.idle,
            sender.task_digest,
        ]
        for name, sender in {**before.senders, **after.senders}.items()
    }
    text = json.dumps({"watermarks": {**before.watermarks, **after.watermarks}, "senders": senders}).encode()
    return {} if stored.get(_KEY) == text else {_KEY: text}
