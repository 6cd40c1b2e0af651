#!/bin/bash
# classes.sh ARCHIVE: the classes with which drivers and executors start, as Java has them in memory once it has read
# them. What is asked for here and not answered leaves its classes all the same. All three at once: two of them wait.
set -euo pipefail
archive=$1
here=$(dirname "$(readlink -f "$0")")
lists=$(mktemp -d)
cd "$lists"

# Batches, on this host.
SPARK_SUBMIT_OPTS=-XX:DumpLoadedClassList=$lists/run python "$here/warm_up.py" 'local[2]' >&2 &
batches=$!

# A cluster, until the API server should answer.
SPARK_SUBMIT_OPTS=-XX:DumpLoadedClassList=$lists/driver timeout 60 spark-submit --master k8s://https://127.0.0.1:1 \
  --conf spark.kubernetes.container.image=none --conf spark.kubernetes.driver.pod.name=none \
  --conf spark.kubernetes.allocation.pods.allocator=statefulset \
  "$here/warm_up.py" k8s://https://127.0.0.1:1 >&2 || true &

# An executor, until its driver should.
SPARK_SUBMIT_OPTS=-XX:DumpLoadedClassList=$lists/executor SPARK_EXECUTOR_MEMORY=256m SPARK_EXECUTOR_ID=1 \
  SPARK_DRIVER_URL=spark://CoarseGrainedScheduler@127.0.0.1:1 SPARK_EXECUTOR_CORES=1 SPARK_APPLICATION_ID=none \
  SPARK_EXECUTOR_POD_IP=127.0.0.1 SPARK_EXECUTOR_POD_NAME=none SPARK_RESOURCE_PROFILE_ID=0 \
  timeout 60 "$here/entrypoint" executor >&2 || true &

wait "$batches"
wait
awk '!seen[$0]++' run driver executor > all
wc -l run driver executor all >&2
java -Xshare:dump -XX:+UseG1GC -XX:SharedClassListFile=all -XX:SharedArchiveFile="$archive" -Xlog:cds=error \
  -cp "$SPARK_HOME/conf:$SPARK_HOME/jars/*" >&2
ls -l "$archive" >&2
