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
                name: one if true(one.watermark) else replace(one, watermark=None, told=frozenset())
                for name, one in self.senders.items()
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
            one[0], one[1], one[2], one[3], one[4], frozenset(one[5]), idle=any(one[6:7]), task_digest="".join(one[7:])
        )
        for name, one in tree["senders"].items()
    }
    return ClockMarks(tree["watermarks"], senders)


def marks_changed(before: ClockMarks, after: ClockMarks, stored: Mapping[bytes, bytes]) -> dict[bytes, bytes | None]:
    """Return what is to be written for these marks; nothing if it is stored already."""
    senders = {
        name: [
            one.stream,
            one.task,
            one.task_count,
            one.watermark,
            one.ended,
            sorted(one.told),
            one.idle,
            one.task_digest,
        ]
        for name, one in {**before.senders, **after.senders}.items()
    }
    text = json.dumps({"watermarks": {**before.watermarks, **after.watermarks}, "senders": senders}).encode()
    return {} if stored.get(_KEY) == text else {_KEY: text}
