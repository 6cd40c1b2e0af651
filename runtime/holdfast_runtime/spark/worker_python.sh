#!/bin/sh
# The Python of Spark's workers and planning processes, without Spark's zips of PySpark: see worker_python.py.
set -f
IFS=:
kept=
for entry in ${PYTHONPATH:-}; do
  case $entry in
    */pyspark.zip | */py4j-*-src.zip | */spark-core_*.jar) ;;
    *) kept=$kept${kept:+:}$entry ;;
  esac
done
export PYTHONPATH="$kept"
exec "$HOLDFAST_PYTHON" "$@"
