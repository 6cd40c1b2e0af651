"""What `holdfast logs` chooses and says, from pods as values. The real API server is in `tests/api`."""

import io
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from holdfast.errors import RetrySoonError, WorldChangeError
from holdfast.moments import stamp
from holdfast.protocol.names import app_id, attempt_name, executor_set
from holdfast_cli.cluster.app import AppUnknownError, ClusterApp, app_of
from holdfast_cli.cluster.log_pods import (
    FollowedLogs,
    LogSelection,
    PodLog,
    attempts_in,
    no_pods_message,
    selected_logs,
)
from holdfast_cli.cluster.log_reader import LogLine, LogQuery, LogReaders, OpenLog, stamp_of, without_stamp
from holdfast_cli.cluster.logs import AppPods, LogFollower, LogPrinter, LogRequest, NoLogError, show_once
from tests.cli.conftest import Holdfast
from tests.cli.test_status import NOW, app

Tree = dict[str, Any]
ALL = LogSelection(executors=None)


def pod(role: str, attempt: int, number: int = 0, run: str = "1", phase: str = "Running", **status: Any) -> Tree:
    name = attempt_name("ads", run, attempt) if role == "driver" else f"{executor_set('ads', run)}-{number}"
    run_number = int(run)
    return {
        "metadata": {
            "name": name,
            "uid": f"{run}-{attempt}-{name}",
            "creationTimestamp": stamp(NOW + 1_000_000 * run_number + 60_000 * attempt),
            "labels": {
                "holdfast.dev/app": "ads",
                "holdfast.dev/attempt": str(attempt),
                "holdfast.dev/app-id": app_id("ads", run),
                "spark-role": role,
            },
        },
        "status": {"phase": phase, **status},
    }


def labels(found: tuple[PodLog, ...]) -> list[tuple[int, str]]:
    return [(one.attempt, one.label) for one in found]


PODS = [
    pod("executor", 2, 10),
    pod("executor", 2, 9),
    pod("driver", 2),
    pod("driver", 1, phase="Failed"),
    {"metadata": {"name": "somebody-else-0", "labels": {"spark-role": "executor"}}},
    {},
]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (LogSelection(), [(2, "driver")]),
        (LogSelection(attempt=1), [(1, "driver")]),
        (LogSelection(previous=True), [(1, "driver")]),
        (LogSelection(attempt=3), []),
        (ALL, [(2, "driver"), (2, "9"), (2, "10")]),
        (LogSelection(driver=False, executors=None), [(2, "9"), (2, "10")]),
        (LogSelection(driver=False, executors=frozenset({10})), [(2, "10")]),
        (LogSelection(driver=False, executors=frozenset({9}), previous=True), [(2, "9")]),
        (LogSelection(driver=False, executors=frozenset({7})), []),
    ],
)
def test_the_pods_meant(asked: LogSelection, found: list[tuple[int, str]]) -> None:
    assert labels(selected_logs(attempts_in(PODS), asked)) == found


def test_a_new_run_counts_attempts_anew_and_is_the_newest() -> None:
    attempts = attempts_in([pod("driver", 1, run="2"), *PODS])
    assert [(one.number, one.run) for one in attempts][-1] == (1, app_id("ads", "2"))
    assert labels(selected_logs(attempts, LogSelection())) == [(1, "driver")]


def test_what_is_not_there_is_said_with_what_is_and_how_the_app_is() -> None:
    said = {"Ready": ("False", "NoProgress", "10 records wait")}
    text = no_pods_message(
        app_of(app(said=said)), attempts_in(PODS), LogSelection(attempt=7), "holdfast status ads -n apps"
    )
    assert text == (
        "there is no pod of the driver of attempt 7 of ads in namespace apps: pods are there of attempt 1 (driver), "
        "attempt 2 (driver, 2 executors); ads is not ready, NoProgress: 10 records wait (holdfast status ads -n apps); "
        "a log goes with its pod; what collects the logs of this cluster may still have it"
    )
    assert "it has no pods; ads is ready, Running" in no_pods_message(app_of(app()), (), LogSelection(), "")


def test_a_follower_reads_each_attempt_once_and_in_order() -> None:
    course = FollowedLogs(LogSelection())
    first = attempts_in([pod("driver", 1)])
    (one,) = course.due(first, ())
    course.last["driver"] = one
    assert course.due(first, {"driver"}) == []
    assert [again.attempt for again in course.due(first, ())] == [1], "its log ended though it runs: read on"
    ended = [pod("driver", 1, phase="Failed")]
    assert course.due(attempts_in(ended), ()) == []
    course.broken[one.pod.uid] = 1
    assert [again.attempt for again in course.due(attempts_in(ended), ())] == [1], "its log broke off"
    waits = attempts_in([*ended, pod("driver", 2, phase="Failed"), pod("driver", 3, phase="Pending")])
    assert [again.attempt for again in course.due(waits, ())] == [1], "it is tried again before it is left"
    course.broken[one.pod.uid] = 3
    (two,) = course.due(waits, ())
    assert two.attempt == 2, "an attempt between two looks is not left out"
    course.last["driver"] = two
    assert course.due(waits, ()) == []
    assert course.overtaken(waits, {"driver"}) == {"driver"}
    assert course.overtaken(first, ()) == frozenset()


@pytest.mark.parametrize(
    ("line", "nanos", "rest"),
    [
        (b"1970-01-01T00:00:01.5Z text", 1_500_000_000, b"text"),
        (b"1970-01-01T01:00:01.000000007+01:00 2", 1_000_000_007, b"2"),
        (b"1970-01-01T00:00:00Z", 0, b""),
        (b"1970-13-01T00:00:00Z text", None, b"text"),
        (b"text", None, b"text"),
    ],
)
def test_lines_and_their_moments(line: bytes, nanos: int | None, rest: bytes) -> None:
    assert (stamp_of(line), without_stamp(line)) == (nanos, rest)


def test_a_log_is_asked_for_as_the_api_takes_it() -> None:
    how = LogQuery(follow=True, tail=3, since_time=1_500_000_000, stamped=True)
    asked = {"follow": "true", "tailLines": "3", "sinceTime": "1970-01-01T00:00:01Z", "timestamps": "true"}
    assert how.query("driver") == {"container": "driver", **asked}


class Log:
    """A log that says what it is given, until it is ended or cut."""

    def __init__(self, *lines: bytes, over: bool = True, error: Exception | None = None) -> None:
        self._items: queue.Queue[bytes | None] = queue.Queue()
        self._error = error
        self.closed = 0
        for line in (*lines, *((None,) if over else ())):
            self._items.put(line)

    def __iter__(self) -> Iterator[bytes]:
        while (line := self._items.get(timeout=20)) is not None:
            yield line
        if self._error is not None:
            raise self._error

    def cut(self) -> None:
        self._items.put(None)

    def close(self) -> None:
        self.closed += 1


class Cluster:
    """Logs by pod, each opened once, and how they were asked for."""

    def __init__(self, **logs: list[Log]) -> None:
        self._logs = {name: list(some) for name, some in logs.items()}
        self.asked: list[tuple[str, LogQuery]] = []

    def __call__(self, source: PodLog, how: LogQuery) -> OpenLog | None:
        self.asked.append((f"a{source.attempt}_{source.label}", how))
        left = self._logs.get(f"a{source.attempt}_{source.label}")
        return left.pop(0) if left else None


def seen(*pods: Tree, **status: Any) -> AppPods:
    return AppPods(app_of(app(**status)), attempts_in(pods))


def shown(look: AppPods, asked: LogSelection, cluster: Cluster) -> tuple[int, str]:
    out = io.StringIO()
    with closing(LogReaders(cluster)) as readings:
        code = show_once(
            look, LogRequest(asked, LogQuery(), "hint"), readings, LogPrinter(out, prefixed=asked.several, strips=False)
        )
    return code, out.getvalue()


def test_lines_of_several_say_whose_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    logs = [Log(b"plans"), Log(b"works", b"on"), Log(error=WorldChangeError("the kubelet is away"))]
    cluster = Cluster(a2_driver=logs[:1], a2_9=logs[1:2], a2_10=logs[2:])
    code, out = shown(seen(*PODS), ALL, cluster)
    assert sorted(out.splitlines()) == ["[9] on", "[9] works", "[driver] plans"]
    assert code == 1
    assert capsys.readouterr().err.endswith("-10: the kubelet is away\n")
    assert [one.closed for one in logs] == [1, 1, 1]


def test_the_log_of_an_older_attempt_is_not_taken_for_the_newest(capsys: pytest.CaptureFixture[str]) -> None:
    said = {"Ready": ("False", "Unschedulable", "no node is free")}
    assert shown(seen(pod("driver", 1), said=said), LogSelection(), Cluster(a1_driver=[Log(b"x")])) == (0, "x\n")
    expected = "holdfast: attempt 2 has no pod (Unschedulable: no node is free); this is attempt 1\n"
    assert capsys.readouterr().err == expected


def test_a_pod_that_waits_says_for_what(capsys: pytest.CaptureFixture[str]) -> None:
    waiting = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
    waits = pod("driver", 2, phase="Pending", containerStatuses=[waiting])
    assert shown(seen(waits), LogSelection(), Cluster()) == (1, "")
    assert "has no log yet: ImagePullBackOff: no such image" in capsys.readouterr().err


def test_no_pod_at_all_is_an_error() -> None:
    with pytest.raises(NoLogError, match="there is no pod of the driver of ads"):
        shown(seen(), LogSelection(), Cluster())


def followed(looks: list[AppPods | Exception | Callable[[], AppPods]], asked: LogSelection, cluster: Cluster) -> str:
    """What is printed; the last look lasts."""

    def look() -> AppPods:
        now = looks.pop(0) if len(looks) > 1 else looks[0]
        if isinstance(now, Exception):
            raise now
        return now() if callable(now) else now

    out = io.StringIO()
    with closing(LogReaders(cluster)) as readings:
        paper = LogPrinter(out, prefixed=asked.several, strips=True)
        LogFollower(look, LogRequest(asked, LogQuery(stamped=True, tail=9), "hint"), readings, paper).follow(0.05)
    return out.getvalue()


COMPLETED = {"Ready": ("True", "Completed", "all is written")}
AT = b"2026-01-01T00:00:0%dZ "


def test_a_follower_goes_on_where_a_log_broke_off(capsys: pytest.CaptureFixture[str]) -> None:
    broken = Log(AT % 1 + b"one", AT % 2 + b"two", error=RetrySoonError("the kubelet is away"))
    again = Log(AT % 2 + b"two", AT % 3 + b"three", over=False)
    cluster = Cluster(a1_driver=[broken, again])

    def over() -> AppPods:
        if len(cluster.asked) < 2:
            return seen(pod("driver", 1))
        again.cut()
        return seen(pod("driver", 1, phase="Succeeded"), said=COMPLETED)

    assert (
        followed([seen(pod("driver", 1)), RetrySoonError("away"), over], LogSelection(), cluster) == "one\ntwo\nthree\n"
    )
    (_, first), (_, second) = cluster.asked
    assert (first.tail, first.since_time) == (9, None)
    assert (second.tail, second.since_time) == (None, stamp_of(AT % 2))
    err = capsys.readouterr().err
    assert "the kubelet is away; it is read on when it can be" in err
    assert err.endswith("holdfast: away\nholdfast: ads is completed\n")
    assert (broken.closed, again.closed) == (1, 1)


def test_a_follower_waits_for_the_next_attempt_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    failed = pod("driver", 1, phase="Failed")
    waits = seen(failed, said={"Ready": ("False", "WaitingToRestart", "the next attempt starts in 5 s")})
    second = pod("driver", 2, phase="Succeeded")
    cluster = Cluster(a1_driver=[Log(b"one")], a2_driver=[Log(b"two")])
    looks: list[Any] = [seen(pod("driver", 1)), seen(failed), waits, waits, seen(failed, second)]
    assert followed([*looks, AppUnknownError("gone")], LogSelection(), cluster) == "one\ntwo\n"
    said = capsys.readouterr().err.splitlines()
    assert said.count("holdfast: waiting for the driver of ads: the next attempt starts in 5 s") == 1
    name = attempt_name("ads", "1", 2)
    assert f"holdfast: the driver of attempt 1 is over; attempt 2 goes on in {name}" in said
    assert said[-1] == "holdfast: ads is deleted"
    assert cluster.asked[-1][1].tail is None, "a later attempt is read from its beginning"


def test_a_log_that_does_not_end_with_its_lost_node_is_left_for_the_next_attempts() -> None:
    silent, second = Log(b"one", over=False), Log(b"two")
    cluster = Cluster(a1_driver=[silent], a2_driver=[second])
    both = seen(pod("driver", 1), pod("driver", 2))

    def over() -> AppPods:
        done = len(cluster.asked) == 2
        return seen(pod("driver", 2, phase="Succeeded"), said=COMPLETED) if done else both

    assert followed([seen(pod("driver", 1)), over], LogSelection(), cluster) == "one\ntwo\n"
    assert (silent.closed, second.closed) == (1, 1)


def test_following_an_attempt_ends_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    looks: list[Any] = [seen(pod("driver", 1, phase="Failed"), pod("driver", 2))]
    assert followed(looks, LogSelection(attempt=1), Cluster(a1_driver=[Log(b"one")])) == "one\n"
    assert capsys.readouterr().err == "holdfast: attempt 1 of ads has ended\n"
    with pytest.raises(NoLogError, match="of attempt 7"):
        followed(looks, LogSelection(attempt=7), Cluster())


def test_a_reader_that_is_closed_lets_go_of_every_log() -> None:
    logs = [Log(*(b"x" for _ in range(5_000)), over=False), Log(over=False)]
    before = threading.active_count()
    with closing(LogReaders(Cluster(a2_9=logs[:1], a2_10=logs[1:]))) as readings:
        for source in selected_logs(attempts_in(PODS), LogSelection(driver=False, executors=None)):
            readings.start(source, LogQuery())
        item = readings.next(20)
        assert isinstance(item, LogLine)
    assert [one.closed for one in logs] == [1, 1]
    assert threading.active_count() == before


def test_on_a_terminal_a_log_cannot_move_the_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    (source,) = selected_logs(attempts_in(PODS), LogSelection())
    line = LogLine(source, b"\x1b[2J\ta\xff")
    LogPrinter(out, prefixed=False, strips=False).line(line)
    monkeypatch.setattr(out, "isatty", lambda: True)
    LogPrinter(out, prefixed=False, strips=False).line(line)
    assert out.getvalue() == "\x1b[2J\ta\ufffd\n [2J\ta\ufffd\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-f", "--previous"), "leave out -f, or --previous"),
        (("--all", "--previous"), "leave out --all"),
        (("--attempt", "2", "--previous"), "to see attempt 2, leave it out"),
        (("--all", "--executors"), "not allowed with"),
        (("--attempt", "0"), "attempts are counted from 1"),
        (("--tail", "-1"), "-1 is no number from 0"),
        (("--since", "soon"), "soon is no duration; write 30s, 10m"),
        (("--kubeconfig", "none"), "there is no kubeconfig at none"),
    ],
)
def test_what_cannot_be_asked_is_said(holdfast: Holdfast, arguments: tuple[str, ...], said: str) -> None:
    ran = holdfast("logs", "ads", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_an_app_is_a_value() -> None:
    assert isinstance(seen(*PODS).app, ClusterApp)
