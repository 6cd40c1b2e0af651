"""What a release gives apps that do not say it: a run keeps what it began with."""

import json
from dataclasses import replace
from typing import Any

import pytest

from holdfast.reasons import Reason
from holdfast.spec.app import BegunAttempt, Status
from holdfast.spec.defaults import OfferedDefaults, spec_with_defaults, spec_without_defaults
from holdfast.spec.runtime import AppDefaults, Checkpoint
from holdfast_operator.decide.decision import Decision, StartDriver
from holdfast_operator.decide.facts import read_spec
from holdfast_operator.decide.rules import decide
from holdfast_operator.examine.start_checks import judge
from holdfast_operator.manifests.driver_pod import APP_KEY, AppOwner, Installation, attempt_config_map, spark_settings
from holdfast_operator.manifests.release_defaults import (
    ReleaseDefaults,
    ReleaseDefaultsInvalidError,
    read_release_defaults,
)
from tests.operator.apps import LIMITS, NOW, POLICY, app, condition, seen

OLD = AppDefaults(checkpoint=Checkpoint(claim="checkpoints"), storage_class="local")
NEW = AppDefaults(checkpoint=Checkpoint(location="s3a://bucket/apps"), storage_class="fast")
PLAIN: dict[str, Any] = {"runtime": {"driver": {"cores": 2}}}
OWNER = AppOwner("ads", "apps", "uid-of-app")


def looked(release: AppDefaults, status: Status | None = None, **spec: Any) -> Decision:
    """What the operator does with an app when its release gives this."""
    observed = app(status, **spec)
    offered = ReleaseDefaults(release).offered("apps", observed.status)
    parsed = read_spec(observed.tree, offered)
    snapshot = seen(observed)
    verdict = judge(snapshot.grounds, parsed, POLICY)
    return decide(snapshot, replace(verdict, fingerprint=parsed.fingerprint), NOW, LIMITS)


def start(decision: Decision) -> StartDriver:
    (action,) = [action for action in decision.actions if isinstance(action, StartDriver)]
    return action


def test_an_app_that_says_nothing_gets_what_the_release_has() -> None:
    decision = looked(OLD, **PLAIN)
    assert decision.status.defaults == OLD
    starting = start(decision)
    assert starting.app.spec.runtime.checkpoint == OLD.checkpoint
    assert "local" in spark_settings(starting.app, 1, OWNER, Installation("image")).values()
    orders = attempt_config_map(starting, app(**PLAIN).tree, OWNER, Installation("image"))
    assert json.loads(orders["data"][APP_KEY])["spec"] == {
        **app(**PLAIN).tree["spec"],
        "runtime": {**PLAIN["runtime"], "checkpoint": {"claim": "checkpoints", **LONG}},
        "state": {"storageClass": "local"},
    }


LONG = {"location": "file:///checkpoints", "retention": "168h"}


def test_without_a_default_a_checkpoint_is_missing() -> None:
    decision = looked(AppDefaults(), **PLAIN)
    assert condition(decision, "Ready") == ("False", Reason.CHECKPOINT_MISSING)
    assert decision.status.defaults is None


def test_what_the_spec_says_counts_before_the_release() -> None:
    spec: dict[str, Any] = {"runtime": {"checkpoint": {"location": "s3a://own/x"}}, "state": {"storageClass": "own"}}
    decision = looked(OLD, **spec)
    assert decision.status.defaults is None
    started_app = start(decision).app
    assert started_app.spec.runtime.checkpoint == Checkpoint(location="s3a://own/x")
    assert started_app.spec.state.storage_class == "own"


def test_state_without_claims_gets_no_storage_class() -> None:
    decision = looked(OLD, **PLAIN, state={"location": "Pod"})
    assert decision.status.defaults == AppDefaults(checkpoint=OLD.checkpoint)


def test_a_run_keeps_what_it_began_with() -> None:
    begun_status = looked(OLD, **PLAIN).status
    later = looked(NEW, begun_status.model_copy(update={"ended": "Failed"}), **PLAIN)
    assert start(later).app.spec.runtime.checkpoint == OLD.checkpoint
    assert later.status.defaults == OLD
    assert later.status.spec_hash == begun_status.spec_hash


def test_a_run_that_began_without_gets_none_later() -> None:
    spec: dict[str, Any] = {"runtime": {"checkpoint": {"location": "s3a://own/x"}}}
    begun_status = looked(AppDefaults(), **spec).status
    later = looked(OLD, begun_status.model_copy(update={"ended": "Failed"}), **spec)
    assert later.status.defaults is None
    assert start(later).app.spec.state.storage_class is None


def test_a_new_run_takes_what_the_release_has_now() -> None:
    begun_status = looked(OLD, **PLAIN).status.model_copy(update={"ended": "Drained"})
    assert looked(NEW, begun_status, **PLAIN, runId="2").status.defaults == NEW


def test_other_defaults_are_no_other_spec() -> None:
    specs = [read_spec(app(**PLAIN).tree, OfferedDefaults(given)) for given in (OLD, NEW, AppDefaults())]
    assert len({spec.fingerprint for spec in specs}) == 1


def test_going_back_takes_what_the_last_begun_attempt_had() -> None:
    begun_attempt = BegunAttempt(run_id="1", attempt=3, spec_hash="x", defaults=OLD)
    status = Status(run_id="2", attempt=1, defaults=NEW, begun=begun_attempt)
    offered = ReleaseDefaults(NEW).after_rollback(status)
    parsed = read_spec(app(**PLAIN).tree, offered)
    assert parsed.defaults == OLD


@pytest.mark.parametrize("spec", [{}, {"runtime": {"image": "x"}}, {"state": {"size": "1Gi"}, "runtime": {}}])
def test_defaults_leave_a_spec_as_they_came(spec: dict[str, Any]) -> None:
    whole = spec_with_defaults(spec, OLD)
    assert whole["state"]["storageClass"] == "local"
    without = spec_without_defaults(whole, OLD)
    assert {part: fields for part, fields in without.items() if fields} == {
        part: fields for part, fields in spec.items() if fields
    }


def test_a_namespace_has_its_own_before_the_releases() -> None:
    text = {"": {"checkpoint": {"claim": "all"}, "storageClass": "slow"}, "team": {"storageClass": "fast"}}
    defaults = read_release_defaults(json.dumps(text))
    assert defaults.of("team") == AppDefaults(checkpoint=Checkpoint(claim="all"), storage_class="fast")
    assert defaults.of("other") == AppDefaults(checkpoint=Checkpoint(claim="all"), storage_class="slow")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[]", "no object"),
        ('{"": {"checkpoint": {}}}', "a checkpoint has location"),
        ('{"team": {"checkpoint": {"claim": "a", "location": "s3a://b/c"}}}', "of team: checkpoint: there is a claim"),
        ('{"": {"checkpoint": {"location": "bucket"}}}', "address of a folder"),
        ('{"": {"image": "x"}}', "image"),
    ],
)
def test_what_no_app_could_say_is_refused_at_once(text: str, sentence: str) -> None:
    with pytest.raises(ReleaseDefaultsInvalidError, match=sentence):
        read_release_defaults(text)
