"""The Python of workers on this host: the one that tests run in, with PySpark as it is installed."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from pyspark import SparkContext

from holdfast_runtime.spark.worker_python import worker_python

_SPARK = "/spark/python/lib/pyspark.zip:/spark/python/lib/py4j-0.10.9.9-src.zip:/spark/jars/spark-core_2.13-4.3.0.jar"
_ASKED = "import os; print(os.environ['PYTHONPATH'], end='')"


@pytest.fixture(autouse=True)
def no_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", None)  # other tests of this process may have started one


@pytest.mark.parametrize("users_path", ["", "/code", "/my code:/lib/functions.zip", "/a*"])
def test_only_sparks_part_before_the_users_path_is_left_out(users_path: str) -> None:
    path = f"{_SPARK}:{users_path}" if users_path else _SPARK
    ours = worker_python(local=True)
    environment = {**os.environ, **ours, "PYTHONPATH": path}
    ran = subprocess.run([ours["PYSPARK_PYTHON"], "-c", _ASKED], env=environment, capture_output=True, check=True)
    assert ran.stdout.decode() == users_path


def test_workers_on_other_hosts_run_the_same_path_there() -> None:
    assert worker_python(local=False) == {"PYSPARK_PYTHON": sys.executable}


@pytest.mark.parametrize("handed_on", [None, "/usr/bin/python3", sys.executable])
def test_a_jvm_without_it_gets_no_script_lacking_python(handed_on: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    system = SimpleNamespace(getenv={"HOLDFAST_PYTHON": handed_on}.get)
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(jvm=SimpleNamespace(System=system)))
    ours = worker_python(local=True)
    assert ("HOLDFAST_PYTHON" in ours) == (handed_on == sys.executable)
    assert "HOLDFAST_PYTHON" in ours or ours["PYSPARK_PYTHON"] == sys.executable
