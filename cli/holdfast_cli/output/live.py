"""Repeated looks at something that changes: a screen redrawn in place, or each change printed as text or JSON.

For `--watch` and for waiting; continues while the cluster is unreachable. Must not know what is shown.
"""

import io
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from rich.console import Console
from rich.live import Live
from rich.text import Text

from holdfast.errors import RetrySoonError
from holdfast_cli.output.screen import console_for, live_screen, screen, styled

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class WatchView(Protocol[T_contra]):
    """Shows the results of repeated looks."""

    def show(self, latest: T_contra, trouble: str | None) -> None:
        """Show the last result; `trouble` says why there is no newer one."""


def watch(
    look: Callable[[], T], view: WatchView[T], pause: Callable[[], None], last: T | None = None
) -> Iterator[T | None]:
    """Look and show again and again; yield each result, None while retrying. `last`: what was seen before, if it was.

    An error that retrying does not cure ends it, and so does any error before something was seen.
    """
    while True:
        trouble = None
        try:
            last = look()
        except RetrySoonError as error:
            if last is None:
                raise
            trouble = str(error)
        view.show(last, trouble)
        yield last if trouble is None else None
        pause()


@contextmanager
def watch_view(
    output: str, color: str, draw: Callable[[Console, T], None], tree: Callable[[T], object]
) -> Iterator[WatchView[T]]:
    """Yield the view for `-o` and `--color`: lines of JSON; on a terminal a screen; elsewhere each change as text."""
    live, paper = live_screen(color), screen(color)
    if output == "json":
        yield ChangesView(lambda latest: print_json(tree(latest)))
    elif sys.stdout.isatty() and not live.is_dumb_terminal:
        with LiveView(live, draw) as view:
            yield view
    else:
        yield ChangesView(lambda latest: draw(paper, latest))


def print_json(tree: object, *, indent: int | None = None) -> None:
    """Print a result for programs."""
    sys.stdout.write(json.dumps(tree, indent=indent, ensure_ascii=False) + "\n")


class LiveView(Generic[T]):
    """A screen redrawn in place at every look, so that ages on it stay current; `transient`: removed at the end."""

    def __init__(self, console: Console, draw: Callable[[Console, T], None], *, transient: bool = False) -> None:
        self._draw, self._colors, self._transient = draw, console.color_system, transient
        # No auto-refresh: its thread would draw while a signal is handled.
        self._live = Live(console=console, auto_refresh=False, transient=transient, vertical_overflow="ellipsis")

    def __enter__(self) -> "LiveView[T]":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._transient:
            # It draws once more without a limit, and of what is higher than the terminal only a part can be removed.
            self._live.update(Text())
        self._live.stop()

    def show(self, latest: T, trouble: str | None) -> None:
        """Redraw the screen."""
        drawn = io.StringIO()
        paper = console_for(drawn, self._colors, self._live.console.width)
        if trouble is not None:
            paper.print(styled((trouble, "yellow")))
        self._draw(paper, latest)
        self._live.update(Text.from_ansi(drawn.getvalue().rstrip()), refresh=True)


class ChangesView(Generic[T]):
    """Prints each change below the one before."""

    def __init__(self, draw: Callable[[T], None]) -> None:
        self._draw = draw
        self._shown: T | None = None
        self._trouble: str | None = None

    def show(self, latest: T, trouble: str | None) -> None:
        """Print the result if it has changed."""
        if trouble is not None and self._trouble is None:
            sys.stderr.write(f"holdfast: {trouble}\n")
        if latest != self._shown:
            self._draw(latest)
            sys.stdout.flush()
        self._shown, self._trouble = latest, trouble
