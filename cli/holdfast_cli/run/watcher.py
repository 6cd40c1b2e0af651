"""Why: what all ways of showing a run have in common. Must not decide which one is used."""

from typing import Protocol

from holdfast_cli.run.totals import RunTotals
from holdfast_runtime.progress import Event


class RunView(Protocol):
    """Shows a run while it goes on. All calls come from one thread."""

    def show(self, event: Event, seen: RunTotals, now: float) -> None:
        """One thing has happened; `seen` has it added up already."""

    def tick(self, seen: RunTotals, now: float) -> None:
        """Some time has passed."""

    def close(self) -> None:
        """Leave the terminal as it was."""

    def over(self, seen: RunTotals, failure: BaseException | None, now: float) -> None:
        """The run is over, well or not; after `close`."""
