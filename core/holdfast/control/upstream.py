"""Why: what an operator may believe about event time when several streams or steps come together in it.

Pure arithmetic over what is upstream. Must not know of partitions or messages; who is idle is for the caller to say.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.control.watermark import lowest


@dataclass(frozen=True, slots=True)
class Upstream:
    """One thing an operator reads."""

    watermark: int | None
    ended: bool = False
    """No row follows from it, so it holds nothing back."""
    idle: bool = False
    """Silent longer than its `idleAfter`: it holds nothing back either, until it speaks again."""


def input_watermark(upstream: Iterable[Upstream], before: int | None = None) -> int | None:
    """The watermark of an operator's input: the minimum upstream, never less than it was `before`.

    If nothing upstream is active it stays: idle is not the end of time, the next row may be as early as ever.
    """
    reached = lowest(one.watermark for one in upstream if not one.ended and not one.idle)
    if reached is None or before is None:
        return before if reached is None else reached
    return max(reached, before)
