"""`holdfast init`: what it writes plans, passes its test and runs; nothing is written over."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast_cli.main import main
from tests.cli.conftest import Holdfast

WAYS = [(), ("--log", "--function"), ("--kafka",), ("--sql",), ("--kafka", "--sql")]
FILES = {"app.yaml", "functions.py", "test_app.py", "orders.jsonl", "streamapp.schema.json", "README.md", ".gitignore"}


@pytest.mark.parametrize("way", WAYS)
def test_the_app_plans_without_problems_or_warnings(
    way: tuple[str, ...], holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = holdfast("init", "first", *way)
    assert (written.code, written.err) == (0, "")
    assert {path.name for path in Path("first").iterdir()} == (FILES - {"functions.py"} if "--sql" in way else FILES)
    monkeypatch.chdir("first")
    planned = holdfast(
        "plan", "app.yaml", *(("--partitions", "orders=2", "--partitions", "totals=2") if "--kafka" in way else ())
    )
    assert planned.code == 0, planned.err
    assert planned.out.endswith("valid: 1 input, 3 steps, 2 tasks, no Spark SQL\n")


def test_an_editor_finds_the_schema_beside_the_file(holdfast: Holdfast) -> None:
    holdfast("init", "first")
    first_line, *_ = Path("first/app.yaml").read_text().splitlines()
    assert first_line == "# yaml-language-server: $schema=streamapp.schema.json"
    assert Path("first/streamapp.schema.json").read_text() == holdfast("schema").out


def test_what_to_type_next_is_said(holdfast: Holdfast) -> None:
    lines = holdfast("init", "first").out.splitlines()
    assert lines[:4] == [f"first: wrote {', '.join(_in_order())}", "", "next:", "  cd first"]
    assert [line.split("  #")[0].strip() for line in lines[4:]] == [
        "pytest",
        "holdfast plan app.yaml",
        "holdfast feed app.yaml orders orders.jsonl",
        "holdfast run app.yaml --until-idle",
        "holdfast tail app.yaml totals --from-beginning --until-end",
    ]


def _in_order() -> list[str]:
    return [
        "app.yaml",
        "functions.py",
        "test_app.py",
        "orders.jsonl",
        "streamapp.schema.json",
        "README.md",
        ".gitignore",
    ]


@pytest.mark.parametrize("name", ["app.yaml", "functions.py", "test_app.py"])
def test_nothing_is_written_if_a_file_is_there(name: str, holdfast: Holdfast) -> None:
    Path("first").mkdir()
    Path("first", name).write_text("mine")
    refused = holdfast("init", "first")
    assert refused.code == 2
    assert refused.err.startswith(f"holdfast: {name} in first would be overwritten; nothing was written.")
    assert [path.name for path in Path("first").iterdir()] == [name]
    assert Path("first", name).read_text() == "mine"


def test_a_readme_that_is_there_stays(holdfast: Holdfast) -> None:
    Path("first").mkdir()
    Path("first/README.md").write_text("mine")
    assert "; left README.md as it was" in holdfast("init", "first").out
    assert Path("first/README.md").read_text() == "mine"


@pytest.mark.parametrize(
    ("directory", "name"),
    [("My App_2", "my-app-2"), ("x" * 50, "x" * 40), ("___", "my-app"), ("deep/er", "er")],
)
def test_the_name_is_that_of_the_directory(directory: str, name: str, holdfast: Holdfast) -> None:
    assert holdfast("init", directory).out.startswith(f"{name}: wrote ")
    assert f"\n  name: {name}\n" in Path(directory, "app.yaml").read_text()


def test_a_name_and_brokers_may_be_given(holdfast: Holdfast) -> None:
    assert holdfast("init", "first", "--name", "spent", "--kafka", "--brokers", "k1:9092,k2:9092").code == 0
    text = Path("first/app.yaml").read_text()
    assert "\n  name: spent\n" in text
    assert 'kafka: {bootstrapServers: "k1:9092,k2:9092"}' in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--name", "My App"], "argument --name: My App must be lower-case letters"),
        (["--brokers", "k1:9092"], "--brokers goes with --kafka"),
        (["--log", "--kafka"], "not allowed with argument --log"),
    ],
)
def test_wrong_options_are_refused(options: list[str], message: str, holdfast: Holdfast) -> None:
    refused = holdfast("init", "first", *options)
    assert refused.code == 2
    assert message in refused.err
    assert not Path("first").exists()


@pytest.mark.parametrize("way", [(), ("--kafka", "--sql")])
def test_the_app_that_was_written_runs(way: tuple[str, ...], tmp_path: Path) -> None:
    """In processes of their own, as people start them, without anything on the path."""
    with contextlib.chdir(tmp_path):
        assert main(["init", "first", *way]) == 0
    folder = tmp_path / "first"
    tested = _started(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".")
    assert "2 passed" in tested
    if way:
        return
    assert (
        _holdfast(folder, "feed", "app.yaml", "orders", "orders.jsonl")
        == "4 records written to orders (2 partitions)\n"
    )
    assert "idle: nothing is left to read" in _holdfast(folder, "run", "app.yaml", "--until-idle", "--no-ui")
    assert _holdfast(folder, "tail", "app.yaml", "totals", "--from-beginning", "--until-end").splitlines() == [
        'totals/0\t0\tann\t{"customer":"ann","orders":2,"cents":750}',
        'totals/1\t0\tcat\t{"customer":"cat","orders":1,"cents":1200}',
    ]


def _holdfast(folder: Path, *words: str) -> str:
    return _started(
        folder, "-c", "import sys; from holdfast_cli.main import main; sys.exit(main(sys.argv[1:]))", *words
    )


def _started(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=os.environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
