"""A class data archive for the JVMs in which tests run Spark: what each would parse and verify at its start is mapped.

With it, and with one compiler in place of two, a start takes a third of the CPU; a test's JVM lives too short for the
second. It fits only the jars at their paths, so it is kept in the environment, and made once for it. A JVM that it does
not fit passes over it without a word. Must not be used where speed is measured.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from tests.cached import locked

_WARM_UP = Path(__file__).parents[1] / "images" / "runtime" / "warm_up.py"
_LIMIT = 300.0
_SILENT = "-Xlog:cds=off -Xlog:class+path=off"


def fast_start() -> str:
    """Return the options of such JVMs, none where there is no Java; in a new environment it takes half a minute."""
    home = os.environ.get("JAVA_HOME")
    java = Path(f"{home}/bin/java" if home else shutil.which("java") or "java").resolve()
    if not java.exists():
        return ""
    key = hashlib.sha256(f"{java} {java.stat().st_mtime_ns} {version('pyspark')}".encode()).hexdigest()[:12]
    archive = Path(sys.prefix) / f"spark-{key}.jsa"
    with locked(archive.with_suffix(".lock")):
        if not archive.exists():
            partial = archive.with_suffix(".partial")
            options = f"-XX:ArchiveClassesAtExit={partial} {_SILENT}"
            subprocess.run(
                [sys.executable, _WARM_UP, "local[2]"],
                env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_SUBMIT_OPTS": options},
                capture_output=True,
                check=True,
                timeout=_LIMIT,
            )
            partial.rename(archive)
    options = f"-XX:SharedArchiveFile={archive} {_SILENT} -XX:TieredStopAtLevel=1"
    return f'{options} -Dspark.executorEnv.JDK_JAVA_OPTIONS="{options}"'  # executors of their own read no others


if __name__ == "__main__":
    fast_start()
