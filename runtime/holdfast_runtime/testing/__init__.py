"""TestDriver, with which users test their apps batch by batch in one process, without a cluster or a JVM.

What runs is the engine itself: plan, offsets, slots, state and commit are those of `holdfast run`. Only Spark's part,
which asks for batches and starts slots, is played by `TestDriver`. Must not be imported by what runs apps.
"""

from holdfast_runtime.testing.driver import BatchResult, Lab, TestDriver
from holdfast_runtime.testing.failures import (
    ALL_STEPS,
    Crashed,
    FeedError,
    SparkNeededError,
    TestMisuseError,
    UnknownStepError,
)
from holdfast_runtime.testing.records import ControlRecord, Record

__all__ = [
    "ALL_STEPS",
    "BatchResult",
    "ControlRecord",
    "Crashed",
    "FeedError",
    "Lab",
    "Record",
    "SparkNeededError",
    "TestDriver",
    "TestMisuseError",
    "UnknownStepError",
]
