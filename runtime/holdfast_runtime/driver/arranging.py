"""Why: an attempt begins when its tasks have processors: here is who waits for executors and for who places tasks.

Must not decide which processor a task goes to.
"""

import threading
import time
from collections.abc import Sequence

from pyspark.sql import SparkSession

from holdfast.errors import WorldChangeError
from holdfast_runtime.driver.arrangement_part import Arrangement
from holdfast_runtime.driver.site import Site
from holdfast_runtime.spark.located import registered
from holdfast_runtime.spark.processors import by_processor

_HERE = "local"
"""The one processor where all runs in the driver."""


class ExecutorsMissingError(WorldChangeError):
    """The executors that were asked for did not come up."""


def first_arrangement(
    spark: SparkSession, site: Site, tasks: Sequence[str], drain: threading.Event
) -> Arrangement | None:
    """The slots to begin with; None: the app is to end before it has begun."""
    deadline = time.monotonic() + site.executors_within
    wanted = site.shape.executors
    while True:
        found: dict[str, str | None] = {**by_processor(registered(spark))} if wanted else {_HERE: None}
        placement = site.coordinator.placement(tasks, found.keys(), wanted)
        if placement is not None:
            return Arrangement(placement, {one: found[one] for one in placement.assignment.tasks_of}, site.shape.cores)
        if time.monotonic() > deadline:
            message = (
                f"{len(found)} of {wanted} executors came up in {site.executors_within:.0f} s; "
                f"see Spark's log for the others"
            )
            raise ExecutorsMissingError(message)
        if drain.wait(site.look_every):
            return None
        site.coordinator.check()
