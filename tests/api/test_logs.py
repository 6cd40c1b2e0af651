"""`holdfast logs` on a real API server, which asks a kubelet's stand-in for what containers wrote."""

import io
import threading
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout

import pytest

from holdfast.protocol.names import executor_set
from holdfast_cli.main import main
from tests.api.admin import APPS, Admin
from tests.api.conftest import Site
from tests.api.kubelet_logs import KubeletLogs, kubelet_logs
from tests.api.plane import Plane
from tests.api.test_life import ready
from tests.api.test_status import may
from tests.cli.conftest import Ran
from tests.waiting import patience, wait_until

EXECUTOR = "spark-kubernetes-executor"
Logs = Callable[..., Ran]


@pytest.fixture
def written(plane: Plane) -> Iterator[KubeletLogs]:
    with kubelet_logs(plane, Admin(plane)) as logs:
        yield logs


@pytest.fixture
def logs(site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Logs:
    """Run `holdfast logs ads` as this user, in the namespace of the test."""

    def run(*arguments: str, user: str = "admin", app: str = "ads") -> Ran:
        monkeypatch.setenv("KUBECONFIG", str(site.plane.kubeconfig(user)))
        code = main(["logs", app, *arguments, "-n", site.namespace])
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return run


def test_the_driver_of_the_newest_attempt_is_shown(site: Site, written: KubeletLogs, logs: Logs) -> None:
    with site.operator():
        site.apply()
        driver = ready(site)
    written.say(driver, *(f"line {at}" for at in range(30)))
    assert logs() == Ran(0, "".join(f"line {at}\n" for at in range(30)), "")
    assert logs("--tail", "2", "--timestamps", "--since", "10m").out == (
        "2027-01-15T08:00:02.800000000Z line 28\n2027-01-15T08:00:02.900000000Z line 29\n"
    )
    assert written.asked[-1][1]["sinceSeconds"] == "600"


def test_executors_are_named_by_number_and_said_before_each_line(site: Site, written: KubeletLogs, logs: Logs) -> None:
    with site.operator():
        site.apply(runtime={"checkpoint": {"location": "s3a://bucket/ads"}, "executors": {"count": 2}})
        driver = ready(site)
    wait_until(lambda: len(site.alive("executor")) == 2, 20, "two executors")
    written.say(driver, "plans")
    for number in range(2):
        name = f"{executor_set('ads', '1')}-{number}"
        written.say(name, f"works {number}", container=EXECUTOR)
        written.say(name, "was killed", container="previous")
    assert logs("--executor", "1").out == "works 1\n"
    assert sorted(logs("--executors").out.splitlines()) == ["[0] works 0", "[1] works 1"]
    assert sorted(logs("--all").out.splitlines()) == ["[0] works 0", "[1] works 1", "[driver] plans"]
    assert logs("--executor", "0", "--previous").out == "was killed\n"
    missing = logs("--executor", "1", "--executor", "7")
    assert (missing.code, missing.out) == (1, "[1] works 1\n")
    assert missing.err == "holdfast: attempt 1 of ads has no executor 7\n"


def test_following_goes_on_over_attempts_until_the_app_completes(
    site: Site, written: KubeletLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    with site.operator():
        site.apply(restart={"backoff": {"initial": "1s"}})
        first = ready(site)
        with Followed(site, monkeypatch, "--tail", "1") as followed:
            written.say(first, "old", "one")
            followed.until("one\n")
            written.say(first, "two")
            followed.until("two\n")
            written.cut_off(first)
            written.say(first, "three")
            followed.until("three\n")
            written.end(first)
            site.kubelet.end(first, 1, '{"failed": "world", "message": "no broker"}')
            wait_until(lambda: site.app()["status"].get("attempt") == 2, 30, "a second attempt")
            second = ready(site)
            written.say(second, "four", "five")
            followed.until("five\n")
            written.end(second)
            site.kubelet.end(second, 0, '{"ended": "completed"}')
            assert followed.ended() == 0
    assert followed.out.getvalue() in ("old\none\ntwo\nthree\nfour\nfive\n", "one\ntwo\nthree\nfour\nfive\n")
    assert f"the driver of attempt 1 is over; attempt 2 goes on in {second}" in followed.err.getvalue()
    assert "ads is completed" in followed.err.getvalue()
    wait_until(lambda: written.following == 0, 20, "every follower has let go")


def test_following_ends_with_the_app(site: Site, written: KubeletLogs, monkeypatch: pytest.MonkeyPatch) -> None:
    with site.operator():
        site.apply()
        driver = ready(site)
        written.say(driver, "one")
        with Followed(site, monkeypatch, "--all") as followed:
            followed.until("[driver] one\n")
            site.admin.delete(f"{APPS.format(site.namespace)}/ads")
            wait_until(lambda: not site.app(), 30, "the app is gone")
            assert followed.ended() == 0
    assert "ads is deleted" in followed.err.getvalue()
    wait_until(lambda: written.following == 0, 20, "every follower has let go")


def test_missing_pods_are_said_with_others_and_the_apps_state(site: Site, written: KubeletLogs, logs: Logs) -> None:
    with site.operator():
        site.apply(restart={"backoff": {"initial": "1s"}})
        site.kubelet.end(ready(site), 1, '{"failed": "world", "message": "no broker"}')
        wait_until(lambda: site.app()["status"].get("attempt") == 2, 30, "a second attempt")
        second = ready(site)
        written.say(second, "here")
        absent = logs("--attempt", "7")
        assert (absent.code, absent.out) == (1, "")
        assert "there is no pod of the driver of attempt 7 of ads" in absent.err
        assert "attempt 2 (driver, " in absent.err
        assert logs("--attempt", "2").out == "here\n"
        site.apply(suspend=True)
        site.until("Ready", "False", "Suspended")
    ran = logs()
    assert (ran.code, ran.out) == (1, "")
    assert "it has no pods; ads is not ready, Suspended: " in ran.err
    assert f"(holdfast status ads -n {site.namespace})" in ran.err
    unknown = logs(app="adz")
    assert unknown.code == 1
    assert "did you mean ads?" in unknown.err


def test_a_missing_right_is_named(site: Site, written: KubeletLogs, logs: Logs) -> None:
    rule = {"apiGroups": ["holdfast.dev"], "resources": ["streamapps"], "verbs": ["get"]}
    may(site, "reader", rule, {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]})
    with site.operator():
        site.apply()
        ready(site)
    ran = logs(user="reader")
    assert (ran.code, ran.out, written.asked) == (1, "", [])
    assert "ask whoever runs the cluster for the right to get pods/log" in ran.err


class Followed:
    """`holdfast logs ads -f` in a thread."""

    def __init__(self, site: Site, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
        monkeypatch.setenv("KUBECONFIG", str(site.plane.kubeconfig()))
        monkeypatch.setattr("holdfast_cli.cluster.logs_command._EVERY", 0.2)
        self._line = ["logs", "ads", "-f", "-n", site.namespace, *arguments]
        self.out, self.err = io.StringIO(), io.StringIO()
        self._code: int | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        with redirect_stdout(self.out), redirect_stderr(self.err):
            self._code = main(self._line)

    def __enter__(self) -> "Followed":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert not self._thread.is_alive()

    def until(self, text: str) -> None:
        """Wait for this end of what was printed."""
        wait_until(lambda: self.out.getvalue().endswith(text), 30, f"{text} at the end of the log")

    def ended(self) -> int | None:
        """Wait for its end."""
        self._thread.join(patience(30))
        return self._code
