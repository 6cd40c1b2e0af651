"""Why: where one run of an app keeps what: the one thing that differs most between a laptop and a cluster.

Must not create what it names.
"""

from dataclasses import dataclass
from pathlib import Path

from holdfast_runtime.state.storage import Storage


@dataclass(frozen=True, slots=True)
class Places:
    """Paths; those of driver and executors are the same, but only shared ones are the same place."""

    query: Path
    """Spark's own checkpoint: which batch read what. Shared, unless `planned` is."""
    shared: Storage
    """Shared: what else the run keeps as a whole: whose it is, and a jump that waits."""
    durable: Storage
    """Shared: durable copies of state, a directory for each task."""
    state: Path
    """Of each location: local stores, a folder for each task."""
    log: Path | None
    """Shared: the streams of the embedded log; None: there is none."""
    planned: Storage | None = None
    """Shared: a copy of Spark's checkpoint, where that is on the driver's own disk; None: it is shared itself."""
    secrets: Path | None = None
    """Of each location: a folder for each Secret of the app, with a file for each of its entries."""
