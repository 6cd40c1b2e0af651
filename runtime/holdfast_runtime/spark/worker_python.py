"""Which Python Spark runs its workers and planning processes in: the one that Holdfast runs in, with its own PySpark.

Spark puts a zip of PySpark before everything else on their path. Out of a zip Python compiles each module again in each
process: a second and more of CPU for each of the five that a start needs, while Spark waits ten seconds for one. The
script beside this file leaves the zip out, and with it the same PySpark is found where it is installed, compiled.
"""

import os
import sys
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkContext

_SCRIPT = Path(__file__).with_suffix(".sh")


def worker_python(*, local: bool) -> dict[str, str]:
    """Return the environment variables that name it, for a JVM too; `local`: workers run on this host."""
    installed = Path(pyspark.__file__).is_file()
    if local and installed and os.access(_SCRIPT, os.X_OK) and _jvm_knows():
        return {"PYSPARK_PYTHON": str(_SCRIPT), "HOLDFAST_PYTHON": sys.executable}
    return {"PYSPARK_PYTHON": sys.executable}


def _jvm_knows() -> bool:
    """Return whether the script finds its Python; a JVM that somebody else has started may not have it to hand on."""
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - PySpark has no way to ask
    return gateway is None or gateway.jvm.System.getenv("HOLDFAST_PYTHON") == sys.executable
