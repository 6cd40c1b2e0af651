"""Repeated looks at something that changes: a screen drawn anew in place, or each change printed.

For `--watch` and for waiting; goes on when the cluster is away a while. Must not know what is looked at.
"""

import io
import sys
from collections.abc import Callable
from typing import Generic, NoReturn, Protocol, TypeVar

from rich.console import Console
from rich.live import Live
from rich.text import Text

from holdfast.errors import RetrySoonError
from holdfast_cli.output.screen import console_for, styled

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class WatchView(Protocol[T_contra]):
    """Shows what was seen."""

    def show(self, seen: T_contra, trouble: str | None) -> None:
        """What was seen last, and why nothing newer can be seen, if so."""


def watch(look: Callable[[], T], view: WatchView[T], pause: Callable[[], None]) -> NoReturn:
    """Until something is wrong that does not go away by itself, or `pause` ends it."""
    seen = look()
    view.show(seen, None)
    while True:
        pause()
        trouble = None
        try:
            seen = look()
        except RetrySoonError as error:
            trouble = str(error)
        view.show(seen, trouble)


class LiveView(Generic[T]):
    """One screen that is drawn anew in place: what stands on it grows old."""

    def __init__(self, console: Console, draw: Callable[[Console, T], None]) -> None:
        self._draw, self._colors = draw, console.color_system
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="ellipsis")

    def __enter__(self) -> "LiveView[T]":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, seen: T, trouble: str | None) -> None:
        """Draw."""
        drawn = io.StringIO()
        paper = console_for(drawn, self._colors)
        if trouble is not None:
            paper.print(styled((trouble, "yellow")))
        self._draw(paper, seen)
        self._live.update(Text.from_ansi(drawn.getvalue().rstrip()), refresh=True)


class ChangesView(Generic[T]):
    """Each change, one after the other."""

    def __init__(self, draw: Callable[[T], None]) -> None:
        self._draw = draw
        self._shown: T | None = None
        self._trouble: str | None = None

    def show(self, seen: T, trouble: str | None) -> None:
        """Print what is new."""
        if trouble is not None and self._trouble is None:
            sys.stderr.write(f"holdfast: {trouble}\n")
        if seen != self._shown:
            self._draw(seen)
            sys.stdout.flush()
        self._shown, self._trouble = seen, trouble
