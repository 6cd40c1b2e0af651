"""Why: what all ways of showing a run have in common. Must not decide which one is used."""

from typing import Protocol

from holdfast_cli.run.totals import Seen
from holdfast_runtime.progress import Event


class View(Protocol):
    """Shows a run while it goes on. All calls come from one thread."""

    def show(self, event: Event, seen: Seen, now: float) -> None:
        """One thing has happened; `seen` has it added up already."""

    def tick(self, seen: Seen, now: float) -> None:
        """Some time has passed."""

    def close(self) -> None:
        """Leave the terminal as it was."""

    def over(self, seen: Seen, failure: BaseException | None, now: float) -> None:
        """The run is over, well or not; after `close`."""
