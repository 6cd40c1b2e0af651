"""The Spark session of an app and its Java: checked before anything starts, with output in a file, and ended with us.

Spark reports a missing Java late and at length. PySpark starts its JVM as a child in our process group with our
terminal. Here the JVM gets a session of its own, so that Ctrl-C on a terminal reaches only this process, which then
drains. Python workers and planning processes are children of the JVM, so it does not reach them either. However this
process ends, the JVM ends too: it reads the end of its standard input. PySpark translates only the first of a chain of
Java exceptions, while the last one often matters most: `java_causes` gives all. Must not know what runs in it.
"""

import logging
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from holdfast.errors import HoldfastError, RetrySoonError, UserActionError
from holdfast_runtime.spark.settings import SessionRequest, session_settings
from holdfast_runtime.spark.worker_python import worker_python

OLDEST = 17
"""The oldest Java that Spark 4.3 runs on."""
_DEADLINE = 30.0
_VERSION = re.compile(r'version "(?:1\.)?([0-9]+)')
"""Matches `17.0.15` and `21-ea`, and before Java 9 `1.8.0_402`."""


def require_java(environment: Mapping[str, str]) -> int:
    """Return the version of the Java that Spark will use; raise `JavaMissingError` if Spark can't run on it."""
    program = _program(environment)
    version = _version(program)
    if version < OLDEST:
        message = (
            f"{program} is Java {version}, Spark needs Java {OLDEST} or newer: install one, or set JAVA_HOME to it"
        )
        raise UserActionError(message, code="JavaMissingError")
    return version


def _program(environment: Mapping[str, str]) -> str:
    """Find Java as Spark's own scripts do."""
    if home := environment.get("JAVA_HOME"):
        program = Path(home) / "bin" / "java"
        if not program.is_file():
            message = f"JAVA_HOME is {home}, but there is no {program}; set it to a Java {OLDEST} or newer, or unset it"
            raise UserActionError(message, code="JavaMissingError")
        return str(program)
    java = shutil.which("java", path=environment.get("PATH", ""))
    if java is None:
        message = f"there is no java on PATH and JAVA_HOME is not set; Spark needs Java {OLDEST} or newer: install one"
        raise UserActionError(message, code="JavaMissingError")
    return java


def _version(program: str) -> int:
    try:
        ran = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=_DEADLINE, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        message = f"{program} can't be run ({error}); Spark needs Java {OLDEST} or newer"
        raise UserActionError(message, code="JavaMissingError") from error
    match = _VERSION.search(ran.stderr + ran.stdout)
    if match is None:
        output = (ran.stderr or ran.stdout).strip() or "nothing"
        message = f"{program} -version does not say which Java it is (it says: {output}); Spark needs {OLDEST} or newer"
        raise UserActionError(message, code="JavaMissingError")
    return int(match[1])


def java_causes(error: BaseException) -> Iterator[Any]:
    """Yield the Java exception behind a Python one, and its causes; nothing if there is none."""
    cause: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while cause is not None:
        yield cause
        cause = cause.getCause()


class HostTooBusyError(RetrySoonError):
    """A Python process took longer to start than Spark waits."""


_NOT_IN_TIME = "Python worker failed to connect back"
"""Part of Spark's message; Spark has no error condition for this."""


def too_busy(error: Exception) -> HostTooBusyError | None:
    """Return the error to raise if Spark gave up on a Python process that had not started; else None."""
    if not any(_NOT_IN_TIME in text for text in (str(error), *(str(cause.toString()) for cause in java_causes(error)))):
        return None
    return HostTooBusyError("a Python process took longer to start than the ten seconds that Spark waits")


@contextmanager
def started_in_time() -> Iterator[None]:
    """Raise `HostTooBusyError` if Spark gives up on a Python process in this block, whatever it calls that."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        if (busy := too_busy(error)) is not None:
            raise busy from error
        raise


_SHOWN_LINES = 10
_HINDRANCES = ("io.fabric8.kubernetes.client.", "java.io.", "java.net.", "java.util.concurrent.TimeoutException")
"""Java exceptions for failures of an API server or network; others come from settings."""
_MOMENT = 2.0
"""Seconds to wait for the JVM's end after its connections have closed."""


def spark_log(data: Path) -> Path:
    """Return the file for Spark's output; the output of the start before is kept beside it."""
    return data / "spark.log"


def open_session(request: SessionRequest, data: Path | None) -> SparkSession:
    """Return a session for one app. Without `data`, Spark prints where this process prints.

    A JVM that this process already has is used again; it keeps its heap size and output.
    """
    settings = SparkConf(loadDefaults=False).setAll(list(session_settings(request).items()))
    try:
        with _environment(request), _interrupts_stay_ours():
            context = SparkContext(conf=settings, gateway=_jvm(settings, data))
    except (PySparkRuntimeError, Py4JError) as error:
        raise _not_started(error, data) from error
    # The run reports such an error with its step; PySpark would print it earlier, with Java's whole stack in one line.
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    if context.version != pyspark.__version__:
        context.stop()
        message = (
            f"SPARK_HOME ({os.environ.get('SPARK_HOME')}) holds Spark {context.version}, "
            f"but PySpark is {pyspark.__version__}: unset SPARK_HOME, or install the same version"
        )
        raise UserActionError(message, code="SparkNotStartedError")
    return SparkSession.builder.getOrCreate()


@contextmanager
def stopped_after(spark: SparkSession, data: Path | None) -> Iterator[None]:
    """Stop the session after the block; raise `SparkDiedError` if its JVM ended first, whatever error that led to."""
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
        raise RetrySoonError(message + _end_of_log(data), code="SparkDiedError") from error


def check_jvm() -> None:
    """Raise `Py4JError` if Spark's JVM has ended, which nobody notices who asks nothing of it; see `stopped_after`."""
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - PySpark has no way to ask
    if gateway.proc.poll() is not None:
        message = "Spark's JVM has ended"
        raise Py4JError(message)


def _exit_code() -> int | None:
    """Return the JVM's exit code; None if it is alive."""
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - PySpark has no way to ask
    try:
        return int(gateway.proc.wait(_MOMENT))
    except subprocess.TimeoutExpired:
        return None


def _jvm(settings: SparkConf, data: Path | None) -> Any:
    """Start a JVM in a session without terminal that prints to a file; return None if this process already has one."""
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
def _environment(request: SessionRequest) -> Iterator[None]:
    """Set environment variables that PySpark and the JVM read while they start, only for the block."""
    ours = worker_python(local=request.local)
    if request.local:
        # Otherwise Spark's UI and ports would be open to the network, and its start would look up the host's name.
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
    """Undo PySpark's signal handler in a main thread, which cancels all jobs on Ctrl-C."""
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
    causes = [str(cause.toString()) for cause in java_causes(error)]
    reason = (causes[-1] if causes else str(error)).strip().splitlines()[0]
    if causes and not any(cause.startswith(_HINDRANCES) for cause in causes):
        return UserActionError(f"Spark did not start: {reason}{_end_of_log(data)}", code="SparkNotStartedError")
    # Without an exception of Java's, the JVM is gone: somebody may have killed it, and then the next start goes well.
    cure = "" if causes else " If it ends like this each time, its last output says why: see spec.runtime.sparkConf"
    return RetrySoonError(f"Spark did not start: {reason}{cure}{_end_of_log(data)}", code="SparkHinderedError")


def _end_of_log(data: Path | None) -> str:
    log = None if data is None else spark_log(data)
    if log is None or not log.exists():
        return ""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_SHOWN_LINES:]
    return f"\nThe end of {log}:\n" + "\n".join(f"  {line}" for line in lines)
