"""One class path for Java's archive of classes, which counts only for the very path it was made with.

`one_class_path.py JARS` leaves one jar in the folder, which names all the others, now in `JARS/all`. What users add to
the folder is found as ever; the archive is then passed over.
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


def arrange(folder: Path) -> None:
    """Move the jars, and write the one."""
    names = sorted((jar.name for jar in folder.glob("*.jar")), key=lambda name: (not name.startswith(_FIRST), name))
    (folder / "all").mkdir()
    for name in names:
        (folder / name).rename(folder / "all" / name)
    with zipfile.ZipFile(folder / "spark.jar", "w") as jar:
        jar.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF"), manifest(names))


if __name__ == "__main__":
    arrange(Path(sys.argv[1]))
