"""Why: how many seats beyond the floor each location may get while the assignment stays a best one.

Choices narrow it step by step and never widen it. Which processor of a location gets them is not decided here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class ExtraSeats:
    """Some number of extra seats, and for each location the least and the most it gets of them.

    `sum(least) <= total <= sum(most)` holds at all times, so there is always a way to give them out.
    """

    total: int
    least: Mapping[str, int]
    most: Mapping[str, int]

    @property
    def unclaimed(self) -> int:
        """How many are left when every location has its least."""
        return self.total - sum(self.least.values())

    @property
    def excess(self) -> int:
        """How many are missing when every location has its most."""
        return sum(self.most.values()) - self.total

    def open(self, location: str) -> int:
        """How many extra seats of this location are not decided."""
        return self.most[location] - self.least[location]

    def narrowed(self, wish: Mapping[str, int]) -> "ExtraSeats":
        """All best ways to give them out where each is worth one up to a location's wish and nothing beyond.

        If all wishes can be granted, the best ways are those that do; if not, those that give nothing beyond a wish.
        """
        granted = {place: min(max(wish[place], self.least[place]), self.most[place]) for place in self.least}
        if sum(granted.values()) <= self.total:
            return replace(self, least=granted)
        return replace(self, most=granted)
