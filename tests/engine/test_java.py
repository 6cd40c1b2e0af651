"""The Java that Spark will use, as far as it can be said before Spark starts."""

from pathlib import Path

import pytest

from holdfast.errors import UserActionError
from holdfast_runtime.spark.session import require_java
from tests.error_codes import has_code


def java(home: Path, version_text: str) -> str:
    """A program that says which Java it is."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{version_text}' >&2\n", encoding="utf-8")
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize(
    ("version_text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21-ea" 2023-09-19', 21),
        ('openjdk version "25" 2025-09-16', 25),
    ],
)
def test_a_java_that_is_new_enough(tmp_path: Path, version_text: str, version: int) -> None:
    java(tmp_path, version_text)
    assert require_java({"JAVA_HOME": str(tmp_path)}) == version
    assert require_java({"PATH": str(tmp_path / "bin")}) == version


@pytest.mark.parametrize("version_text", ['java version "1.8.0_402"', 'openjdk version "11.0.22" 2024-01-16'])
def test_an_old_java_is_named_with_what_is_needed(tmp_path: Path, version_text: str) -> None:
    program = java(tmp_path, version_text)
    with pytest.raises(
        UserActionError,
        match=rf"{program} is Java (8|11), Spark needs Java 17 or newer",
        check=has_code("JavaMissingError"),
    ):
        require_java({"JAVA_HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, "no java on PATH and JAVA_HOME is not set"),
        ({"PATH": "/nowhere", "JAVA_HOME": ""}, "no java on PATH and JAVA_HOME is not set"),
        ({"JAVA_HOME": "/nowhere"}, "JAVA_HOME is /nowhere, but there is no /nowhere/bin/java"),
    ],
)
def test_a_java_that_is_not_there(environment: dict[str, str], message: str) -> None:
    with pytest.raises(UserActionError, match=message, check=has_code("JavaMissingError")):
        require_java(environment)


def test_a_program_that_is_no_java(tmp_path: Path) -> None:
    program = java(tmp_path, "hello")
    with pytest.raises(
        UserActionError, match=r"does not say which Java it is \(it says: hello", check=has_code("JavaMissingError")
    ):
        require_java({"JAVA_HOME": str(tmp_path)})
    Path(program).chmod(0o644)
    with pytest.raises(UserActionError, match="can't be run", check=has_code("JavaMissingError")):
        require_java({"JAVA_HOME": str(tmp_path)})
