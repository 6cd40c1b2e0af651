"""One class path for Java's archive of classes, which counts only for the very path it was made with.

`one_class_path.py JARS` leaves one jar in the directory, which names all the others, now in `JARS/all`. What users
add to the directory is found as ever; the archive is then passed over.
"""

import sys
import zipfile
from pathlib import Path

_WIDTH = 70
_FIRST = "slf4j-api-"
"""As Spark's launcher has it."""


def manifest(names: list[str]) -> str:
    """A jar's manifest that puts these on the class path."""
    line = "Class-Path: " + " ".join(f"all/{name}" for name in names)
    folded = [line[:_WIDTH], *(" " + line[at : at + _WIDTH - 1] for at in range(_WIDTH, len(line), _WIDTH - 1))]
    return "\r\n".join(["Manifest-Version: 1.0", *folded, "", ""])


def move_jars(directory: Path) -> None:
    """Move the jars, and write the one."""
    names = sorted((jar.name for jar in directory.glob("*.jar")), key=lambda name: (not name.startswith(_FIRST), name))
    (directory / "all").mkdir()
    for name in names:
        (directory / name).rename(directory / "all" / name)
    with zipfile.ZipFile(directory / "spark.jar", "w") as jar:
        jar.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF"), manifest(names))


if __name__ == "__main__":
    move_jars(Path(sys.argv[1]))
