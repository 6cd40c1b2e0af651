"""Why: where one run of an app keeps what: the one thing that differs most between a laptop and a cluster.

Must not create what it names.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Places:
    """Paths; those of driver and executors are the same, but only shared ones are the same place."""

    query: Path
    """Shared: Spark's own checkpoint: which batch read what."""
    durable: Path
    """Shared: durable copies of state, a folder for each task."""
    state: Path
    """Of each location: local stores, a folder for each task."""
    log: Path | None
    """Shared: the streams of the embedded log; None: there is none."""
    sync: bool = False
    """Whether a durable copy has to survive its machine."""
    secrets: Path | None = None
    """Of each location: a folder for each Secret of the app, with a file for each of its entries."""
