"""Java for Spark: checks the installed version before anything starts, and walks the chain of causes behind an error.

Spark reports a missing Java late and at length, and PySpark translates only the first of a chain of exceptions, while
the last one often matters most. Must not start Spark, nor need it; must not judge errors.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from holdfast.errors import UserActionError

OLDEST = 17
"""The oldest Java that Spark 4.3 runs on."""
_DEADLINE = 30.0
_VERSION = re.compile(r'version "(?:1\.)?([0-9]+)')
"""Matches `17.0.15` and `21-ea`, and before Java 9 `1.8.0_402`."""


class JavaMissingError(UserActionError):
    """There is no Java on which Spark can run."""


def require_java(environment: Mapping[str, str]) -> int:
    """Return the version of the Java that Spark will use; raise `JavaMissingError` if Spark can't run on it."""
    program = _program(environment)
    version = _version(program)
    if version < OLDEST:
        message = (
            f"{program} is Java {version}, Spark needs Java {OLDEST} or newer: install one, or set JAVA_HOME to it"
        )
        raise JavaMissingError(message)
    return version


def _program(environment: Mapping[str, str]) -> str:
    """Find Java as Spark's own scripts do."""
    if home := environment.get("JAVA_HOME"):
        program = Path(home) / "bin" / "java"
        if not program.is_file():
            message = f"JAVA_HOME is {home}, but there is no {program}; set it to a Java {OLDEST} or newer, or unset it"
            raise JavaMissingError(message)
        return str(program)
    found = shutil.which("java", path=environment.get("PATH", ""))
    if found is None:
        message = f"there is no java on PATH and JAVA_HOME is not set; Spark needs Java {OLDEST} or newer: install one"
        raise JavaMissingError(message)
    return found


def _version(program: str) -> int:
    try:
        ran = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=_DEADLINE, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        message = f"{program} can't be run ({error}); Spark needs Java {OLDEST} or newer"
        raise JavaMissingError(message) from error
    found = _VERSION.search(ran.stderr + ran.stdout)
    if found is None:
        said = (ran.stderr or ran.stdout).strip() or "nothing"
        message = f"{program} -version does not say which Java it is (it says: {said}); Spark needs {OLDEST} or newer"
        raise JavaMissingError(message)
    return int(found[1])


def java_causes(error: BaseException) -> Iterator[Any]:
    """Yield the Java exception behind a Python one, and its causes; nothing if there is none."""
    cause: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while cause is not None:
        yield cause
        cause = cause.getCause()
