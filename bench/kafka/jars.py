"""The jars that peers need from Maven Central, made once and kept under ~/.cache/holdfast, keyed by its pom.

Must not know what the jars are for.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.cached import cache

HERE = Path(__file__).parent


def jars(pom: str, folder: Path = HERE) -> str:
    """The jars of a pom in this folder, with commas between."""
    mvn = shutil.which("mvn")
    if mvn is None:
        sys.exit("peers are taken from Maven Central: install Maven")
    path = folder / f"{pom}.xml"
    version = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    jar_folder = cache() / f"{pom}-{version}"
    if not jar_folder.is_dir():
        draft = jar_folder.with_suffix(f".{os.getpid()}")
        copy = [mvn, "-B", "-q", "-f", str(path), "dependency:copy-dependencies", "-DincludeScope=runtime"]
        subprocess.run([*copy, f"-DoutputDirectory={draft}"], check=True, timeout=600)  # noqa: S603 - Maven
        draft.rename(jar_folder)
    return ",".join(str(jar) for jar in sorted(jar_folder.glob("*.jar")))
