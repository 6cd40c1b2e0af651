"""What fails is said in one line, before a JVM starts, and as JSON where JSON is asked for."""

import errno
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.errors import WorldChangeError
from holdfast_cli.main import main
from holdfast_runtime.checkpoint.directories import disk_refusals
from tests.cli.conftest import EXAMPLE, RUNNABLE, Holdfast, Ran
from tests.error_codes import has_code


def write(old: str = "", new: str = "") -> None:
    """The app, with this instead of that."""
    assert old in RUNNABLE
    Path("app.yaml").write_text(RUNNABLE.replace(old, new), encoding="utf-8")


def failed_before_spark(ran: Ran, code: int = 3) -> str:
    """The one line it says."""
    assert ran.code == code
    (line,) = ran.err.splitlines()
    assert not list(Path().rglob("spark.log"))
    return line


@pytest.mark.parametrize(
    "master",
    [
        "local[0]",
        "local[00]",
        "local[x]",
        "local[-1]",
        "local[10000]",
        "local[2,0]",
        "local-cluster[0,1,1024]",
        "local[",
    ],
)
def test_a_master_spark_cannot_take_is_refused_in_a_line(holdfast: Holdfast, master: str) -> None:
    ran = holdfast("run", "app.yaml", "--master", master)
    assert ran.code == 2
    assert f"{master} must be local[N] with N from 1 to 9999, or local[*]" in ran.err.splitlines()[-1]


def test_a_file_as_data_directory_is_said_in_a_line(holdfast: Holdfast) -> None:
    write()
    Path("data").write_text("", encoding="utf-8")
    line = failed_before_spark(holdfast("run", "app.yaml", "--data", "data"))
    assert line == (
        "holdfast: the data directory data (data/apps/counts) can't be used: Not a directory; a file is in its way; "
        "choose another --data DIR"
    )


@pytest.mark.parametrize(
    ("number", "cure"),
    [
        (errno.EROFS, "choose a --data DIR that this user may write"),
        (errno.EACCES, "choose a --data DIR that this user may write"),
        (errno.ENOSPC, "free some space, or choose another --data DIR"),
        (errno.EDQUOT, "free some space, or choose another --data DIR"),
    ],
)
def test_what_a_disk_refuses_names_the_directory_and_the_cure(number: int, cure: str) -> None:
    message = rf"the data directory here \(here/x\) can't be used: .*; {cure}"
    with (
        pytest.raises(WorldChangeError, match=message, check=has_code("DataUnusableError")),
        disk_refusals(Path("here")),
    ):
        raise OSError(number, os.strerror(number), "here/x")


@pytest.mark.parametrize(
    "trouble",
    [
        ConnectionResetError(errno.ECONNRESET, "gone"),
        FileNotFoundError(errno.ENOENT, "no such file", "java"),
        FileNotFoundError(errno.ENOENT, "no such file"),
    ],
)
def test_what_is_no_trouble_of_the_directory_passes_unchanged(trouble: OSError) -> None:
    with pytest.raises(type(trouble)) as raised, disk_refusals(Path("here")):
        raise trouble
    assert raised.value is trouble


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("def count", "import nosuch\n        def count", "f:count: module f imports nosuch, which is not installed"),
        (
            "def count",
            "\n        1 / 0\n        def count",
            "f:count: module f fails when it is imported (line 2): ZeroDivisionError: division by zero",
        ),
        ("def count", "raise SystemExit(7)\n        def count", "fails when it is imported (line 1): SystemExit: 7"),
        ('"f:count"', '"nosuch.module:count"', "(there are: f); write "),
        ('"f:count"', '"json:count"', "json:count: count is missing (there are: "),
    ],
)
def test_an_import_that_fails_is_said_in_a_line(holdfast: Holdfast, old: str, new: str, says: str) -> None:
    write(old, new)
    assert says in failed_before_spark(holdfast("run", "app.yaml"))


def test_prints_of_an_imported_module_are_not_among_the_events(holdfast: Holdfast) -> None:
    write("def count", 'print("hello")\n        import nosuch\n        def count')
    ran = holdfast("run", "app.yaml", "-o", "json")
    assert json.loads(ran.out)["error"] == "FunctionMissingError"
    assert ran.err.splitlines()[0] == "hello"


@pytest.mark.parametrize(
    ("arguments", "error", "code"),
    [
        (("diff", "app.yaml", "broken.yaml"), "InvalidSpec", 1),
        (("diff", "app.yaml", "nowhere.yaml"), "FileUnreadableError", 2),
        (("diff", "app.yaml", "--schema", "clicks=app.yaml"), "UsageError", 2),
        (("plan", "nowhere.yaml"), "FileUnreadableError", 2),
        (("plan", "app.yaml", "--partitions", "nothing=1"), "UsageError", 2),
        (("run", "nowhere.yaml"), "FileUnreadableError", 2),
        (("offsets", "broken.yaml"), "InvalidSpec", 1),
        (("offsets", "app.yaml"), "UsageError", 2),
        (("offsets", "app.yaml", "--set", "clicks"), "UsageError", 2),
        (("state", "ls", "broken.yaml"), "InvalidSpec", 1),
        (("state", "ls", "app.yaml"), "UsageError", 2),
        (("streams", "nowhere.yaml"), "FileUnreadableError", 2),
        (("tail", "app.yaml", "nothing"), "UsageError", 2),
        (("explain", "Nothing"), "ReasonUnknownError", 2),
        (("status", "app", "--kubeconfig", "nowhere"), "NoClusterError", 2),
        (("drain", "app", "--kubeconfig", "nowhere"), "NoClusterError", 2),
    ],
)
def test_what_fails_is_json_where_json_was_asked_for(
    holdfast: Holdfast, arguments: tuple[str, ...], error: str, code: int
) -> None:
    write()
    Path("broken.yaml").write_text("kind: StreamApp\n", encoding="utf-8")
    ran = holdfast(*arguments, "-o", "json")
    tree = json.loads(ran.out)
    assert (ran.code, tree["error"]) == (code, error)
    assert tree["message"]
    assert ("event" in tree) == (arguments[0] == "run")
    assert ran.err


@contextmanager
def nobody_reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Standard output is a pipe whose other end is closed."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w", encoding="utf-8") as file, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", file)
        yield
        # What was not written stays in the file and would fail again when it is closed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), file.fileno())


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", str(EXAMPLE)),
        ("plan", str(EXAMPLE), "--color", "always"),
        ("plan", str(EXAMPLE), "-o", "json"),
        ("plan", str(EXAMPLE), "-o", "svg"),
        ("plan", str(EXAMPLE), "--partitions", "clicks=7"),
        ("diff", str(EXAMPLE), str(EXAMPLE)),
        ("explain",),
        ("crd",),
        ("python", str(EXAMPLE)),
        ("streams", str(EXAMPLE)),
    ],
)
def test_a_reader_that_has_seen_enough_is_no_failure(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    with nobody_reads(monkeypatch):
        assert main(arguments) == 0
        assert sys.stdout is None, "nothing may be written any more, not even at exit"
