"""The Spark session of an app: what it prints goes to a file, Ctrl-C comes to us, and it ends with us.

PySpark starts its JVM as a child in our process group with our terminal. Here it gets a session of its own, so that
Ctrl-C on a terminal reaches this process alone, which then drains; Python workers and planning processes are children
of the JVM and stay out as well. The JVM ends when this process does, in whatever way: it reads the end of its
standard input. Must not know what runs in it.
"""

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from holdfast.errors import HoldfastError, RetrySoonError, UserActionError
from holdfast_runtime.spark.java import java_causes
from holdfast_runtime.spark.settings import SessionRequest, session_settings

_SHOWN_LINES = 10
_HINDRANCES = ("io.fabric8.kubernetes.client.", "java.io.", "java.net.", "java.util.concurrent.TimeoutException")
"""Java's exceptions for what an API server or a network refuses; others come of settings."""
_MOMENT = 2.0
"""From the end of the JVM's connections to its own."""


class SparkNotStartedError(UserActionError):
    """Spark's JVM, or the application in it, did not come up."""


class SparkHinderedError(RetrySoonError):
    """What Spark needs of the cluster to start it did not get, this time."""


class SparkDiedError(RetrySoonError):
    """Spark's JVM ended in the middle of a run."""


def spark_log(data: Path) -> Path:
    """Where all that Spark prints is kept; what the start before this one printed stands beside it."""
    return data / "spark.log"


def open_session(  # noqa: PLR0913 - each is a different thing
    app_name: str,
    master: str,
    data: Path | None,
    *,
    ui: bool,
    conf: Mapping[str, str],
    code: Sequence[Path] = (),
    memory: str = "1g",
    given: Mapping[str, str] | None = None,
    rows_in_spark: bool = True,
) -> SparkSession:
    """A session for one app, with so much Java heap. Without `data`, Spark prints where we print.

    `conf` is the user's and is checked; `given` comes with the place where the app runs, and counts over it.
    `rows_in_spark`: whether rows pass through Spark SQL.

    A JVM that this process has already is used again, and keeps its heap and where it prints.
    """
    wanted = SessionRequest(app_name, master, ui, conf, code, memory, given or {}, rows_in_spark)
    settings = SparkConf(loadDefaults=False).setAll(list(session_settings(wanted).items()))
    try:
        with _environment(wanted), _interrupts_stay_ours():
            context = SparkContext(conf=settings, gateway=_jvm(settings, data))
    except (PySparkRuntimeError, Py4JError) as error:
        raise _not_started(error, data) from error
    # Told with its step as the run ends; PySpark would print it before, with all of Java's stack in one line.
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    if context.version != pyspark.__version__:
        context.stop()
        message = (
            f"SPARK_HOME ({os.environ.get('SPARK_HOME')}) holds Spark {context.version}, "
            f"but PySpark is {pyspark.__version__}: unset SPARK_HOME, or install the same version"
        )
        raise SparkNotStartedError(message)
    return SparkSession.builder.getOrCreate()


@contextmanager
def stopped_after(spark: SparkSession, data: Path | None) -> Iterator[None]:
    """Stop the session in the end; raises `SparkDiedError` where its JVM has gone first, whatever that has led to."""
    try:
        try:
            yield
        finally:
            spark.stop()
    except (Py4JError, OSError) as error:
        if (code := _exit_code()) is None:
            raise
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        message = (
            f"Spark's JVM has ended {how}, in the middle of the run. Nothing is lost, the next run repeats the batch. "
            "Signal 9 is how a container or host short of memory ends it: then raise spec.runtime.driver.memory"
        )
        raise SparkDiedError(message + _end_of_log(data)) from error


def _exit_code() -> int | None:
    """Of the JVM; None: it lives."""
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - PySpark has no way to ask
    try:
        return int(gateway.proc.wait(_MOMENT))
    except subprocess.TimeoutExpired:
        return None


def _jvm(settings: SparkConf, data: Path | None) -> Any:
    """A JVM in a session without terminal, printing into a file; None if this process has one."""
    if SparkContext._gateway is not None:  # noqa: SLF001 - PySpark has no way to ask
        return None
    launch: Any = launch_gateway
    if data is None:
        return launch(settings, {"start_new_session": True})
    data.mkdir(parents=True, exist_ok=True)
    log = spark_log(data)
    if log.exists():
        log.replace(log.with_suffix(".log.1"))
    with log.open("ab") as file:
        return launch(settings, {"start_new_session": True, "stdout": file, "stderr": subprocess.STDOUT})


@contextmanager
def _environment(wanted: SessionRequest) -> Iterator[None]:
    """What PySpark and the JVM read from the environment while they start, and only then."""
    ours = {"PYSPARK_PYTHON": sys.executable}
    if wanted.local:
        # Spark's pages and ports would be open to the network, and its start would ask for the host's name.
        ours["SPARK_LOCAL_IP"] = "127.0.0.1"
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _interrupts_stay_ours() -> Iterator[None]:
    """Undo what PySpark does in a main thread: it answers Ctrl-C by cancelling all jobs."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None:  # None: not set from Python, so it can't be set again either
            signal.signal(signal.SIGINT, before)


def _not_started(error: Exception, data: Path | None) -> HoldfastError:
    said, hindered = str(error), False
    for cause in java_causes(error):
        said = str(cause.toString())
        hindered = hindered or said.startswith(_HINDRANCES)
    message = f"Spark did not start: {said.strip().splitlines()[0]}{_end_of_log(data)}"
    return SparkHinderedError(message) if hindered else SparkNotStartedError(message)


def _end_of_log(data: Path | None) -> str:
    log = None if data is None else spark_log(data)
    if log is None or not log.exists():
        return ""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_SHOWN_LINES:]
    return f"\nThe end of {log}:\n" + "\n".join(f"  {line}" for line in lines)
