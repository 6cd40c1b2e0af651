"""A session of Spark as Holdfast opens it, in a process of its own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.engine import session_probe
from tests.waiting import patience

DEADLINE = patience(240)


def probed(data: Path, code: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-W", "error", session_probe.__file__, str(data), str(code)],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
        env={name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
        | {"SPARK_SUBMIT_OPTS": os.environ["SPARK_SUBMIT_OPTS"]}
        | environment,
        cwd=data.parent,
    )


def test_a_session_is_ours_and_prints_nothing(tmp_path: Path) -> None:
    data, code = tmp_path / "data", tmp_path / "code"
    (data).mkdir()
    (data / "spark.log").write_text("of the start before\n", encoding="utf-8")
    ran = probed(data, code)
    assert (ran.returncode, ran.stderr) == (0, "")
    report = json.loads(ran.stdout)
    assert report.pop("ui").startswith("http://127.0.0.1:")
    assert report == {
        "time_zone": "UTC",
        "adaptive": "false",
        "python": sys.executable,
        "compiled_modules": True,
        "code_on_path": True,
        "worker_in_our_group": False,
        "jvm_in_our_session": False,
        "interrupts_are_ours": True,
        "environment_is_as_before": True,
        "second": ["second", None, sys.executable],
    }
    log = (data / "spark.log").read_text(encoding="utf-8")
    assert "a step says hello" in log
    assert "native-hadoop" not in log
    assert (data / "spark.log.1").read_text(encoding="utf-8") == "of the start before\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


def test_a_spark_that_does_not_start_says_what_it_printed(tmp_path: Path) -> None:
    ran = probed(tmp_path / "data", tmp_path, JAVA_HOME="/nowhere")
    assert ran.returncode == 1
    assert "Spark did not start" in ran.stderr
    assert "/nowhere/bin/java" in ran.stderr


def test_a_jvm_killed_in_its_start_is_started_again(tmp_path: Path) -> None:
    # As the launcher's JVM and Spark's own one end then: the first without a word, the second by the signal.
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    real = shutil.which("java")
    for script in ("kill -9 $$", f'case "$*" in *launcher.Main*) exec {real} "$@";; esac; kill -9 $$'):
        java.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        java.chmod(0o755)
        ran = probed(tmp_path / "data", tmp_path, JAVA_HOME=str(java.parent.parent))
        assert ran.returncode == 1
        assert "RetrySoonError: Spark did not start" in ran.stderr
