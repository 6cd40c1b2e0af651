"""`holdfast run` up to the engine and behind it: what is refused before Spark starts, and how a run ends."""

import json
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from holdfast.errors import UserActionError
from holdfast_cli.run import run_command
from holdfast_cli.run.watcher import Engine, RunDisplay, run_watched
from holdfast_runtime.progress import EndCause, Listener, RunEnded
from tests.cli.conftest import RUNNABLE, Holdfast
from tests.cli.run_events import ENDED, FILES, FIRST, STARTED
from tests.waiting import patience

TEXT = RunDisplay(as_json=False, color="never", metrics=None, files=FILES)
JSON = RunDisplay(as_json=True, color="never", metrics=None, files=FILES)


class NoWayError(UserActionError):
    """Some failure on purpose."""


def engine(*, drains: bool = False, fails: Exception | None = None) -> Engine:
    """Runs one batch; then fails, waits to be drained, or is idle."""

    def run(listen: Listener, drain: threading.Event) -> RunEnded:
        listen(STARTED)
        listen(FIRST)
        if fails is not None:
            raise fails
        if drains:
            assert drain.wait(patience(10))
            listen(RunEnded(EndCause.DRAINED, 1, 12_000, 900, 1.0))
            return RunEnded(EndCause.DRAINED, 1, 12_000, 900, 1.0)
        return ENDED

    return run


def test_a_run_that_ended_well_exits_0_with_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_watched(engine(), TEXT) == 0
    out = capsys.readouterr().out
    assert out.startswith("ad-clicks run 1 attempt 3")
    assert "idle: nothing is left to read; everything is committed" in out


@pytest.mark.parametrize("show", [TEXT, JSON])
def test_a_foreseen_failure_exits_3_and_says_why(show: RunDisplay, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_watched(engine(fails=NoWayError("there is no way")), show) == 3
    out, err = capsys.readouterr()
    assert err == "holdfast: there is no way\n"
    assert ('"event": "failed", "error": "NoWayError"' in out) == show.as_json


def test_a_failure_nobody_foresaw_exits_3_with_its_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_watched(engine(fails=ZeroDivisionError("oh")), TEXT) == 3
    assert "Traceback" in (err := capsys.readouterr().err)
    assert err.endswith("ZeroDivisionError: oh\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_drains_and_is_said_once(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(number)
    alarm = threading.Timer(0.3, os.kill, (os.getpid(), number))
    alarm.start()
    assert run_watched(engine(drains=True), JSON) == 0
    alarm.join()
    events = [json.loads(line)["event"] for line in capsys.readouterr().out.splitlines()]
    assert events == ["started", "progress", "draining", "ended"]
    assert signal.getsignal(number) is before


def test_a_run_whose_output_nobody_reads_drains(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as file:
        monkeypatch.setattr(sys, "stdout", file)
        assert run_watched(engine(drains=True), JSON) == 0
        assert sys.stdout is None
        # What was not written stays in the file and would fail again when it is closed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), file.fileno())


def test_metrics_are_served_while_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    show = RunDisplay(as_json=True, color="never", metrics="0", files=FILES)
    assert run_watched(engine(), show) == 0
    assert "metrics: http://127.0.0.1:" in capsys.readouterr().err


def test_a_rejected_plan_is_shown_and_starts_nothing(holdfast: Holdfast) -> None:
    broken = Path("app.yaml").read_text(encoding="utf-8").replace("partitions: 16", "partitions: 8", 1)
    Path("app.yaml").write_text(broken, encoding="utf-8")
    ran = holdfast("run", "app.yaml")
    assert (ran.code, ran.out) == (1, holdfast("plan", "app.yaml").out)
    assert "PartitionCountMismatch" in ran.out
    failed = json.loads(holdfast("run", "app.yaml", "-o", "json").out)
    assert (failed["event"], failed["error"]) == ("failed", "PlanRejected")
    assert [problem["reason"] for problem in failed["problems"]] == ["PartitionCountMismatch"]


def test_an_invalid_spec_is_shown_with_its_places(holdfast: Holdfast) -> None:
    Path("app.yaml").write_text("kind: StreamApp\n", encoding="utf-8")
    ran = holdfast("run", "app.yaml", "-o", "json")
    assert ran.code == 1
    assert "app.yaml:1:1: spec: is required" in ran.err
    assert json.loads(ran.out)["problems"][0]["reason"] == "InvalidSpec"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--for", "soon"), "must be a duration longer than nothing"),
        (("--for", "0s"), "must be a duration longer than nothing"),
        (("--batches", "0"), "must be at least 1"),
        (("--master", "yarn"), "must be local[N] with N from 1 to 9999, or local[*]"),
    ],
)
def test_a_wrong_command_line_exits_2(holdfast: Holdfast, arguments: tuple[str, ...], message: str) -> None:
    ran = holdfast("run", "app.yaml", *arguments)
    assert ran.code == 2
    assert message in ran.err


def test_a_spark_setting_that_breaks_the_engine_starts_nothing(holdfast: Holdfast) -> None:
    refusing = RUNNABLE + '    sparkConf: {spark.speculation: "true"}\n'
    Path("app.yaml").write_text(refusing, encoding="utf-8")
    ran = holdfast("run", "app.yaml", "-o", "json")
    assert ran.code == 1
    assert "spark.speculation: a second copy of a slot" in ran.err
    assert json.loads(ran.out)["error"] == "SparkSettingRefusedError"


def test_standard_input_is_not_watched(holdfast: Holdfast) -> None:
    ran = holdfast("run", "-", "--watch")
    assert ran.code == 2
    assert ran.err == "holdfast: --watch needs a file: standard input is read once\n"


def test_without_java_nothing_starts(holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    Path("app.yaml").write_text(RUNNABLE, encoding="utf-8")
    ran = holdfast("run", "app.yaml", "--master", "local[1]")
    assert ran.code == 2
    assert ran.err.endswith("set it to a Java 17 or newer, or unset it\n")
    assert not Path(".holdfast").exists()


def test_without_the_extra_one_sentence_says_how_to_get_it(holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_command, "_NEEDED", ("json", "no_such_module"))
    Path("app.yaml").write_text(RUNNABLE, encoding="utf-8")
    ran = holdfast("run", "app.yaml")
    assert ran.code == 2
    assert ran.err.endswith(
        "holdfast: holdfast run needs no_such_module: in a checkout of Holdfast, pip install '.[runtime]'\n"
    )
