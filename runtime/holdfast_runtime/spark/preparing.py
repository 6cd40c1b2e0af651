"""Why: in a new JVM the job takes seconds to build and to run for the first time, and so does the query to start.

So the job is built, and run once with nothing to do, in a thread, while Spark starts the query: whichever takes longer
is what a restart waits for. Must not know what the job does.
"""

from collections.abc import Callable
from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from holdfast_runtime.early import start_early
from holdfast_runtime.job import Job


class PreparingJob:
    """A job that gets ready while others work."""

    def __init__(self, build: Callable[[], Job], nothing: str) -> None:
        """`nothing`: the plan of a batch that concerns no task."""
        self._ready = start_early(lambda: _prepared(build, nothing))

    def run(self, batch: str) -> list[str]:
        """Run all slots with this plan, as the job does; raises what went wrong when the job was built."""
        return self._ready().run(batch)


def _prepared(build: Callable[[], Job], nothing: str) -> Job:
    job = build()
    # What fails here fails in the first batch too, where it is explained.
    with suppress(PySparkException, Py4JError):
        job.run(nothing)
    return job
