"""What commands show on terminals of 80 and 200 columns: no line is wider, unless people copy it as a whole.

The app has the longest names there may be, and something to say to each command.
"""

import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from holdfast.errors import PlanningFailedError
from holdfast.reasons import Reason
from holdfast.tasks.partitions import StreamPartition
from holdfast_cli.cluster.app import AppDetail, AppList, read_app, read_apps
from holdfast_cli.cluster.status_view import print_app, print_apps
from holdfast_cli.main import command_parser, main
from holdfast_cli.output.live import LiveView
from holdfast_cli.output.screen import console_for
from holdfast_cli.run.totals import RunTotals
from holdfast_cli.run.views import TextView, print_block
from holdfast_runtime.checkpoint.directories import DataDir
from holdfast_runtime.checkpoint.offsets import Offsets
from holdfast_runtime.streams.log.embedded_log import close_under
from holdfast_runtime.testing import TestDriver
from tests.cli.run_events import ENDED, FILES, FIRST, STARTED
from tests.cli.status_objects import NOW, Trees, app, event, handed, report
from tests.engine.test_offset_log import done, planned

WIDTHS = (80, 200)
NAME = "orders-of-all-customers-of-the-whole-shop"[:40]
ORDERS, TOTALS, FAILED = (f"{word}-{'of-customers-' * 4}x"[:63] for word in ("orders", "totals", "failed"))
APP = f"""\
apiVersion: holdfast.dev/v1alpha1
kind: StreamApp
metadata: {{name: {NAME}}}
spec:
  systems: [{{name: the-embedded-log-of-this-host, log: {{}}}}]
  streams:
  - name: {ORDERS}
    system: the-embedded-log-of-this-host
    partitions: 12
    key: [the_name_of_the_customer, the_number_of_the_shop]
    schema: "the_name_of_the_customer STRING, the_number_of_the_shop BIGINT, cents BIGINT, ts TIMESTAMP"
    eventTime: {{column: ts, lateness: 10s}}
    onDecodeError: DeadLetter
    deadLetter: {FAILED}
  - {{name: {TOTALS}, system: the-embedded-log-of-this-host, partitions: 2, key: [the_name_of_the_customer]}}
  - {{name: {FAILED}, system: the-embedded-log-of-this-host, partitions: 1}}
  steps:
  - name: {"sums-" * 10}x
    from: [{ORDERS}]
    aggregate:
      by: [the_name_of_the_customer, the_number_of_the_shop]
      window: 1m
      compute: ["sum(cents) AS the_sum_of_all_cents_of_the_customer", "count(*) AS the_count_of_all_orders"]
  - {{name: out, from: [{"sums-" * 10}x], to: {TOTALS}}}
"""
REKEYED = APP.replace("by: [the_name_of_the_customer, the_number_of_the_shop]", "by: [the_number_of_the_shop]")
VERSION = [("the_name_of_the", "customer"), ("the_number_of_the", "shop"), ("the_coupon_of_the_order_of_a", "customer")]
REGISTERED = APP.replace("log: {}", 'kafka: {bootstrapServers: "b:9092", registry: {url: "http://nowhere"}}').replace(
    "    partitions: 12\n", "    partitions: 12\n    format: avro\n"
)
COMMANDS = {
    "plan": ["plan", "app.yaml"],
    "a wide plan": ["plan", "app.yaml", "--wide"],
    "a rejected plan": ["plan", "rekeyed.yaml"],
    "an invalid app": ["plan", "invalid.yaml"],
    "diff": ["diff", "app.yaml", "rekeyed.yaml"],
    "diff of a schema": ["diff", "registered.yaml", "--schema", f"{ORDERS}=order.avsc"],
    "streams": ["streams", "app.yaml"],
    "state ls": ["state", "ls", "app.yaml"],
    "state get": ["state", "get", "app.yaml", "--table", f"{'sums-' * 10}x"],
    "letters": ["letters", "app.yaml"],
    "groups of letters": ["letters", "app.yaml", "--group"],
    "letters to put back": ["letters", "app.yaml", "--put-back"],
    "offsets": ["offsets", "app.yaml"],
    "offsets to set": ["offsets", "app.yaml", "--set", f"{ORDERS}=oldest"],
    "explain": ["explain"],
    "explain one": ["explain", "StateMisfit"],
    "a name that is none": ["explain", "x" * 100],
    "a file that is not there": ["plan", f"{'directory/' * 12}app.yaml"],
    "a stream that is not there": ["tail", "app.yaml", "nothing"],
}


class Terminal(io.StringIO):
    """What a terminal was sent."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The app after a few batches."""
    path = tmp_path_factory.mktemp("screens")
    (path / "app.yaml").write_text(APP)
    (path / "rekeyed.yaml").write_text(REKEYED)
    (path / "registered.yaml").write_text(REGISTERED)
    fields = [{"name": f"{name}_{word}", "type": ["null", "string", "long"]} for name, word in VERSION]
    (path / "order.avsc").write_text(json.dumps({"type": "record", "name": "Order", "fields": fields}))
    (path / "invalid.yaml").write_text(APP.replace("lateness: 10s", "lateness: 10 seconds").replace("to: ", "too: "))
    with TestDriver(APP, path / ".holdfast" / NAME) as driver:
        rows = [
            {"the_name_of_the_customer": f"customer {i} {'of many ' * 5}", "the_number_of_the_shop": i, "cents": i}
            for i in range(20)
        ]
        driver.feed(ORDERS, [row | {"ts": driver.now} for row in rows])
        driver.feed_bytes(ORDERS, [b'{"cents": "not a number, but ' + b"many words " * 20 + b'"}'], key=b"k")
        driver.run_until_idle()
    close_under(path / ".holdfast")
    query = DataDir(path / ".holdfast" / NAME).app(NAME).run("1").query
    planned(query, 1, Offsets(1, 1000, {StreamPartition(ORDERS, i): 1 for i in range(12)}))
    done(query, 1)
    yield path
    close_under(path / ".holdfast")


@pytest.fixture(params=WIDTHS)
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The columns of the terminal."""
    monkeypatch.setenv("COLUMNS", str(request.param))
    monkeypatch.setenv("TERM", "xterm")
    return int(request.param)


@pytest.mark.parametrize("name", COMMANDS)
def test_no_line_of_a_command_is_too_wide(name: str, width: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    out = terminal(monkeypatch)
    main([*COMMANDS[name], *(() if COMMANDS[name][0] in ("explain", "tail") else ("--color", "never"))])
    assert too_wide(out, width) == []
    assert out.getvalue().strip()


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", out)
    return out


_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_COPIED = ("holdfast tail ", "- {name: ", "# repartition ")
"""Commands and repairs."""


def too_wide(out: io.StringIO, width: int) -> list[str]:
    lines = [_CONTROL.sub("", line).rstrip() for line in re.split(r"[\r\n]", out.getvalue())]
    return [line for line in lines if len(line) > width and not is_copied(line)]


def is_copied(line: str) -> bool:
    """A command, a repair, or one word with its heading or position."""
    text = line.strip()
    return any(copied in text for copied in _COPIED) or len(text.split()) <= 2


def status_of(draw: Callable[[Console], None], width: int) -> io.StringIO:
    file = io.StringIO()
    draw(console_for(file, None, width))
    return file


WRONG = {
    "Ready": ("False", "DriverFailed", f"attempt 2 failed: {'a long story of what has happened, ' * 8}see its log"),
    "LocalityHonoured": ("False", "TasksAway", f"{', '.join(f'partition-{i}' for i in range(40))} are elsewhere"),
}
TREES = Trees(
    app(verdicts=WRONG),
    app(NAME, verdicts=WRONG, placed="12345/12345", tasks=12345, runId="a-long-name-of-a-run"),
    maps=(
        report(held_back=f"{ORDERS}/3: the watermark stands, for 12 s: {'waiting for its source ' * 5}"),
        handed(processors=30, tasks=120),
    ),
    events=(event(5_000, "ExecutorLost", f"pod x is gone: {'its node was drained ' * 10}", "Warning"),),
)


@pytest.mark.parametrize("namespace", [None, "apps"])
def test_no_line_of_a_list_of_apps_is_too_wide(namespace: str | None, width: int) -> None:
    apps: AppList = read_apps(TREES, namespace)
    out = status_of(lambda console: print_apps(console, apps, NOW, namespace=namespace), width)
    assert too_wide(out, width) == []
    assert NAME in out.getvalue()


@pytest.mark.parametrize("all_tasks", [False, True])
def test_no_line_of_a_status_is_too_wide(width: int, *, all_tasks: bool) -> None:
    detail: AppDetail = read_app(TREES, "apps", "ads")
    out = status_of(lambda console: print_app(console, detail, NOW, all_tasks=all_tasks), width)
    assert too_wide(out, width) == []


LONG = replace(
    FIRST,
    held_back=f"{ORDERS}/3: the watermark stands, for 12 s: {'waiting for its source or relay ' * 5}",
    streams={TOTALS: 123_456, FAILED: 3},
    lags={ORDERS: (0, 12)},
    late={"first": 7},
    undecoded=123,
    tombstones=3,
    failed={"paid": 4},
    misplaced={"clicks": 2},
)


@pytest.mark.parametrize("live", [True, False])
def test_no_line_of_a_run_is_too_wide(width: int, monkeypatch: pytest.MonkeyPatch, *, live: bool) -> None:
    out = terminal(monkeypatch)
    console = console_for(out, None, width)
    totals = RunTotals()
    files = replace(FILES, logs=frozenset({TOTALS, FAILED}), data=f"{'directory/' * 9}data")
    with LiveView(console, print_block) as block:
        view = TextView(console, files, block if live else None)
        for event_of_run in (STARTED, LONG, replace(LONG, batch=42), ENDED):
            totals.note(event_of_run, 2.0)
            view.show(event_of_run, totals)
        view.over(totals, PlanningFailedError("it") if live else None)
    assert too_wide(out, width) == []
    assert TOTALS in out.getvalue()


def test_a_wide_terminal_is_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: dict[int, Any] = {}
    monkeypatch.chdir(folder)
    for columns in WIDTHS:
        monkeypatch.setenv("COLUMNS", str(columns))
        out = terminal(monkeypatch)
        main(["diff", "app.yaml", "rekeyed.yaml", "--color", "never"])
        main(["explain", "StateMisfit"])
        shown[columns] = out.getvalue().splitlines()
    assert len(shown[200]) < len(shown[80])
    assert max(map(len, shown[200])) > 160


def test_without_a_terminal_each_row_is_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    main(["plan", "app.yaml", "--wide"])
    (row,) = [line for line in out.getvalue().splitlines() if line.startswith(f"{ORDERS} ")]
    assert row.split()[1:3] == ["input", "12"]
    main(["explain", Reason.STATE_MISFIT.value])
    assert max(map(len, out.getvalue().splitlines())) > 200


def test_help_is_wrapped_and_its_examples_are_not(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    for command in re.findall("^    ([a-z]+)", command_parser().format_help(), re.MULTILINE):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        lines = capsys.readouterr().out.splitlines()
        assert [line for line in lines if len(line) > width and not line.startswith("  ")] == []
