"""What of a run on this host begins before its modules are imported: the processes of slots, where no Spark is needed.

Imports as little as it can: while those processes import what slots need, the rest of this one is imported. Must not
run anything.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.planning.plan import Plan
from holdfast.spec.app import StreamApp
from holdfast_runtime.inspection.spark_need import computes_in_spark
from holdfast_runtime.spark.settings import check_settings
from holdfast_runtime.stints.slot_processes import SlotProcesses

__all__ = ["SlotProcesses", "check_spark_settings", "slots_without_spark"]


@contextmanager
def slots_without_spark(app: StreamApp, plan: Plan) -> Iterator[SlotProcesses | None]:
    """Start the processes of a valid app's slots; None if Spark SQL computes a part of it."""
    if computes_in_spark(app.spec, plan):
        yield None
        return
    with SlotProcesses() as processes:
        yield processes


def check_spark_settings(app: StreamApp) -> None:
    """Raise `SparkSettingRefusedError` if the spec sets what Holdfast sets."""
    check_settings(app.spec.runtime.spark_conf)
