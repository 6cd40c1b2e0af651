"""Why: what the batch loop knows of a job, however it is run.

Must not import Spark: tests without a JVM run jobs too.
"""

from typing import Protocol


class Job(Protocol):
    """What runs all slots of a batch."""

    def run(self, batch: str) -> list[str]:
        """One answer for each slot."""
        ...
