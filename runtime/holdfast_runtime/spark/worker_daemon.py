"""The daemon from which Spark forks its Python workers; they need not import again what it has imported.

It replaces `pyspark.daemon` (`spark.python.daemon.module`) and then runs it. After each Spark task a worker collects
garbage; imported objects are excluded from that, which saves 60 ms of CPU per slot and batch. Before any worker, it
forks the one process that writes to Kafka for all of them. Must not open anything: all workers would share it.
"""

import gc
import runpy

import pandas as pd  # noqa: F401 - PySpark's, in each worker, for Arrow batches
import pyspark.worker  # noqa: F401

import holdfast_runtime.slot.worker_tools
import holdfast_runtime.streams.systems  # noqa: F401
from holdfast_runtime.spark.worker_end import close_before_end
from holdfast_runtime.streams.kafka.write.agent import begin_agent

if __name__ == "__main__":
    begin_agent()
    close_before_end()
    gc.collect()
    gc.freeze()
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
