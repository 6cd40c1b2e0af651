"""What `holdfast drain` and `holdfast resume` say of looks that are given. The real thing is in `tests/api`."""

import json
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import RetrySoonError, UserActionError
from holdfast_cli.cluster.app import APPS, ObjectKind
from holdfast_cli.cluster.drain_command import set_suspend
from holdfast_cli.cluster.target import ClusterTarget, NamespaceTarget
from tests.cli.conftest import Holdfast
from tests.cli.status_objects import Trees, app, event, report

Tree = dict[str, Any]
TARGET = NamespaceTarget(ClusterTarget((), None, "apps"), "apps", ("-n", "apps", "--context", "my test"))
DRAINING = {
    "Ready": ("False", "Draining", "the attempt ends: spec.suspend is true"),
    "DriverRunning": ("True", "Draining", "it finishes its batch"),
}
RESTS = {"Ready": ("False", "Suspended", "it rests"), "DriverRunning": ("False", "Suspended", "there is no driver")}
STALLED = {"Ready": ("False", "CheckpointMissing", "give a folder"), "Stalled": ("True", "CheckpointMissing", "give")}
ASKED = event(9_000, "Suspended", "spec.suspend is true")
ENDED = event(5_000, "Draining", "the attempt was drained")


def ads(verdicts: dict[str, tuple[str, str, str]] | None = None, *, suspend: bool, generation: int = 3) -> Tree:
    return app(verdicts=verdicts, generation=generation) | {"spec": {"suspend": suspend}}


class Story:
    """Looks, one after the other; the last one lasts. A look may be an error instead."""

    def __init__(self, *looks: Trees | Exception) -> None:
        self._looks = list(looks)
        self._now: Trees = Trees()
        self.written: list[bool] = []
        self.pauses = 0
        self.pause: Callable[[], None] = self._paused

    def _paused(self) -> None:
        self.pauses += 1

    def get(self, kind: ObjectKind, namespace: str, name: str) -> Tree | None:
        if kind == APPS:
            look = self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]
            if isinstance(look, Exception):
                raise look
            self._now = look
        return self._now.get(kind, namespace, name)

    def find(self, kind: ObjectKind, namespace: str | None, query: dict[str, str]) -> list[Tree]:
        return self._now.find(kind, namespace, query)

    def patch(self, _: ObjectKind, __: str, ___: str, body: Tree) -> Tree | None:
        self.written.append(body["spec"]["suspend"])
        return {}

    def run(self, verb: str, *, wait: bool = True, timeout: float | None = None, output: str = "text") -> int:
        options = Namespace(verb=verb, app="ads", wait=wait, timeout=timeout, output=output, color="auto")
        return set_suspend(self, TARGET, options, self.pause)


def test_a_drain_shows_progress_its_end_and_the_way_back(capsys: pytest.CaptureFixture[str]) -> None:
    story = Story(
        Trees(ads(suspend=False), maps=(report(),), events=()),
        Trees(ads(suspend=True, generation=4), maps=(report(),)),
        RetrySoonError("the API server is away"),
        Trees(ads(DRAINING, suspend=True), maps=(report(),), events=(ASKED,)),
        Trees(ads(DRAINING, suspend=True), maps=(report(),), events=(ASKED,)),
        Trees(ads(RESTS, suspend=True), maps=(report(batch=1042, lag=0),), events=(ASKED,)),
        Trees(ads(RESTS, suspend=True), maps=(report(batch=1042, lag=0),), events=(ASKED, ENDED)),
    )
    assert story.run("drain") == 0
    assert story.written == [True]
    out, err = capsys.readouterr()
    kubectl = """kubectl patch streamapp ads --type=merge -p '{"spec":{"suspend":false}}' -n apps --context 'my test'"""
    facts = "batch 1,041 is committed; 12 records unread"
    assert out.splitlines() == [
        f"Waiting: the operator has not looked at generation 4 yet; what follows is older; {facts}",
        f"Draining: the attempt ends: spec.suspend is true; {facts}",
        "Suspended: it rests",
        "Suspended: it rests",
        "ads is suspended: the attempt was drained; its last batch is 1,042; its state is kept",
        "take it up again: holdfast resume ads -n apps --context 'my test'",
        f"or with:          {kubectl}",
    ]
    assert err == "holdfast: the API server is away\n"


def test_an_app_that_rests_already_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    story = Story(Trees(ads(RESTS, suspend=True)))
    assert story.run("drain") == 0
    assert (story.written, story.pauses) == ([], 0)
    assert capsys.readouterr().out.startswith("ads is suspended already\ntake it up again: holdfast resume ads -n apps")


def test_a_drain_that_somebody_else_began_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    story = Story(Trees(ads(DRAINING, suspend=True)), Trees(ads(RESTS, suspend=True)))
    assert story.run("drain") == 0
    assert story.written == []
    assert "ads is suspended" in capsys.readouterr().out


def test_an_unannounced_end_is_not_waited_for_long() -> None:
    story = Story(Trees(ads(suspend=False)), Trees(ads(DRAINING, suspend=True)), Trees(ads(RESTS, suspend=True)))
    assert story.run("drain") == 0
    assert story.pauses == 4


@pytest.mark.parametrize(
    ("verb", "look", "message"),
    [
        ("drain", ads(suspend=False), "somebody set spec.suspend to false meanwhile"),
        ("resume", ads(suspend=True), "somebody set spec.suspend to true meanwhile"),
        ("resume", ads(STALLED, suspend=False), "ads: does not run: CheckpointMissing: give a folder"),
        (
            "drain",
            ads({"Ready": ("False", "InvalidSpec", "runtime: unknown")}, suspend=True),
            "it can't be drained as long as its spec is invalid: runtime: unknown",
        ),
    ],
)
def test_what_cannot_come_is_not_waited_for(
    verb: str, look: Tree, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = ads(suspend=False) if verb == "drain" else ads(RESTS, suspend=True)
    story = Story(Trees(before), Trees(look))
    assert story.run(verb) == 1
    err = capsys.readouterr().err
    assert message in err
    assert err.endswith("; see holdfast status ads -n apps --context 'my test'\n")


def test_a_resumed_app_is_waited_for_until_it_is_ready(capsys: pytest.CaptureFixture[str]) -> None:
    starting = {"Ready": ("False", "Starting", "attempt 3 starts"), "DriverRunning": ("False", "Starting", "it starts")}
    story = Story(Trees(ads(RESTS, suspend=True)), Trees(ads(starting, suspend=False)), Trees(ads(suspend=False)))
    assert story.run("resume") == 0
    assert story.written == [False]
    assert capsys.readouterr().out.splitlines() == [
        "Starting: attempt 3 starts",
        "Running: attempt 2 commits batches",
        "ads is ready: attempt 2 commits batches",
    ]
    assert Story(Trees(ads(suspend=False))).run("resume") == 0
    assert capsys.readouterr().out == "ads is not suspended\n"


def test_who_does_not_wait_is_told_how_to_look(capsys: pytest.CaptureFixture[str]) -> None:
    story = Story(Trees(ads(suspend=False)), Trees(ads(suspend=True, generation=4)))
    assert story.run("drain", wait=False) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "ads is being drained; see holdfast status ads -n apps --context 'my test'"
    assert out[1].startswith("take it up again: ")


def test_a_timeout_says_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    story = Story(Trees(ads(suspend=False)), Trees(ads(DRAINING, suspend=True)))
    assert story.run("drain", timeout=0) == 1
    message = (
        "ads: is being drained, not done within the --timeout: Draining: the attempt ends: spec.suspend is true; see "
    )
    assert message in capsys.readouterr().err


def test_ctrl_c_says_what_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    story = Story(Trees(ads(suspend=False)), Trees(ads(DRAINING, suspend=True)))
    story.pause = interrupt
    assert story.run("drain") == 130
    assert capsys.readouterr().err == (
        "holdfast: ads is being drained, and that goes on; take it back with holdfast resume ads -n apps "
        "--context 'my test'\n"
    )


def test_an_app_that_is_missing_or_forbidden_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert Story(Trees()).run("drain") == 1
    assert "there is no StreamApp ads in namespace apps" in capsys.readouterr().err
    assert Story(UserActionError("you may not")).run("resume") == 1
    assert capsys.readouterr().err == "holdfast: you may not\n"


def test_programs_get_a_line_for_each_change(capsys: pytest.CaptureFixture[str]) -> None:
    draining, rests = (Trees(ads(said, suspend=True), events=(ENDED,)) for said in (DRAINING, RESTS))
    assert Story(Trees(ads(suspend=False)), draining, draining, rests).run("drain", output="json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["reason"], one["suspended"]) for one in lines] == [("Draining", False), ("Suspended", True)]
    assert Story(Trees(ads(RESTS, suspend=True))).run("drain", output="json") == 0
    assert json.loads(capsys.readouterr().out)["suspended"] is True


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("drain",), "required: APP"),
        (("resume", "ads", "--timeout", "0s"), "0s is no duration"),
        (("drain", "ads", "-n", "a/../b", "--kubeconfig", "kubeconfig"), "a/../b is no namespace"),
    ],
)
def test_what_cannot_be_asked_is_said(holdfast: Holdfast, arguments: tuple[str, ...], message: str) -> None:
    Path("kubeconfig").write_text("{current-context: a, contexts: [{name: a, context: {}}]}")
    ran = holdfast(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_without_the_kubernetes_package_they_say_what_to_install(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast_cli.cluster.target.find_spec", lambda _: None)
    for verb in ("drain", "resume", "logs"):
        ran = holdfast(verb, "ads")
        assert (
            ran.err
            == f"holdfast: holdfast {verb} needs kubernetes: in a checkout of Holdfast, pip install '.[cluster]'\n"
        )
