"""The wheel carries the texts that the core reads, and the loops where there is a compiler, but is made without one."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.waiting import patience

ROOT = Path(__file__).parents[2]
TEXTS = {"holdfast/reasons.md", "holdfast/planning/sql/spark_functions.txt"}
LOOPS = {
    "holdfast_runtime/streams/kafka/client/gather.so",
    "holdfast_runtime/columns/row_loops.so",
    "holdfast_runtime/streams/codecs/avro/avro_records.so",
    "holdfast_runtime/streams/codecs/avro/avro_values.so",
    "holdfast_runtime/streams/codecs/protobuf/protobuf_records.so",
    "holdfast_runtime/streams/codecs/protobuf/protobuf_values.so",
    "holdfast_runtime/streams/codecs/csv/csv_lines.so",
    "holdfast_runtime/streams/codecs/csv/csv_records.so",
    "holdfast_runtime/streams/codecs/json_objects.so",
    "holdfast_runtime/streams/codecs/json_records.so",
}


def built(folder: Path, compiler: str) -> tuple[str, list[str], str]:
    """A wheel's name, its files, and what was said."""
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        env={**os.environ, "CC": compiler},
        capture_output=True,
        text=True,
        timeout=patience(120),
        check=True,
    )
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return wheel.name, archive.namelist(), done.stdout + done.stderr


def test_with_a_compiler_the_wheel_is_of_this_platform(tmp_path: Path) -> None:
    name, files, _ = built(tmp_path, os.environ.get("CC", "cc"))
    assert "-py3-none-linux_" in name
    assert set(files) >= LOOPS | TEXTS


@pytest.mark.parametrize("compiler", ["no-such-compiler", "false"])
def test_without_one_it_lacks_the_loops_and_says_so(tmp_path: Path, compiler: str) -> None:
    name, files, output = built(tmp_path, compiler)
    assert name.endswith("-py3-none-any.whl")
    assert not set(files) & LOOPS
    sources = {loops.replace(".so", ".c") for loops in LOOPS}
    assert set(files) >= sources
    for source in sources:
        (warning,) = (line for line in output.splitlines() if source in line)
        assert compiler in warning
