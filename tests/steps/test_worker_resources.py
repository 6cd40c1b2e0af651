"""Resources of workers: set up once at the first call, closed when nobody calls functions any more."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from holdfast_runtime.functions import WorkerSetUpError, worker_resource
from holdfast_runtime.worker_resources import calling_functions, close_resources
from tests.waiting import patience

FIRST_TASK = """
import os, signal
from holdfast_runtime.functions import worker_resource
from holdfast_runtime.spark.worker_end import close_before_end
from holdfast_runtime.worker_resources import calling_functions

@worker_resource
def client():
    print("open", flush=True)
    yield
    MEANWHILE
    print("close", flush=True)

close_before_end()
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as each task of Spark begins
TASK
"""
HANGUP = "os.kill(os.getpid(), signal.SIGHUP)"


def noted(log: list[str], name: str) -> Callable[[], str]:
    """A resource that notes its life."""

    @worker_resource
    def resource() -> Iterator[str]:
        log.append(f"open {name}")
        yield name
        log.append(f"close {name}")

    return resource


def test_a_resource_is_made_once_and_closed_in_reverse() -> None:
    log: list[str] = []
    first, second = noted(log, "first"), noted(log, "second")
    with calling_functions():
        assert [first(), second(), first()] == ["first", "second", "first"]
        assert log == ["open first", "open second"]
    assert log == ["open first", "open second", "close second", "close first"]
    with calling_functions():
        first()
    assert log[4:] == ["open first", "close first"]


def test_a_resource_may_use_another_one() -> None:
    log: list[str] = []
    first = noted(log, "first")

    @worker_resource
    def second() -> Iterator[str]:
        yield first() + " and second"
        log.append(f"close second, with {first()}")

    with calling_functions():
        assert second() == "first and second"
    assert log == ["open first", "close second, with first", "close first"]


def test_the_last_of_several_callers_closes() -> None:
    log: list[str] = []
    resource = noted(log, "x")
    with calling_functions():
        with calling_functions():
            resource()
        assert log == ["open x"]
    assert log == ["open x", "close x"]


def test_threads_share_one_resource() -> None:
    log: list[str] = []
    resource = noted(log, "x")
    with calling_functions():
        threads = [threading.Thread(target=resource) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert log == ["open x", "close x"]


def test_what_can_not_be_set_up_is_tried_again() -> None:
    tries: list[int] = []

    @worker_resource
    def client() -> Iterator[int]:
        tries.append(1)
        if len(tries) == 1:
            message = "refused"
            raise ConnectionError(message)
        yield 5

    with calling_functions():
        with pytest.raises(WorkerSetUpError, match=r"client could not be set up: ConnectionError: refused") as raised:
            client()
        assert isinstance(raised.value.__cause__, ConnectionError)
        assert client() == 5


def test_one_that_fails_to_close_keeps_no_other_open(capsys: pytest.CaptureFixture[str]) -> None:
    log: list[str] = []

    @worker_resource
    def broken() -> Iterator[int]:
        yield 1
        message = "no goodbye"
        raise OSError(message)

    @worker_resource
    def twice() -> Iterator[int]:
        yield 1
        yield 2

    with calling_functions():
        noted(log, "x")()
        broken()
        twice()
    assert log == ["open x", "close x"]
    printed = capsys.readouterr().err
    assert "no goodbye" in printed
    assert "twice yields twice" in printed


def test_a_forked_process_closes_nothing_of_its_parent() -> None:
    log: list[str] = []
    resource = noted(log, "x")
    with calling_functions():
        resource()
        read, write = os.pipe()
        if not os.fork():
            close_resources()
            os.write(write, f"{len(log)}".encode())
            os._exit(0)
        assert os.read(read, 10) == b"1"
        os.wait()
        for end in (read, write):
            os.close(end)


def test_a_function_without_yield_is_no_resource() -> None:
    with pytest.raises(TypeError, match="has no yield"):
        worker_resource(lambda: iter([1]))


@pytest.mark.parametrize(("set_up", "printed", "code"), [("client()", "open\nclose\n", 0), ("", "", -signal.SIGHUP)])
def test_a_hangup_within_the_first_task_closes_too(set_up: str, printed: str, code: int) -> None:
    ended = first_task(f"{set_up}\n{HANGUP}\nsignal.pause()", meanwhile="pass")
    assert (ended.stdout, ended.returncode, ended.stderr) == (printed, code, "")


@pytest.mark.parametrize(
    "task",
    [
        f"client()\n{HANGUP}\nsignal.pause()",
        "client()\nos._exit(0)",
        "client()\nraise SystemExit",
        "with calling_functions(): client()",
    ],
    ids=["another hangup", "an exit at once", "an exit of Python", "the end of the last caller"],
)
def test_a_hangup_while_resources_close_cuts_nothing_off(task: str) -> None:
    ended = first_task(task, meanwhile=HANGUP)
    assert (ended.stdout, ended.returncode, ended.stderr) == ("open\nclose\n", 0, "")


def first_task(task: str, meanwhile: str) -> subprocess.CompletedProcess[str]:
    """Run a worker's first task to its process's end; `meanwhile` is what happens while its resource is closed."""
    script = FIRST_TASK.replace("TASK", task).replace("MEANWHILE", meanwhile)
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=patience(60), check=False
    )
