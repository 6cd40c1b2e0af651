"""The daemon that Spark forks its Python workers from; what it has imported, none of them imports again.

Takes the place of `pyspark.daemon` (`spark.python.daemon.module`) and becomes it. After each Spark task a worker
looks through all its objects for garbage; those of the imports are taken out of that, which saves 60 ms of CPU per
slot and batch. Before the workers it forks the one process that writes to Kafka for all of them. Must not open
anything: it would be shared by all workers.
"""

import gc
import runpy

import pandas as pd  # noqa: F401 - PySpark's, in each worker, for Arrow batches
import pyspark.worker  # noqa: F401

import holdfast_runtime.slot.worker_tools
import holdfast_runtime.streams.systems.app_streams  # noqa: F401
from holdfast_runtime.streams.kafka.write.agent import begin_agent

if __name__ == "__main__":
    begin_agent()
    gc.collect()
    gc.freeze()
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
