"""The one jar that stands for all of Spark's."""

import zipfile
from pathlib import Path

from images.runtime.one_class_path import manifest, move_jars


def unfolded(text: str) -> dict[str, str]:
    """As Java reads it."""
    parts = [line.partition(": ") for line in text.replace("\r\n ", "").split("\r\n") if line]
    return {name: value for name, _, value in parts}


def test_no_line_of_the_manifest_is_longer_than_java_takes() -> None:
    text = manifest([f"a-jar-with-a-name-{number}.jar" for number in range(300)])
    assert max(len(line.encode()) for line in text.split("\r\n")) <= 72
    assert unfolded(text)["Class-Path"].split() == [f"all/a-jar-with-a-name-{number}.jar" for number in range(300)]


def test_the_order_is_that_of_names_on_any_file_system(tmp_path: Path) -> None:
    for name in ("z.jar", "slf4j-api-2.jar", "a.jar"):
        (tmp_path / name).write_bytes(b"")
    move_jars(tmp_path)
    assert [one.name for one in tmp_path.glob("*.jar")] == ["spark.jar"]
    with zipfile.ZipFile(tmp_path / "spark.jar") as jar:
        class_path = unfolded(jar.read("META-INF/MANIFEST.MF").decode())["Class-Path"].split()
    assert class_path == ["all/slf4j-api-2.jar", "all/a.jar", "all/z.jar"]
    assert all((tmp_path / name).exists() for name in class_path)


def test_the_same_jars_make_the_same_file(tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        directory = tmp_path / name
        directory.mkdir()
        (directory / "a.jar").write_bytes(b"")
        move_jars(directory)
        made.append((directory / "spark.jar").read_bytes())
    assert made[0] == made[1]
