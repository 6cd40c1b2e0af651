"""What `holdfast logs` chooses and says, from pods as values. The real API server is in `tests/api`."""

import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest

from holdfast.api_answers import NotAllowedError
from holdfast.errors import HoldfastError, RetrySoonError, WorldChangeError
from holdfast.protocol.names import app_id, attempt_name, executor_set
from holdfast.times import stamp
from holdfast_cli.cluster.app import AppUnknownError, app_of
from holdfast_cli.cluster.logs_command import show_once
from holdfast_cli.cluster.pod_logs import (
    AppPods,
    LogFollower,
    LogSelection,
    OpenLog,
    PodLog,
    attempts_in,
    line_time,
    no_pods_message,
    print_line,
    selected_logs,
)
from tests.cli.conftest import Holdfast
from tests.cli.status_objects import NOW, app
from tests.error_codes import has_code
from tests.waiting import patience

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


def labels(pod_logs: tuple[PodLog, ...]) -> list[tuple[int, str]]:
    return [(one.attempt, one.label) for one in pod_logs]


PODS = [
    pod("executor", 2, 10),
    pod("executor", 2, 9),
    pod("driver", 2),
    pod("driver", 1, phase="Failed"),
    {"metadata": {"name": "somebody-else-0", "labels": {"spark-role": "executor"}}},
    {},
]


@pytest.mark.parametrize(
    ("selection", "expected"),
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
def test_the_pods_meant(selection: LogSelection, expected: list[tuple[int, str]]) -> None:
    assert labels(selected_logs(attempts_in(PODS), selection)) == expected


def test_a_new_run_counts_attempts_anew_and_is_the_newest() -> None:
    attempts = attempts_in([pod("driver", 1, run="2"), *PODS])
    assert (attempts[-1][0].attempt, attempts[-1][0].run) == (1, app_id("ads", "2"))
    assert labels(selected_logs(attempts, LogSelection())) == [(1, "driver")]


def test_missing_pods_are_said_with_others_and_the_apps_state() -> None:
    verdicts = {"Ready": ("False", "NoProgress", "10 records wait")}
    text = no_pods_message(seen(*PODS, verdicts=verdicts), LogSelection(attempt=7), "holdfast status ads -n apps")
    assert text == (
        "there is no pod of the driver of attempt 7 of ads in namespace apps: pods are there of attempt 1 (driver), "
        "attempt 2 (driver, 2 executors); ads is not ready, NoProgress: 10 records wait (holdfast status ads -n apps); "
        "a log goes with its pod; what collects the logs of this cluster may still have it"
    )
    assert "it has no pods; ads is ready, Running" in no_pods_message(seen(), LogSelection(), "")


@pytest.mark.parametrize(
    ("line", "at", "rest"),
    [
        (b"1970-01-01T00:00:01.5Z text", "1970-01-01T00:00:01.5Z", b"text"),
        (b"1970-01-01T01:00:01.000000007+01:00 2", "1970-01-01T01:00:01.000000007+01:00", b"2"),
        (b"1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z", b""),
        (b"1970-13-01T00:00:00Z text", None, b"1970-13-01T00:00:00Z text"),
        (b"text", None, b"text"),
    ],
)
def test_lines_and_when_they_were_written(line: bytes, at: str | None, rest: bytes) -> None:
    when, text = line_time(line)
    assert (when and when[1], text) == (at, rest)


def test_lines_are_ordered_to_the_nanosecond_in_any_time_zone() -> None:
    texts = (b"00:59:59.9+01:00", b"00:00:00Z", b"01:00:00.000000001+01:00", b"01:00:00.000000002+01:00", b"00:00:01Z")
    times = [line_time(b"2026-01-01T" + text)[0] for text in texts]
    assert times == sorted(times, key=lambda at: at or ())


class Log:
    """A log that says what it is given, until it is ended or cut."""

    def __init__(self, *lines: bytes, over: bool = True, error: Exception | None = None) -> None:
        self._items: queue.Queue[bytes | None] = queue.Queue()
        self._error = error
        self.closed = 0
        for line in (*lines, *((None,) if over else ())):
            self._items.put(line)

    def __iter__(self) -> Iterator[bytes]:
        while (line := self._items.get(timeout=patience(20))) is not None:
            yield line
        if self._error is not None:
            raise self._error

    def cut(self) -> None:
        self._items.put(None)

    def close(self) -> None:
        self.closed += 1


class Cluster:
    """Logs by pod, each opened once, and how they were asked for; a pod without one more is gone."""

    def __init__(self, **logs: list[Log]) -> None:
        self._logs = {name: list(parts) for name, parts in logs.items()}
        self.asked: list[tuple[str, Mapping[str, str]]] = []

    def __call__(self, log: PodLog, query: Mapping[str, str]) -> OpenLog | None:
        self.asked.append((f"a{log.attempt}_{log.label}", query))
        left = self._logs.get(f"a{log.attempt}_{log.label}")
        return left.pop(0) if left else None


def seen(*pods: Tree, **status: Any) -> AppPods:
    return AppPods(app_of(app(**status)), attempts_in(pods))


Capture = pytest.CaptureFixture[str]


def shown(look: AppPods, selection: LogSelection, cluster: Cluster) -> int:
    return show_once(look, cluster, selection, {}, "hint")


def test_lines_of_several_say_whose_they_are(capsys: Capture) -> None:
    logs = [Log(b"plans"), Log(b"works", b"on"), Log(error=WorldChangeError("the kubelet is away"))]
    cluster = Cluster(a2_driver=logs[:1], a2_9=logs[1:2], a2_10=logs[2:])
    assert shown(seen(*PODS), ALL, cluster) == 1
    out, err = capsys.readouterr()
    assert out == "[driver] plans\n[9] works\n[9] on\n"
    assert err.endswith("-10: the kubelet is away\n")
    assert [one.closed for one in logs] == [1, 1, 1]


def test_an_older_attempts_log_is_not_taken_for_the_newest(capsys: Capture) -> None:
    verdicts = {"Ready": ("False", "Unschedulable", "no node is free")}
    assert shown(seen(pod("driver", 1), verdicts=verdicts), LogSelection(), Cluster(a1_driver=[Log(b"x")])) == 0
    expected = "holdfast: attempt 2 has no pod (Unschedulable: no node is free); this is attempt 1\n"
    assert capsys.readouterr() == ("x\n", expected)


def test_a_pod_that_waits_says_for_what(capsys: Capture) -> None:
    waiting = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
    waits = pod("driver", 2, phase="Pending", containerStatuses=[waiting])
    assert shown(seen(waits), LogSelection(), Cluster()) == 1
    assert "has no log yet: ImagePullBackOff: no such image" in capsys.readouterr().err


def test_no_pod_at_all_is_an_error() -> None:
    with pytest.raises(WorldChangeError, match="there is no pod of the driver of ads", check=has_code("NoLogError")):
        shown(seen(), LogSelection(), Cluster())


Looks = list[AppPods | Exception | Callable[[], AppPods]]


def follow(looks: Looks, selection: LogSelection, cluster: Cluster) -> None:
    """Follow with these looks; the last one lasts."""

    def look() -> AppPods:
        now = looks.pop(0) if len(looks) > 1 else looks[0]
        if isinstance(now, Exception):
            raise now
        return now() if callable(now) else now

    with closing(LogFollower(cluster, selection, {"tailLines": "9"})) as follower:
        follower.follow(look, 0.05, "hint")


COMPLETED = {"Ready": ("True", "Completed", "all is written")}
AT = b"2026-01-01T00:00:0%dZ "


def test_a_follower_goes_on_where_a_log_broke_off(capsys: Capture) -> None:
    broken = Log(AT % 1 + b"one", AT % 2 + b"two", error=RetrySoonError("the kubelet is away"))
    again = Log(AT % 2 + b"two", AT % 3 + b"three", over=False)
    cluster = Cluster(a1_driver=[broken, again])

    def over() -> AppPods:
        if len(cluster.asked) < 2:
            return seen(pod("driver", 1))
        again.cut()
        return seen(pod("driver", 1, phase="Succeeded"), verdicts=COMPLETED)

    follow([seen(pod("driver", 1)), RetrySoonError("away"), over], LogSelection(), cluster)
    (_, first), (_, second), *_ = cluster.asked
    assert first == {"tailLines": "9", "follow": "true", "timestamps": "true"}
    assert second == {"sinceTime": "2026-01-01T00:00:02Z", "follow": "true", "timestamps": "true"}
    out, err = capsys.readouterr()
    assert out == "one\ntwo\nthree\n"
    assert "the kubelet is away; it is read on when it can be" in err
    assert err.startswith("holdfast: away\n")
    assert err.endswith("holdfast: ads is completed\n")
    assert (broken.closed, again.closed) == (1, 1)


def test_a_follower_waits_for_the_next_attempt_and_says_so(capsys: Capture) -> None:
    failed = pod("driver", 1, phase="Failed")
    waits = seen(failed, verdicts={"Ready": ("False", "WaitingToRestart", "the next attempt starts in 5 s")})
    second = pod("driver", 2, phase="Succeeded")
    cluster = Cluster(a1_driver=[Log(b"one")], a2_driver=[Log(b"two")])
    looks: Looks = [seen(pod("driver", 1)), seen(failed), waits, waits, waits, seen(failed, second)]
    follow([*looks, AppUnknownError("gone")], LogSelection(), cluster)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == "one\ntwo\n"
    assert lines.count("holdfast: waiting for the driver of ads: the next attempt starts in 5 s") == 1
    name = attempt_name("ads", "1", 2)
    assert f"holdfast: the driver of attempt 1 is over; attempt 2 goes on in {name}" in lines
    assert lines[-1] == "holdfast: ads is deleted"
    assert "tailLines" not in cluster.asked[-1][1], "a later attempt is read from its beginning"


def test_an_attempt_between_two_looks_is_not_left_out(capsys: Capture) -> None:
    ended = [pod("driver", attempt, phase="Failed") for attempt in (1, 2)]
    logs = {f"a{attempt}_driver": [Log(b"%d" % attempt)] for attempt in (1, 2, 3)}
    last = seen(*ended, pod("driver", 3, phase="Succeeded"), verdicts=COMPLETED)
    follow([seen(pod("driver", 1)), last], LogSelection(), Cluster(**logs))
    assert capsys.readouterr().out == "1\n2\n3\n"


def test_a_log_that_ends_before_its_pod_is_read_on(capsys: Capture) -> None:
    cut_log, whole_log = Log(AT % 1 + b"one"), Log(AT % 1 + b"one", AT % 2 + b"two")
    over = seen(pod("driver", 1, phase="Succeeded"), verdicts=COMPLETED)
    follow([*[seen(pod("driver", 1))] * 9, over], LogSelection(), Cluster(a1_driver=[cut_log, whole_log]))
    assert capsys.readouterr().out == "one\ntwo\n"


def test_last_lines_of_an_ended_pods_broken_log_are_read(capsys: Capture) -> None:
    away = RetrySoonError("the kubelet is away")
    logs = [Log(AT % 1 + b"one", error=away), Log(error=away), Log(AT % 1 + b"one", AT % 2 + b"two")]
    cluster = Cluster(a1_driver=logs, a2_driver=[Log(b"three")])
    pods = pod("driver", 1, phase="Failed"), pod("driver", 2, phase="Succeeded")
    follow([seen(pod("driver", 1)), seen(*pods, verdicts=COMPLETED)], LogSelection(), cluster)
    out, err = capsys.readouterr()
    assert out == "one\ntwo\nthree\n"
    assert err.count("the kubelet is away") == 1, "it is said once"


def test_a_log_that_became_unreadable_is_left_for_later_attempts(capsys: Capture) -> None:
    away = [Log(error=RetrySoonError("the kubelet is away")) for _ in range(99)]
    cluster = Cluster(a1_driver=away, a2_driver=[Log(b"two")])
    two_attempts = seen(pod("driver", 1), pod("driver", 2, phase="Succeeded"), verdicts=COMPLETED)
    follow([seen(pod("driver", 1)), two_attempts], LogSelection(), cluster)
    assert capsys.readouterr().out == "two\n"
    assert 2 < [name for name, _ in cluster.asked].count("a1_driver") < 9


def test_a_lost_nodes_endless_log_is_left_for_later_attempts(capsys: Capture) -> None:
    silent, second = Log(b"one", over=False), Log(b"two")
    cluster = Cluster(a1_driver=[silent], a2_driver=[second])
    two_attempts = seen(pod("driver", 1), pod("driver", 2))

    def over() -> AppPods:
        done = "a2_driver" in dict(cluster.asked)
        return seen(pod("driver", 2, phase="Succeeded"), verdicts=COMPLETED) if done else two_attempts

    follow([seen(pod("driver", 1)), over], LogSelection(), cluster)
    assert capsys.readouterr().out == "one\ntwo\n"
    assert (silent.closed, second.closed) == (1, 1)


def test_following_an_attempt_ends_with_it(capsys: Capture) -> None:
    looks: Looks = [seen(pod("driver", 1, phase="Failed"), pod("driver", 2))]
    follow(looks, LogSelection(attempt=1), Cluster(a1_driver=[Log(b"one")]))
    assert capsys.readouterr() == ("one\n", "holdfast: attempt 1 of ads has ended\n")
    with pytest.raises(WorldChangeError, match="of attempt 7", check=has_code("NoLogError")):
        follow(looks, LogSelection(attempt=7), Cluster())


@pytest.mark.parametrize("error", [NotAllowedError("you may not get pods/log"), WorldChangeError("no such container")])
def test_only_what_the_user_has_to_change_ends_it(error: HoldfastError, capsys: Capture) -> None:
    over = seen(pod("driver", 1, phase="Succeeded"), verdicts=COMPLETED)
    looks: Looks = [seen(pod("driver", 1)), seen(pod("driver", 1)), over]
    cluster = Cluster(a1_driver=[Log(error=error), Log(b"one")])
    if isinstance(error, NotAllowedError):
        with pytest.raises(NotAllowedError, match="you may not"):
            follow(looks, LogSelection(), cluster)
    else:
        follow(looks, LogSelection(), cluster)
        assert capsys.readouterr().out == "one\n"


def test_nobody_reads_what_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: str) -> int:
        raise BrokenPipeError

    monkeypatch.setattr(sys.stdout, "write", broken)
    with pytest.raises(BrokenPipeError):
        follow([seen(pod("driver", 1))], LogSelection(), Cluster(a1_driver=[Log(b"one")]))


def test_a_follower_that_is_closed_lets_go_of_every_log(capsys: Capture) -> None:
    logs = [Log(*(b"x" for _ in range(5_000)), over=False), Log(over=False)]
    before = threading.active_count()

    def interrupted() -> AppPods:
        deadline = time.monotonic() + patience(20)
        while "x" not in capsys.readouterr().out and time.monotonic() < deadline:
            time.sleep(0.01)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follow(
            [seen(*PODS), interrupted],
            LogSelection(driver=False, executors=None),
            Cluster(a2_9=logs[:1], a2_10=logs[1:]),
        )
    assert [one.closed for one in logs] == [1, 1]
    assert threading.active_count() == before


def test_on_a_terminal_a_log_cannot_move_the_cursor(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    (log,) = selected_logs(attempts_in(PODS), LogSelection())
    print_line(log, b"\x1b[2J\ta\xff", LogSelection())
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_line(log, b"\x1b[2J\ta\xff", LogSelection())
    assert capsys.readouterr().out == "\x1b[2J\ta\ufffd\n [2J\ta\ufffd\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
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
def test_what_cannot_be_asked_is_said(holdfast: Holdfast, arguments: tuple[str, ...], message: str) -> None:
    ran = holdfast("logs", "ads", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
