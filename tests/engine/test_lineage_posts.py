"""Lineage of attempts, sent to servers that take it, refuse, hang or end the connection: no run notices."""

import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.planning.open_lineage import LineageJob
from holdfast.protocol.attempt import AttemptOrders
from holdfast.spec.app import StreamApp
from holdfast_runtime.driver import lineage_posts as posts_module
from holdfast_runtime.driver.lineage_posts import LineagePosts, LineageServer, lineage_posts
from holdfast_runtime.progress import AttemptStarted, EndCause, Progress, RunEnded
from tests.planning.apps import app_of, step, stream
from tests.registry.scripted import ScriptedAnswer, ScriptedRegistry
from tests.waiting import patience, wait_until

JOB = LineageJob("team", "orders", bounded=False, inputs=(), outputs=())
TOKEN = "s3cr3t"  # noqa: S105 - of a test
TAKEN = ScriptedAnswer(201, b"")


def started(attempt: int = 3) -> AttemptStarted:
    return AttemptStarted("orders", "1", attempt, 1, 1, "here", None, ("python",))


def progress(batch: int) -> Progress:
    return Progress(batch, batch, 1, 2, 10, 9, 100, 5, 0.1)


def ended(cause: EndCause) -> RunEnded:
    return RunEnded(cause, 1, 1, 1, 0.1)


@pytest.fixture
def server() -> ScriptedRegistry:
    return ScriptedRegistry([TAKEN])


def posts(url: str, clock: list[int] | None = None) -> LineagePosts:
    times = clock or [1_000_000]
    return LineagePosts(LineageServer(url, TOKEN), lambda: JOB, "1f0c", lambda: times[0])


def events(server: ScriptedRegistry) -> list[tuple[str, str]]:
    """State and run of each event that came."""
    trees: list[dict[str, Any]] = [json.loads(body) for *_, body in server.requests]
    return [(tree["eventType"], tree["run"]["runId"]) for tree in trees]


def states(server: ScriptedRegistry) -> list[str]:
    return [state for state, _ in events(server)]


def arrive(server: ScriptedRegistry, number: int) -> None:
    wait_until(lambda: len(server.requests) == number, 5, f"{number} events came")


@pytest.mark.parametrize(
    ("cause", "last"), [(EndCause.COMPLETED, "COMPLETE"), (EndCause.DRAINED, "ABORT"), (EndCause.ENOUGH, "COMPLETE")]
)
def test_an_attempt_is_told_from_its_start_to_its_end(server: ScriptedRegistry, cause: EndCause, last: str) -> None:
    with server.running() as url:
        with posts(url) as lineage:
            lineage.listen(started())
            arrive(server, 1)
            lineage.listen(progress(1))
            lineage.listen(ended(cause))
        assert states(server) == ["START", "RUNNING", last]
    assert len({run for _, run in events(server)}) == 1
    method, path, headers, _ = server.requests[0]
    assert (method, path, headers["Authorization"]) == ("POST", "/api/v1/lineage", f"Bearer {TOKEN}")


def test_a_path_of_the_url_is_taken_as_it_is(server: ScriptedRegistry) -> None:
    with server.running() as url, posts(f"{url}/open/events/") as lineage:
        lineage.listen(started())
        arrive(server, 1)
    assert server.requests[0][1] == "/open/events"


def test_a_failure_says_why(server: ScriptedRegistry) -> None:
    def run(url: str) -> None:
        with posts(url) as lineage:
            lineage.listen(started())
            message = "no\x1b room"
            raise OSError(message)

    with server.running() as url, pytest.raises(OSError, match="room"):
        run(url)
    assert states(server) == ["START", "FAIL"]
    facet = json.loads(server.requests[-1][3])["run"]["facets"]["errorMessage"]
    assert facet["message"] == "OSError: no  room"


def test_what_failed_before_it_started_is_no_run(server: ScriptedRegistry) -> None:
    def run(url: str) -> None:
        with posts(url):
            raise OSError

    with server.running() as url, pytest.raises(OSError):  # noqa: PT011 - it has no text
        run(url)
    assert server.requests == []


def test_the_attempt_before_ends_when_the_next_one_begins(server: ScriptedRegistry) -> None:
    with server.running() as url, posts(url) as lineage:
        lineage.listen(started(3))
        lineage.listen(started(4))
        lineage.listen(ended(EndCause.COMPLETED))
    assert states(server) == ["START", "COMPLETE", "START", "COMPLETE"]
    first, same, second, last = (run for _, run in events(server))
    assert first == same != second == last


def test_batches_are_told_once_a_minute(server: ScriptedRegistry) -> None:
    clock = [1_000_000]
    with server.running() as url, posts(url, clock) as lineage:
        lineage.listen(started())
        for minute in range(2):
            arrive(server, minute + 1)
            for batch in range(50):
                lineage.listen(progress(minute * 50 + batch))
            arrive(server, minute + 2)
            clock[0] += 60_000
    assert states(server) == ["START", "RUNNING", "RUNNING"]


@contextmanager
def silent() -> Iterator[str]:
    """A server that takes connections and says nothing."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@contextmanager
def closing_server() -> Iterator[str]:
    """A server that ends each connection."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:

        def serve() -> None:
            while True:
                try:
                    listening.accept()[0].close()
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in caplog.messages if "lineage" in line]


def test_a_server_that_hangs_holds_nothing_up(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posts_module, "_LAST_WITHIN", 0.2)
    monkeypatch.setattr(posts_module, "_ANSWER_WITHIN", 600)
    clock, began = [1_000_000], time.monotonic()
    with silent() as url:
        with posts(url, clock) as lineage:
            for number in range(3, 30):
                lineage.listen(started(number))
                for batch in range(100):
                    clock[0] += 60_000
                    lineage.listen(progress(batch))
            lineage.listen(ended(EndCause.COMPLETED))
            assert time.monotonic() - began < patience(2)
            began = time.monotonic()
        assert time.monotonic() - began < patience(2)
        assert warnings(caplog) == [
            "lineage can't be sent to the server of runtime.lineage: it takes events too slowly"
        ]
    wait_until(lambda: all(thread.name != "lineage" for thread in threading.enumerate()), 5, "nothing more is sent")


def test_a_server_without_an_answer_is_given_up(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posts_module, "_ANSWER_WITHIN", 0.05)
    with silent() as url, posts(url) as lineage:
        lineage.listen(started())
        wait_until(lambda: warnings(caplog) != [], 5, "it is said")
        lineage.listen(ended(EndCause.COMPLETED))
    assert warnings(caplog) == ["lineage can't be sent to the server of runtime.lineage: timed out"]


def test_each_kind_of_failure_is_logged_once(server: ScriptedRegistry, caplog: pytest.LogCaptureFixture) -> None:
    server.answers = [ScriptedAnswer(status, b"no") for status in (500, 500, 302, 500)]
    with server.running() as url, posts(url) as lineage:
        lineage.listen(started(3))
        lineage.listen(started(4))
        lineage.listen(ended(EndCause.COMPLETED))
    assert len(server.requests) == 4
    assert [line.rpartition(" ")[2] for line in warnings(caplog)] == ["500", "302"]
    assert TOKEN not in caplog.text


def test_a_server_that_ends_the_connection_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with closing_server() as url, posts(url) as lineage:
        lineage.listen(started())
        lineage.listen(ended(EndCause.COMPLETED))
    assert warnings(caplog) == ["lineage can't be sent to the server of runtime.lineage: it ended the connection"]


def test_nobody_who_listens_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with silent() as url:
        pass
    with posts(url) as lineage:
        lineage.listen(started())
        lineage.listen(ended(EndCause.COMPLETED))
    (line,) = warnings(caplog)
    assert "refused" in line


def test_a_job_that_can_not_be_made_stops_no_run(server: ScriptedRegistry, caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> LineageJob:
        message = "no columns"
        raise ValueError(message)

    with server.running() as url, LineagePosts(LineageServer(url), broken, "1f0c") as lineage:
        lineage.listen(started())
        lineage.listen(ended(EndCause.COMPLETED))
    assert server.requests == []
    assert [line.rpartition(": ")[2] for line in warnings(caplog)] == ["no columns"]


ORDERS = AttemptOrders("app", "team", "1f0c", "1", 3, "assignment", "report")


def app(**lineage: Any) -> StreamApp:
    runtime = {"runtime": {"lineage": lineage}} if lineage else {}
    return app_of([stream("in"), stream("out", schema=None)], [step("x", "in", to="out")], **runtime)


def test_an_app_without_the_setting_sends_nothing() -> None:
    assert lineage_posts(app(), ORDERS, None) is None


def test_the_token_is_an_entry_of_the_secret(server: ScriptedRegistry, tmp_path: Path) -> None:
    (tmp_path / "login").mkdir()
    (tmp_path / "login" / "token").write_text(f"{TOKEN}\n")
    with server.running() as url:
        lineage = lineage_posts(app(url=url, secretName="login"), ORDERS, tmp_path)
        assert lineage is not None
        with lineage:
            lineage.listen(started())
    _, _, headers, body = server.requests[0]
    assert headers["Authorization"] == f"Bearer {TOKEN}"
    (out,) = json.loads(body)["outputs"]
    assert out["name"] == "log/out"
    assert list(out["facets"]["columnLineage"]["fields"]) == ["k", "v", "ts"]


@pytest.mark.parametrize(
    ("settings", "entries", "why"),
    [
        ({"url": "http://a", "secretName": "none"}, {}, "there is no folder"),
        ({"url": "http://a", "secretName": "login"}, {"token": "se\ncret"}, "letters that no header has"),
        ({"url": "https://a", "secretName": "login"}, {"ca.crt": "nonsense"}, ""),
        ({"url": "http://a:123456"}, {}, "Port out of range"),
    ],
)
def test_a_setting_of_no_use_is_said_once(
    settings: dict[str, Any], entries: dict[str, str], why: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "login").mkdir()
    for name, text in entries.items():
        (tmp_path / "login" / name).write_text(text)
    with caplog.at_level(logging.WARNING):
        assert lineage_posts(app(**settings), ORDERS, tmp_path) is None
    (line,) = warnings(caplog)
    assert line.startswith("no lineage is sent (runtime.lineage): ")
    assert why in line
    assert "cret" not in line.replace("secret", "")
