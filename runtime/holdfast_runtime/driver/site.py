"""The site of an app, a laptop or a cluster: everything that depends on where it runs, as one value.

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
    """The number of executors and their cores."""

    executors: int
    """0 if everything runs in the driver."""
    cores: int
    """Cores per executor, or of the driver."""

    @property
    def slots(self) -> int:
        """The largest number of Spark tasks that run at once."""
        return max(1, self.executors) * self.cores


@dataclass(frozen=True, slots=True)
class Site:
    """Where an app runs."""

    master: str
    shape: ProcessorShape
    places: Places
    coordinator: Coordinator
    shown: str
    """Where data is kept, as shown to people."""
    ui: bool = True
    spark: Mapping[str, str] = field(default_factory=dict)
    """Spark settings that come with the site; users can't choose them."""
    prints: Path | None = None
    """Folder for Spark's output; None: it goes where this process prints."""
    moving: bool = False
    """Whether tasks may move, and executors come back elsewhere, while the app runs."""
    executors_within: float = 120.0
    """Seconds that executors have to come up."""
    look_every: float = 0.1
    """Seconds between checks for executors."""


def shape_of(master: str) -> ProcessorShape | None:
    """Return the shape that Spark's master URL gives; None if the cluster decides."""
    cluster = re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]", master)
    if cluster is not None:
        return ProcessorShape(int(cluster[1]), int(cluster[2]))
    if not master.startswith("local"):
        return None
    local = re.fullmatch(r"local\[(\d+)\]", master)
    return ProcessorShape(0, 1 if local is None else int(local[1]))
