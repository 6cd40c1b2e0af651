"""Why: what changing a field of a running app costs. Every field of the model carries one of these.

The docs table, the CRD's transition rules and `holdfast diff` all read the class from the field itself, so there is
no second list that could disagree.
"""

from enum import IntEnum


class ChangeCost(IntEnum):
    """What it takes for a new value of a field to come into force, cheapest first."""

    LIVE = 0
    """Applied without touching the running attempt."""
    RESTART = 1
    """The attempt drains; the next one starts on the same hosts with the same state."""
    NEW_RUN = 2
    """State cannot follow: accepted only together with a new `spec.runId`."""
    FORBIDDEN = 3
    """Never: it would be another app."""

    @property
    def label(self) -> str:
        """The name users see: `Live`, `Restart`, `NewRun`, `Forbidden`."""
        return {0: "Live", 1: "Restart", 2: "NewRun", 3: "Forbidden"}[self.value]

    @property
    def sentence(self) -> str:
        """What happens, in words for a terminal or an event."""
        return {
            ChangeCost.LIVE: "applied while the app runs",
            ChangeCost.RESTART: "drains and starts the next attempt; state, order and exactly-once are kept",
            ChangeCost.NEW_RUN: "state cannot follow: set a new spec.runId, and the app starts with empty state",
            ChangeCost.FORBIDDEN: "not possible: create another StreamApp",
        }[self]
