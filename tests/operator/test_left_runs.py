"""Claims of runs that an app has left: deleted until none is there, whatever becomes of the calls."""

import pytest

from holdfast.protocol.names import app_id, executor_set
from holdfast.protocol.pods import PodController, PodPhase, PodState
from holdfast.reasons import Reason
from holdfast.spec.app import MOST_LEFT_RUNS, Status
from holdfast_operator.decide.decision import Decision, EndExecutorSet, GiveUpRunClaims, LookAgain, RemoveFinalizer
from holdfast_operator.decide.facts import AppFinding, AppObject
from tests.operator.apps import NOW, TREE, after, app, decided, driver, report, seen


def given_up(decision: Decision) -> list[str]:
    """Spark's ids of the runs whose claims are deleted."""
    return [action.app_id for action in decision.actions if isinstance(action, GiveUpRunClaims)]


def ended(run: str, *left: str) -> Status:
    """The status of an app whose attempt in this run has ended."""
    return after(run_id=run, ended="Drained", left_runs=left)


def test_a_run_is_left_when_another_is_written_down() -> None:
    decision = decided(seen(app(ended("1"), runId="2")))
    assert (decision.status.run_id, decision.status.left_runs) == ("2", ("1",))
    assert given_up(decision) == [app_id("ads", "1")]
    assert not isinstance(decision.actions[-1], GiveUpRunClaims), "claims go before the next attempt starts"


def test_claims_are_deleted_until_a_look_finds_none() -> None:
    status = decided(seen(app(ended("1"), runId="2"))).status
    again = decided(seen(app(status, runId="2"), claimed=frozenset({"1"})))
    assert (given_up(again), again.status.left_runs) == ([app_id("ads", "1")], ("1",))
    over = decided(seen(app(again.status, runId="2")))
    assert (given_up(over), over.status.left_runs) == ([], ())


def test_an_app_at_rest_looks_again_while_claims_are_there() -> None:
    status = ended("2", "1")
    waits = decided(seen(app(status, runId="2", suspend=True), claimed=frozenset({"1"})))
    assert (given_up(waits), isinstance(waits.wake, LookAgain)) == ([app_id("ads", "1")], True)
    rests = decided(seen(app(waits.status, runId="2", suspend=True)))
    assert (given_up(rests), isinstance(rests.wake, LookAgain)) == ([], False)


def test_a_run_that_is_taken_up_again_keeps_its_claims() -> None:
    decision = decided(seen(app(ended("2", "1"), runId="1"), claimed=frozenset({"1"})))
    assert (decision.status.run_id, decision.status.left_runs) == ("1", ("2",))
    assert given_up(decision) == [app_id("ads", "2")]


def test_all_claims_go_before_a_deleted_app() -> None:
    of = AppObject("ads", "apps", "u", 2, TREE, ended("1", "0"), deleting_since=NOW, finalizer=True)
    decision = decided(seen(of, claimed=frozenset({"0", "1"})))
    assert given_up(decision) == [app_id("ads", "0"), app_id("ads", "1")]
    assert (RemoveFinalizer() in decision.actions, isinstance(decision.wake, LookAgain)) == (False, True)
    assert decided(seen(of)).actions == (RemoveFinalizer(),)


@pytest.mark.parametrize("status", [after(run_id="1", ended="Drained"), ended("2", "1")])
def test_what_makes_claims_again_goes_before_them(status: Status) -> None:
    of = AppObject("ads", "apps", "u", 2, TREE, status, deleting_since=NOW, finalizer=True)
    maker, other = (PodController(executor_set("ads", run), f"uid-{run}") for run in ("1", "3"))
    pods = tuple(
        PodState(f"{made_by.name}-0", f"pod-of-{made_by.uid}", PodPhase.FAILED, role="executor", made_by=made_by)
        for made_by in (maker, other)
    )
    decision = decided(seen(of, executors=pods, claimed=frozenset({"1"})))
    assert decision.actions == (EndExecutorSet(maker.name, maker.uid), GiveUpRunClaims(app_id("ads", "1")))
    without_pods = decided(seen(of, claimed=frozenset({"1"}), executor_sets={"1": maker}))
    assert without_pods.actions == decision.actions


def test_claims_hold_up_no_namespace_that_is_deleted() -> None:
    refused = AppFinding(Reason.DELETING, "the namespace is being terminated")
    decision = decided(seen(app(ended("2", "1"), runId="2"), claimed=frozenset({"1"}), refused=refused))
    assert decision.actions == (RemoveFinalizer(),)


@pytest.mark.parametrize("runs", [MOST_LEFT_RUNS, 3 * MOST_LEFT_RUNS])
def test_the_status_remembers_the_last_runs(runs: int) -> None:
    status, claimed = ended("0"), frozenset(map(str, range(runs)))
    for run in range(1, runs):
        status = decided(seen(app(status, runId=str(run)), claimed=claimed)).status.model_copy(update={"ended": "Lost"})
    assert status.left_runs == tuple(map(str, range(runs)))[:-1][-MOST_LEFT_RUNS:]
    assert given_up(decided(seen(app(after(), runId="1"), driver=driver(), report=report()))) == []
