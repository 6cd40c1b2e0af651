"""Commands on an app on a cluster: how the command line names it, and how the line in its driver's pod is."""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import UserActionError
from holdfast.protocol.attempt import AttemptOrders
from holdfast_cli.cluster.app import app_of
from holdfast_cli.cluster.pod_command import PodCommand, no_driver_message
from holdfast_cli.cluster.pod_exec import exit_code
from holdfast_cli.cluster.target import ClusterTarget, NamespaceTarget
from holdfast_cli.in_pod import free_memory
from holdfast_cli.local import letters_command, offsets_command, stream_commands
from holdfast_cli.main import command_parser
from holdfast_cli.output.screen import WIDTH_VARIABLE, screen
from holdfast_cli.output.wrapping import UNLIMITED
from holdfast_cli.state import state_command
from tests.cli.conftest import RUNNABLE, Holdfast
from tests.cli.status_objects import app
from tests.error_codes import has_code

LINES: dict[str, tuple[PodCommand, list[str]]] = {
    "tail": (
        stream_commands.TAIL_IN_POD,
        ["tail", "ads", "out", "--from-beginning", "--until-end", "--max", "3", "--key=-x", "--where", "a > 'b c'"],
    ),
    "streams": (stream_commands.STREAMS_IN_POD, ["streams", "ads", "-o", "json"]),
    "letters": (
        letters_command.LETTERS_IN_POD,
        ["letters", "ads", "--stream", "s", "--reason", "r", "--offset", "0", "--put-back", "--again", "--yes"],
    ),
    "groups of letters": (
        letters_command.LETTERS_IN_POD,
        ["letters", "ads", "-n", "7", "--group", "--color", "always"],
    ),
    "offsets": (offsets_command.OFFSETS_IN_POD, ["offsets", "ads", "-o", "json"]),
    "state ls": (state_command.LS_IN_POD, ["state", "ls", "ads", "--task", "p-0", "--run", "r 2", "--durable"]),
    "state get": (
        state_command.GET_IN_POD,
        ["state", "get", "ads", "--table", "t", "--key", '["a",7]', "--max", "9", "--raw", "-o", "json"],
    ),
    "state export": (
        state_command.EXPORT_IN_POD,
        ["state", "export", "ads", "--table", "t", "--to", "f.arrow", "--raw", "--task", "p-1"],
    ),
}
PLACE = {"cluster", "namespace", "context", "kubeconfig", "data", "checkpoint", "app", "run", "in_pod"}
"""What is said here, and not in the pod."""


def parsed(line: list[str]) -> dict[str, Any]:
    return vars(command_parser().parse_args(line))


@pytest.mark.parametrize("name", LINES)
def test_a_command_in_a_pod_means_the_same_as_here(name: str) -> None:
    command, line = LINES[name]
    options = parsed([*line, "--cluster", "--namespace", "shop", "--context", "c"])
    pod_options = parsed(command.line(argparse.Namespace(**options), "never"))
    assert pod_options["app"] == "/etc/holdfast"
    color = {"color": "never" if options["color"] == "auto" else options["color"]} if "color" in options else {}
    assert {name: value for name, value in pod_options.items() if name not in PLACE} == {
        name: value for name, value in (options | color).items() if name not in PLACE
    }


@pytest.mark.parametrize("name", LINES)
def test_each_option_of_a_command_is_passed_on(name: str) -> None:
    command, line = LINES[name]
    refused = {"settings", "replan", "yes"} if name == "offsets" else set()
    passed = {*command.options, *command.positionals, "color"}
    assert set(parsed(line)) - PLACE - refused <= passed


@pytest.mark.parametrize("line", [["tail", "{}", "clicks"], ["offsets", "{}"], ["state", "ls", "{}"]])
def test_a_file_is_no_app_on_a_cluster(holdfast: Holdfast, line: list[str]) -> None:
    ran = holdfast(*(word.format("app.yaml") for word in line), "-n", "shop")
    assert ran.code == 2
    assert "app.yaml is a file, and on a cluster an app is meant by its name" in ran.err
    assert ran.err.rstrip().endswith("leave out --namespace")


def test_a_missing_file_may_be_an_app_on_a_cluster(holdfast: Holdfast) -> None:
    assert "to name a StreamApp on a cluster, add --cluster, or -n NAMESPACE" in holdfast("tail", "ads", "out").err
    assert "on a cluster" not in holdfast("tail", "no/such.yaml", "out").err
    assert "on a cluster" not in holdfast("feed", "ads", "out").err


def test_a_data_directory_is_of_this_host_alone(holdfast: Holdfast) -> None:
    ran = holdfast("streams", "ads", "--cluster", "--data", "somewhere")
    assert (ran.code, "--data is for an app on this host" in ran.err) == (2, True)


@pytest.mark.parametrize("change", [["--set", "clicks=oldest"], ["--replan"]])
def test_positions_are_not_set_on_a_cluster(holdfast: Holdfast, change: list[str]) -> None:
    ran = holdfast("offsets", "ads", "--cluster", *change, "--yes")
    assert ran.code == 2
    assert "on a cluster positions are shown, and not set" in ran.err


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ({"status": "Success"}, 0),
        ({"status": "Failure", "details": {"causes": [{"reason": "ExitCode", "message": "3"}]}}, 3),
    ],
)
def test_the_exit_code_is_that_of_the_command(status: dict[str, Any], code: int) -> None:
    assert exit_code(json.dumps(status).encode()) == code


def test_a_command_that_did_not_run_says_why() -> None:
    status = {"status": "Failure", "message": "exec: python:\nnot found", "reason": "InternalError"}
    with pytest.raises(
        UserActionError, match="in the pod: exec: python: not found", check=has_code("ExecRefusedError")
    ):
        exit_code(json.dumps(status).encode())


def test_an_app_without_a_driver_is_told_what_to_do() -> None:
    target = NamespaceTarget(ClusterTarget((), None, "default"), "shop", ("-n", "shop"))
    drained = no_driver_message(replace(app_of(app()), suspend=True), LINES["state ls"][0], target)
    assert "`holdfast resume ads -n shop`" in drained
    assert "`holdfast state ls`" in drained
    assert "`holdfast status ads -n shop`" in no_driver_message(app_of(app()), LINES["tail"][0], target)


def test_output_elsewhere_is_as_wide_as_its_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert screen("never").width == UNLIMITED
    monkeypatch.setenv(WIDTH_VARIABLE, "72")
    assert screen("never").width == 72


def in_cgroup(folder: Path, most: tuple[str, str], used: str, inactive: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / f"memory.{most[0]}").write_text(f"{most[1]}\n")
    (folder / f"memory.{used}").write_text("700\n")
    (folder / "memory.stat").write_text(f"anon 500\n{inactive} 150\n")
    return folder


def test_free_memory_counts_files_that_can_go(tmp_path: Path) -> None:
    assert free_memory(tmp_path) is None
    in_cgroup(tmp_path, ("max", "1000"), "current", "inactive_file")
    assert free_memory(tmp_path) == 450
    in_cgroup(tmp_path, ("max", "max"), "current", "inactive_file")
    assert free_memory(tmp_path) is None


def test_free_memory_is_known_of_older_control_groups(tmp_path: Path) -> None:
    in_cgroup(tmp_path / "memory", ("limit_in_bytes", "1200"), "usage_in_bytes", "total_inactive_file")
    assert free_memory(tmp_path) == 650
    in_cgroup(tmp_path / "memory", ("limit_in_bytes", str((1 << 63) - 4096)), "usage_in_bytes", "total_inactive_file")
    assert free_memory(tmp_path) is None


@pytest.fixture
def driver_directory(tmp_path: Path) -> Path:
    """What the operator mounts for an app that has not begun."""
    folder = tmp_path / "mounted"
    folder.mkdir()
    tree = parsed_yaml(RUNNABLE)
    tree["spec"]["runtime"]["checkpoint"] = {"location": f"file://{tmp_path}/checkpoint"}
    (folder / "app.json").write_text(json.dumps(tree))
    orders = AttemptOrders("counts", "shop", "u", "1", 1, "counts-assignment", "counts-report", {})
    (folder / "attempt.json").write_text(orders.text())
    (folder / "spark.json").write_text("{}")
    return folder


def parsed_yaml(text: str) -> dict[str, Any]:
    from ruamel.yaml import YAML  # noqa: PLC0415

    tree: dict[str, Any] = json.loads(json.dumps(YAML(typ="safe").load(text)))
    return tree


def test_a_drivers_directory_stands_for_its_app(holdfast: Holdfast, driver_directory: Path) -> None:
    streams = json.loads(holdfast("streams", str(driver_directory), "-o", "json").out)
    assert (streams["app"], [one["name"] for one in streams["streams"]][:1]) == ("counts", ["clicks"])
    offsets = holdfast("offsets", str(driver_directory))
    assert offsets.code == 2
    assert f"has not read anything in {driver_directory.parent}/checkpoint/shop/counts: there are no" in offsets.err


def test_nothing_is_set_beside_a_driver(holdfast: Holdfast, driver_directory: Path) -> None:
    ran = holdfast("offsets", str(driver_directory), "--set", "clicks=oldest", "--yes")
    assert (ran.code, "here its driver does" in ran.err) == (1, True)
