"""`holdfast drain` and `holdfast resume` on a real API server, with the operator at work."""

import json
from collections.abc import Callable

import pytest

from holdfast_cli.main import main
from tests.api.conftest import Site
from tests.api.test_life import ready
from tests.api.test_status import may
from tests.cli.conftest import Ran

Command = Callable[..., Ran]


@pytest.fixture
def command(site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command about `ads` as this user, in the namespace of the test."""

    def run(verb: str, *arguments: str, user: str = "admin", app: str = "ads") -> Ran:
        monkeypatch.setenv("KUBECONFIG", str(site.plane.kubeconfig(user)))
        monkeypatch.setattr("holdfast_cli.cluster.drain_command._EVERY", 0.1)
        code = main([verb, app, *arguments, "-n", site.namespace])
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return run


def test_an_app_is_drained_and_taken_up_again(site: Site, command: Command) -> None:
    with site.operator():
        site.apply()
        ready(site)
        drained = command("drain", "--timeout", "60s")
        assert (drained.code, drained.err) == (0, "")
        assert site.alive() == []
        assert site.app()["spec"]["suspend"] is True
        *_, last, over, back, patch = drained.out.splitlines()
        assert last.startswith("Suspended: ")
        assert over.startswith("ads is suspended: the attempt was drained; its last batch is 1; ")
        assert back == f"take it up again: holdfast resume ads -n {site.namespace}"
        assert patch.endswith(f"""-p '{{"spec":{{"suspend":false}}}}' -n {site.namespace}""")
        again = command("drain")
        assert (again.code, again.out.splitlines()[0]) == (0, "ads is suspended already")
        resumed = command("resume", "--timeout", "60s")
        assert (resumed.code, resumed.err) == (0, "")
        assert resumed.out.splitlines()[-1].startswith("ads is ready: ")
        assert site.app()["status"]["attempt"] == 2
        assert command("resume").out == "ads is not suspended\n"


def test_each_change_is_a_line_of_json(site: Site, command: Command) -> None:
    with site.operator():
        site.apply()
        ready(site)
        ran = command("drain", "-o", "json")
    lines = [json.loads(line) for line in ran.out.splitlines()]
    assert ran.code == 0
    assert [one["suspended"] for one in (lines[0], lines[-1])] == [False, True]
    assert lines[-1]["ended"] == "the attempt was drained"


def test_a_drain_that_nobody_carries_out_ends_by_its_timeout(site: Site, command: Command) -> None:
    site.apply()
    ran = command("drain", "--timeout", "1s")
    assert ran.code == 1
    assert f"does it run, and does it watch namespace {site.namespace}?" in ran.err
    assert f"see holdfast status ads -n {site.namespace}" in ran.err
    assert command("resume", "--no-wait").out.startswith("ads is being resumed; see holdfast status ads")
    assert site.app()["spec"]["suspend"] is False


def test_who_may_not_change_an_app_learns_the_missing_right(site: Site, command: Command) -> None:
    may(site, "watcher", {"apiGroups": ["holdfast.dev"], "resources": ["streamapps"], "verbs": ["get"]})
    site.apply()
    ran = command("drain", user="watcher")
    assert (ran.code, ran.out) == (1, "")
    assert "ask whoever runs the cluster for the right to patch streamapps.holdfast.dev" in ran.err
    assert "suspend" not in site.app()["spec"]
    assert command("drain", app="adz").code == 1
