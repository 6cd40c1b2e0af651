"""The site of an app, a laptop or a cluster: all that differs where it runs, as one value.

Must not act.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast_runtime.checkpoint.places import Places
from holdfast_runtime.coordination.coordinator import Coordinator


@dataclass(frozen=True, slots=True)
class ProcessorShape:
    """What there is to be of processors."""

    executors: int
    """0: all runs in the driver."""
    cores: int
    """Of each."""

    @property
    def slots(self) -> int:
        """How many tasks of Spark run at once, at most."""
        return max(1, self.executors) * self.cores


@dataclass(frozen=True, slots=True)
class Site:
    """Where an app runs."""

    master: str
    shape: ProcessorShape
    places: Places
    coordinator: Coordinator
    shown: str
    """Where data is, for people."""
    ui: bool = True
    spark: Mapping[str, str] = field(default_factory=dict)
    """Settings of Spark that come with the place, not the user's to choose."""
    prints: Path | None = None
    """Folder for what Spark prints; None: where this process prints."""
    moving: bool = False
    """Whether tasks may move and executors come back elsewhere while the app runs."""
    executors_within: float = 120.0
    """Seconds in which tasks must find their processors."""
    look_every: float = 0.1
    """Seconds between looks for that."""


def shape_of(master: str) -> ProcessorShape | None:
    """What Spark's master says; None: that is up to the cluster."""
    cluster = re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]", master)
    if cluster is not None:
        return ProcessorShape(int(cluster[1]), int(cluster[2]))
    if not master.startswith("local"):
        return None
    local = re.fullmatch(r"local\[(\d+)\]", master)
    return ProcessorShape(0, 1 if local is None else int(local[1]))
