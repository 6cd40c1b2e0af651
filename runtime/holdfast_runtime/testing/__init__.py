"""TestDriver, with which users test their apps batch by batch in one process, without a cluster or a JVM.

It runs the real engine: plan, offsets, slots, state and commit are those of `holdfast run`. `TestDriver` only replaces
Spark, which otherwise asks for batches and starts slots. Code that runs apps must not import this package.
"""

from holdfast_runtime.testing.batches import BatchResult
from holdfast_runtime.testing.driver import Lab, TestDriver
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
